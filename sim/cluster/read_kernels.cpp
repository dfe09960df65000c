#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cluster/parts.hpp"
#include "config/record_set.hpp"
#include "kernels/kernel_curves.hpp"

namespace rehearse::inline cluster {
namespace {

double share(Map& map, const std::string& key) {
  const Value value = map.require(key);
  const double share = value.as_positive_number();
  if (share > 1) value.fail("no kernel reaches more than all of it; got \"" + value.shown() + "\"");
  return share;
}

/// The row of a relative, which must say its shares itself.
KernelShares read_relative(const Value& value) {
  const std::string name = value.as_choice(gpu_names());
  std::optional<KernelShares> kernels = known_gpu(name).kernels;
  if (!kernels || !kernels->relative.empty()) {
    value.fail(fmt::format("of {} itself no shares are known", name),
               "name a GPU whose `kernels` are a map in platforms/gpus.yaml, such as A100-SXM-80");
  }
  kernels->relative = name;
  return *kernels;
}

double ratio(FlopsPerSecond measured, FlopsPerSecond stated) {
  return stated > FlopsPerSecond(0) ? measured / stated : 1;
}

const ProductCurve& curve_of(const KernelCurves& curves, const std::string& format) {
  const auto found = curves.products.find(format);
  return found == curves.products.end() ? curves.products.begin()->second : found->second;
}

/// What speaks where no curve does, as shares of what the cluster says of the GPU.
KernelShares shares_of(const KernelCurves& curves, const Gpu& gpu, const std::string& file) {
  const DeviceKernels& device = *curves.device;
  const FlopsPerSecond tensor = gpu.matrix_peak(Precision::bf16);
  const FlopsPerSecond measured = device.tensor > FlopsPerSecond(0) ? device.tensor : device.fp32;
  const double memory = device.memory_bandwidth / gpu.memory_bandwidth;
  const ProductCurve& product = curve_of(curves, "tensor");
  return {.matrix = product.share * ratio(measured, tensor),
          .matrix_fp32 = curve_of(curves, "fp32").share * ratio(device.fp32, gpu.fp32),
          .matrix_memory = product.traffic * memory,
          .attention = curves.attention.empty()
                           ? product.share * ratio(measured, tensor)
                           : curves.attention.back().forward.share * ratio(measured, tensor),
          .memory = device.copies * memory,
          .launch = device.launch,
          .source = "measured " + curves.date + ", " + file};
}

}  // namespace

void read_measured_kernels(const Value& value, Cluster& cluster) {
  const std::filesystem::path file = value.folder() / value.as_string();
  const char* const remedy = "name a file that `rehearse calibrate kernels` wrote";
  if (!is_input_file(file)) value.fail(fmt::format("no file \"{}\"", file.string()), remedy);
  const std::shared_ptr<const KernelCurves> curves = read_kernel_curves(file);
  if (!curves->device || curves->products.empty())
    value.fail("this file does not say what its shares are shares of", remedy);
  std::set<std::string> kinds;
  for (NodeGroup& group : cluster.groups) {
    if (group.node.gpus == 0) continue;
    kinds.insert(group.node.gpu.name);
    group.node.gpu.curves = curves;
    group.node.gpu.kernels = shares_of(*curves, group.node.gpu, file.string());
    group.node.gpu.sms = static_cast<int>(curves->sms);
  }
  if (kinds.size() > 1) {
    value.fail(
        fmt::format("the cluster has {} kinds of GPUs; whose kernels are these?", kinds.size()),
        "give a cluster with one kind of GPU");
  }
}

KernelShares read_kernel_shares(const Value& value) {
  if (value.is_scalar()) return read_relative(value);
  Map map = value.as_map();
  KernelShares kernels;
  kernels.matrix = share(map, "matrix");
  kernels.matrix_fp32 = map.has("matrix_fp32") ? share(map, "matrix_fp32") : kernels.matrix;
  kernels.memory = share(map, "memory");
  kernels.matrix_memory = map.has("matrix_memory") ? share(map, "matrix_memory") : kernels.memory;
  kernels.attention = share(map, "attention");
  kernels.launch = map.require("launch").as_seconds();
  const std::optional<Value> source = map.optional("source");
  kernels.source = source ? source->as_string() : "given";
  if (const auto relative = map.optional("relative"))
    kernels.relative = relative->as_choice(gpu_names());
  map.finish();
  return kernels;
}

}  // namespace rehearse::inline cluster
