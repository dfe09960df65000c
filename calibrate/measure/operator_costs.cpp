#include "measure/operator_costs.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace rehearse::inline calibrate {
namespace {

using Values = std::vector<c10::IValue>;
using Tensors = std::vector<at::Tensor>;
using Count = double (*)(const OperatorCall& call);

double elements(const at::Tensor& tensor) { return static_cast<double>(tensor.numel()); }

// --- products ------------------------------------------------------------------------------------

/// Every element of the output (transposed: of the input) is multiplied by one kernel: all elements
/// of the weight but its first dimension.
double convolution_flops(const at::Tensor& weight, const at::Tensor& input,
                         const at::Tensor& output, bool transposed) {
  const double kernel = elements(weight) / static_cast<double>(weight.size(0));
  return 2 * kernel * elements(transposed ? input : output);
}

/// convolution(input, weight, bias, stride, padding, dilation, transposed, ...)
double convolution(const OperatorCall& call) {
  return convolution_flops(call.inputs.at(1).toTensor(), call.inputs.at(0).toTensor(),
                           call.outputs.at(0).toTensor(), call.inputs.at(6).toBool());
}

/// convolution_backward(gradient, input, weight, bias_sizes, stride, padding, dilation, transposed,
/// output_padding, groups, mask): of the input and of the weight as the mask says. The bias' is a
/// sum.
double convolution_backward(const OperatorCall& call) {
  const double forward =
      convolution_flops(call.inputs.at(2).toTensor(), call.inputs.at(1).toTensor(),
                        call.inputs.at(0).toTensor(), call.inputs.at(7).toBool());
  const c10::List<bool> mask = call.inputs.back().toBoolList();
  return forward * ((mask.get(0) ? 1 : 0) + (mask.get(1) ? 1 : 0));
}

/// Each element of the output sums over the left factor's last dimension.
template <std::size_t kLeft>
double matrix_product(const OperatorCall& call) {
  const at::Tensor left = call.inputs.at(kLeft).toTensor();
  return 2 * elements(call.outputs.at(0).toTensor()) * static_cast<double>(left.size(-1));
}

/// Queries (batch, heads, tokens, width), keys, values: queries by keys, the result by values.
template <std::size_t kQueries>
double attention(const OperatorCall& call) {
  const at::Tensor queries = call.inputs.at(kQueries).toTensor();
  const at::Tensor keys = call.inputs.at(kQueries + 1).toTensor();
  const at::Tensor values = call.inputs.at(kQueries + 2).toTensor();
  const double pairs = static_cast<double>(queries.size(0) * queries.size(1) * queries.size(2)) *
                       static_cast<double>(keys.size(2));
  return 2 * pairs * static_cast<double>(queries.size(3) + values.size(3));
}

/// Two products have four gradients.
double attention_backward(const OperatorCall& call) { return 2 * attention<1>(call); }

const std::unordered_map<std::string, Count>& products() {
  static const std::unordered_map<std::string, Count> kAll = [] {
    std::unordered_map<std::string, Count> all = {
        {"aten::convolution", convolution},
        {"aten::_convolution", convolution},
        {"aten::convolution_overrideable", convolution},
        {"aten::convolution_backward", convolution_backward},
        {"aten::convolution_backward_overrideable", convolution_backward},
        {"aten::mm", matrix_product<0>},
        {"aten::bmm", matrix_product<0>},
        {"aten::mv", matrix_product<0>},
        {"aten::dot", matrix_product<0>},
        {"aten::addmm", matrix_product<1>},
        {"aten::_addmm_activation", matrix_product<1>},
        {"aten::baddbmm", matrix_product<1>},
        {"aten::addmv", matrix_product<1>}};
    for (const char* kernel : {"flash_attention", "flash_attention_for_cpu", "efficient_attention",
                               "cudnn_attention", "fused_attention_overrideable"}) {
      const std::string name = std::string("aten::_scaled_dot_product_") + kernel;
      all[name] = attention<0>;
      all[name + "_backward"] = attention_backward;
    }
    return all;
  }();
  return kAll;
}

// --- traffic -------------------------------------------------------------------------------------

Tensors tensors_in(const Values& values) {
  Tensors tensors;
  const auto add = [&tensors](const at::Tensor& tensor) {
    if (tensor.defined()) tensors.push_back(tensor);
  };
  for (const c10::IValue& value : values) {
    if (value.isTensor()) add(value.toTensor());
    if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) add(tensor);
    }
  }
  return tensors;
}

double bytes(const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided) return 0;
  double count = static_cast<double>(tensor.element_size());
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.stride(i) != 0 || tensor.size(i) == 0) count *= static_cast<double>(tensor.size(i));
  }
  return count;
}

double bytes(const Tensors& tensors) {
  double sum = 0;
  for (const at::Tensor& tensor : tensors) sum += bytes(tensor);
  return sum;
}

bool allocates(const std::string& name) {
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty") ||
         name.starts_with("aten::resize");
}

/// In-place operators end so: "aten::relu_".
bool in_place(const std::string& name) { return name.ends_with('_'); }

/// In-place operators that do not read what they overwrite.
bool overwrites(const std::string& name) {
  static const std::unordered_set<std::string> kAll = {
      "aten::copy_",      "aten::fill_",        "aten::zero_",   "aten::normal_",
      "aten::uniform_",   "aten::bernoulli_",   "aten::random_", "aten::log_normal_",
      "aten::geometric_", "aten::exponential_", "aten::cauchy_",
  };
  return kAll.count(name) > 0;
}

/// A view, or an input given back as it is: every output is an input's memory.
bool only_views(const Tensors& outputs, const Tensors& inputs) {
  return std::all_of(outputs.begin(), outputs.end(), [&inputs](const at::Tensor& output) {
    return std::any_of(inputs.begin(), inputs.end(), [&output](const at::Tensor& input) {
      return output.has_storage() && input.has_storage() && output.is_alias_of(input);
    });
  });
}

}  // namespace

Flops product_flops(const OperatorCall& call) {
  const auto product = products().find(call.name);
  return Flops(product == products().end() ? 0 : product->second(call));
}

Bytes moved_bytes(const OperatorCall& call) {
  const Tensors inputs = tensors_in(call.inputs), outputs = tensors_in(call.outputs);
  if (allocates(call.name)) return Bytes(0);
  if (!in_place(call.name) && only_views(outputs, inputs)) return Bytes(0);
  const double read = bytes(inputs) - (overwrites(call.name) ? bytes(inputs.front()) : 0);
  return Bytes(read + bytes(outputs));
}

}  // namespace rehearse::inline calibrate
