// Linear layers, side by side, and the adapters beside them.
#include <algorithm>
#include <utility>

#include "model/tape/operators.hpp"
#include "model/tape/play.hpp"

namespace rehearse::tape {

Player::Value Player::linears(const Layer& layer, const Tensor& part) {
  Value outputs;
  std::uint32_t parameter = layer.parameter;
  const std::int64_t positions = part.elements() / layer.in.channels;
  const std::int64_t before = recorder_.batch() * layer.in.positions();
  const std::int64_t after = recorder_.batch() * layer.out.positions();
  const bool gathers = layer.dtensor && after > before;
  const Tensor x = gathers ? exchanged(recorder_, part, after) : part;
  std::optional<Tensor> narrow;
  if (layer.narrows && is_narrow(recorder_.precision()))
    narrow = recorder_.take(recorder_.narrow_bytes(x.elements()), Type::byte);
  for (const std::int64_t channels : layer.channels) {
    LinearOptions options{.weight = {layer.tied ? 0 : layer.unit, layer.tied ? 0 : parameter,
                                     layer.transposed ? Sizes{layer.in.channels, channels}
                                                      : Sizes{channels, layer.in.channels}},
                          .out = channels,
                          .transposed = layer.transposed,
                          .turned = layer.turned,
                          .function = layer.tied,
                          .gathered = after > before && !gathers ? after : 0,
                          .scattered = after < before && positions == before ? after : 0,
                          .narrow = narrow,
                          .float8 = layer.narrows && recorder_.float8() != Float8::none};
    if (!layer.tied) ++parameter;
    if (layer.bias) options.bias = Parameter{layer.unit, parameter++, channels};
    const ParameterTrait trait = recorder_.trait(options.weight.unit, options.weight.index);
    Tensor output = linear(recorder_, x, options);
    if (outputs.size() < layer.kept_products.size() && layer.kept_products[outputs.size()])
      recorder_.keep(output);
    for (const Adapter& adapter : layer.adapters) {
      if (adapter.side != outputs.size()) continue;
      AdapterOptions how = adapter_options(layer, adapter, positions);
      if (gathers) how.down.gathered = 0;
      how.quantized = trait.quantized();
      output = adapted(recorder_, std::exchange(output, {}), x, how);
    }
    outputs.push_back(std::move(output));
  }
  return outputs;
}

AdapterOptions Player::adapter_options(const Layer& layer, const Adapter& adapter,
                                       std::int64_t positions) const {
  const std::int64_t all = layer.channels[adapter.side];
  const std::int64_t out = adapter.padded > 0 ? adapter.padded : all;
  const std::int64_t before = recorder_.batch() * layer.in.positions();
  const std::int64_t after = recorder_.batch() * layer.out.positions();
  const bool scatters = positions == before && after < before;
  return {.down = {.weight = {adapter.unit, adapter.parameter, {adapter.rank, layer.in.channels}},
                   .out = adapter.rank,
                   .gathered = after > before ? after : 0},
          .up = {.weight = {adapter.unit, adapter.parameter + 1, {out, adapter.up / out}},
                 .out = out,
                 .scattered = scatters ? after : 0},
          .dropout = adapter.dropout,
          .padded = adapter.padded > 0 ? all : 0};
}

}  // namespace rehearse::tape
