// Parameters as they stand or as autocast copies them; copies and views of what is there.
#include <numeric>

#include "model/tape/operators.hpp"

namespace rehearse::tape {
namespace {

Type lower_type() { return Type::float16; }

}  // namespace

Tensor parameter(Recorder& recorder, const Parameter& which) {
  return recorder.parameter(which.unit, which.index, which.elements);
}

Tensor product_parameter(Recorder& recorder, const Parameter& which) {
  const Tensor whole = parameter(recorder, which);
  if (!recorder.autocast()) return whole;
  // at::autocast::cached_cast keeps copies of leaves that need a gradient.
  if (!whole.needs_gradient()) return to(recorder, whole, lower_type());
  Tensor& copy = recorder.cached_copy(which.unit, which.index);
  if (!copy.defined) {
    copy = to(recorder, whole, lower_type());
    copy.defined = true;
    recorder.mark_autocast_copy(copy);
  }
  return copy;
}

Tensor to(Recorder& recorder, const Tensor& input, Type type) {
  if (input.type == type) return input;
  Tensor output = recorder.take(input.elements, type);
  recorder.connect(
      output, {input},
      [&recorder, elements = input.elements, before = input.type](const Gradients&) -> Gradients {
        return {recorder.take(elements, before)};
      });
  return output;
}

Tensor lower(Recorder& recorder, const Tensor& input) {
  return recorder.autocast() ? to(recorder, input, lower_type()) : input;
}

Tensor widen_on_cuda(Recorder& recorder, const Tensor& input) {
  return recorder.autocast() && !recorder.on_cpu() ? to(recorder, input, Type::float32) : input;
}

Tensors chunk(Recorder& recorder, const Tensor& whole, std::size_t count) {
  return split(recorder, whole, std::vector<std::int64_t>(count, 1));
}

Tensors split(Recorder& recorder, const Tensor& whole, const std::vector<std::int64_t>& channels) {
  const std::int64_t all = std::accumulate(channels.begin(), channels.end(), std::int64_t{0});
  Tensors parts(channels.size(), whole.detached());
  std::vector<Tensor*> outputs;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i].elements = whole.elements / all * channels[i];
    parts[i].dense = parts[i].contiguous = false;
    outputs.push_back(&parts[i]);
  }
  recorder.connect(outputs, {whole},
                   [&recorder, elements = whole.elements, type = whole.type](
                       const Gradients&) -> Gradients { return {recorder.take(elements, type)}; });
  return parts;
}

Tensor concatenate(Recorder& recorder, const Tensors& parts, bool contiguous_slices) {
  std::int64_t elements = 0;
  for (const Tensor& part : parts) elements += part.elements;
  Tensor output = recorder.take(elements, parts.front().type);
  std::vector<std::int64_t> sizes;
  sizes.reserve(parts.size());
  for (const Tensor& part : parts) sizes.push_back(part.elements);
  recorder.connect(output, parts, [sizes, contiguous_slices](const Gradients& gradients) {
    Gradients slices;
    for (const std::int64_t size : sizes) {
      slices.push_back(gradients[0].detached());
      slices.back().elements = size;
      slices.back().dense = false;
      slices.back().contiguous = contiguous_slices;
    }
    return slices;
  });
  return output;
}

Tensor view(Recorder& recorder, const Tensor& input) {
  Tensor output = input.detached();
  recorder.connect(output, {input},
                   [](const Gradients& gradients) -> Gradients { return {gradients[0]}; });
  return output;
}

Tensor copy(Recorder& recorder, const Tensor& input) {
  Tensor output = recorder.take(input.elements, input.type);
  recorder.connect(output, {input},
                   [](const Gradients& gradients) -> Gradients { return {gradients[0]}; });
  return output;
}

Tensor slice(Recorder& recorder, const Tensor& input, std::int64_t elements) {
  Tensor output = input.detached();
  output.elements = elements;
  output.dense = output.contiguous = false;
  recorder.connect(output, {input},
                   [&recorder, whole = input.elements, type = input.type](
                       const Gradients&) -> Gradients { return {recorder.take(whole, type)}; });
  return output;
}

}  // namespace rehearse::tape
