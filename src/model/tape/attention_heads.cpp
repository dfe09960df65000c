// Queries, keys and values by heads, as families' modules make them of their products.
#include <algorithm>

#include "model/tape/operators.hpp"

namespace rehearse::tape {
namespace {

/// (samples, heads, tokens, width) of (samples, tokens, heads * width).
Tensor split_heads(Recorder& recorder, const Tensor& input, std::int64_t heads) {
  if (input.dimensions() == 4) return input;
  const Tensor four =
      reshape(recorder, input, {input.sizes[0], input.sizes[1], heads, input.sizes[2] / heads});
  return transpose(recorder, four, 1, 2);
}

/// FalconAttention._split_heads: a key and a value of each group of queries are indexed, and
/// copied for each of these.
Tensors indexed_heads(Recorder& recorder, const Tensor& whole, const Attention& o) {
  const std::int64_t groups = o.kv_heads, each = o.heads / groups;
  const Sizes five = {whole.sizes[0], whole.sizes[1], groups, each + 2, o.head_width};
  const Tensor grouped = reshape(recorder, whole, five);
  Sizes queries = five, one = five;
  queries[3] = each;
  one[3] = 1;
  Tensors three = {slice(recorder, grouped, 3, each)};
  for (int side = 0; side < 2; ++side) {
    const Tensor place = recorder.workspace(1, Type::int64);
    three.push_back(expand(recorder, gathered(recorder, grouped, place, one), queries));
  }
  for (Tensor& side : three) {
    const Sizes four = {five[0], five[1], o.heads, o.head_width};
    side = transpose(recorder, reshape(recorder, side, four), 1, 2);
  }
  return three;
}

}  // namespace

/// Queries, keys and values as three values of one node, if they came as one tensor.
Tensors heads_of(Recorder& recorder, const Tensors& inputs, const Attention& o) {
  Tensors three(
      inputs.begin(),
      inputs.begin() + std::min<std::ptrdiff_t>(3, static_cast<std::ptrdiff_t>(inputs.size())));
  if (three.size() == 1 && o.spelling.by_head) {
    const Tensor& whole = inputs.front();
    const Sizes four = {whole.sizes[0], whole.sizes[1], o.heads, whole.sizes[2] / o.heads};
    return chunk(recorder, transpose(recorder, reshape(recorder, whole, four), 1, 2), 3);
  }
  if (three.size() == 1 && o.spelling.single_key) {
    three = split(recorder, unsqueeze(recorder, inputs.front(), 1), 3,
                  {o.heads * o.head_width, o.head_width, o.head_width});
    const Sizes four = {inputs[0].sizes[0], inputs[0].sizes[1], o.heads, o.head_width};
    three[0] = transpose(recorder, reshape(recorder, three[0], four), 1, 2);
    return three;
  }
  if (three.size() == 1 && o.spelling.selects) {
    const Tensor& whole = inputs.front();
    const Tensor five =
        reshape(recorder, whole, {whole.sizes[0], whole.sizes[1], o.heads, 3, o.head_width});
    three.clear();
    for (int side = 0; side < 3; ++side)
      three.push_back(transpose(recorder, select(recorder, five, 3), 1, 2));
    return three;
  }
  if (three.size() == 1 && o.spelling.indexes) return indexed_heads(recorder, inputs.front(), o);
  const std::vector<std::int64_t> widths = {o.heads * o.head_width, o.kv_heads * o.head_width,
                                            o.kv_heads * o.values()};
  if (three.size() == 1 && o.spelling.slices) {
    three.clear();
    for (const std::int64_t width : widths)
      three.push_back(slice(recorder, inputs.front(), 2, width));
  } else if (three.size() == 1) {
    three = split(recorder, inputs.front(), 2, widths);
  }
  const std::int64_t counts[] = {o.heads, o.kv_heads, o.kv_heads};
  if (o.spelling.scales_queries) three[0] = scale(recorder, three[0]);
  for (std::size_t i = 0; i < 3; ++i) three[i] = split_heads(recorder, three[i], counts[i]);
  return three;
}

}  // namespace rehearse::tape
