#include "model/captured/kernel_names.hpp"

#include <set>
#include <string_view>

namespace rehearse::captured {
namespace {

std::set<std::string_view> words_of(std::string_view text) {
  std::set<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = text.find(' ');
    words.insert(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return words;
}

}  // namespace

bool is_pointwise_name(const std::string& name) {
  static const std::set<std::string_view> kNames = words_of(
      "_foreach_add _to_copy abs add addcdiv addcmul addmv arange atan2 bernoulli bitwise_and "
      "bitwise_not bitwise_or cat clamp clamp_max clamp_min clone constant_pad_nd copy cos "
      "div elu elu_backward eq erf exp expm1 fill flip floor floor_divide full full_like ge "
      "gelu gelu_backward glu glu_backward gt hardsigmoid hardsigmoid_backward hardswish "
      "hardswish_backward hardtanh hardtanh_backward le leaky_relu leaky_relu_backward lerp "
      "linalg_vector_norm log log1p log_sigmoid_backward log_sigmoid_forward logical_and "
      "logical_not logical_or lt masked_fill maximum mean minimum mish mish_backward mul "
      "native_dropout native_dropout_backward ne neg new_ones new_zeros nll_loss2d_backward "
      "nll_loss_backward norm ones ones_like pow reciprocal relu remainder repeat roll round "
      "rsqrt rsub scalar_tensor select_backward sgn sigmoid sigmoid_backward silu "
      "silu_backward sin slice_backward softplus softplus_backward sqrt square stack std sub "
      "sum tanh tanh_backward threshold_backward tril triu unfold_backward var var_mean where "
      "zero zeros zeros_like ");
  return kNames.contains(name);
}

bool is_row_name(const std::string& name) {
  static const std::set<std::string_view> kNames = words_of(
      "_fused_rms_norm _fused_rms_norm_backward _log_softmax _log_softmax_backward_data "
      "_softmax _softmax_backward_data _weight_norm_interface _weight_norm_interface_backward "
      "amax argmax logsumexp max native_group_norm native_group_norm_backward "
      "native_layer_norm native_layer_norm_backward nll_loss2d_forward nll_loss_forward topk ");
  return kNames.contains(name);
}

}  // namespace rehearse::captured
