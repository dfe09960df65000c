// LFM2's short convolution: Lfm2ShortConv.cuda_kernels_forward.
#include "model/mixers.hpp"
#include "model/tape/library.hpp"

namespace rehearse::inline model {
namespace {

using namespace tape;

class GatedConvolution final : public Mixer {
 public:
  explicit GatedConvolution(const ShortConvolution& dimensions) : o(dimensions) {}

  MixerProducts products() const override { return {{3 * o.channels}, {"in_proj"}, o.bias}; }
  std::vector<MixerParameter> parameters() const override {
    std::vector<MixerParameter> all = {{{o.channels, o.kernel}}};
    if (o.bias) all.push_back({o.channels});
    return all;
  }
  std::int64_t channels() const override { return o.channels; }
  std::vector<MixerPart> parts() const override {
    return {{o.channels, "channels of short convolutions"}};
  }
  MixerPtr share(std::int64_t ranks) const override {
    ShortConvolution part = o;
    part.channels /= ranks;
    return mixer(part);
  }
  /// Views of one product, and a copy that has the channels side by side again.
  Tensor play(Recorder& r, const Tensors& inputs, const Tensors& parameters) const override {
    const Tensors parts = chunk(r, inputs[0], 3);
    const Tensor scaled = multiply(r, parts[0], parts[2]);
    Tensors read = {scaled};
    for (const Tensor& parameter : parameters) read.push_back(parameter);
    const Tensor mixed = call_library(r, {.op = "causal_conv1d",
                                          .inputs = read,
                                          .output = r.take(scaled.sizes, scaled.type),
                                          .saved = {scaled}});
    return clone(r, multiply(r, parts[1], mixed));
  }

 private:
  ShortConvolution o;
};

}  // namespace

MixerPtr mixer(const ShortConvolution& dimensions) {
  return std::make_shared<GatedConvolution>(dimensions);
}

}  // namespace rehearse::inline model
