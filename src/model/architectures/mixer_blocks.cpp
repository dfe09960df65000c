// The parts of blocks that mix tokens without attention.
#include "model/architectures/transformer_build.hpp"

namespace rehearse::inline model {

void append_linear_attention(TransformerBuild& b) {
  const LinearAttention& o = *b.t.linear;
  b.layers.linear({2 * o.keys() + 2 * o.values(), 2 * o.value_heads}, false, Split::columns);
  b.layers.name_outputs({"in_proj_qkvz", "in_proj_ba"});
  b.layers.delta_net(o);
  b.layers.linear({b.t.hidden}, false, Split::rows);
  b.layers.name_outputs({"out_proj"});
}

void append_state_space(TransformerBuild& b) {
  const StateSpace& o = *b.t.state_space;
  b.layers.linear({o.channels() + o.convolved() + o.heads}, false, Split::columns);
  b.layers.name_outputs({"in_proj"});
  b.layers.state_space(o);
  b.layers.linear({b.t.hidden}, false, Split::rows);
  b.layers.name_outputs({"out_proj"});
}

void append_short_convolution(TransformerBuild& b) {
  const ShortConvolution& o = *b.t.short_convolution;
  b.layers.linear({3 * o.channels}, o.bias, Split::columns);
  b.layers.name_outputs({"in_proj"});
  b.layers.short_convolution(o);
  b.layers.linear({b.t.hidden}, o.bias, Split::rows);
  b.layers.name_outputs({"out_proj"});
}

}  // namespace rehearse::inline model
