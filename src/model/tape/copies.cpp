// Parameters as they stand or as autocast copies them, and copies of what is there.
#include <algorithm>

#include "model/tape/operators.hpp"

namespace rehearse::tape {
namespace {

Type lower_type() { return Type::float16; }

}  // namespace

Tensor parameter(Recorder& recorder, const Parameter& which) {
  return recorder.parameter(which.unit, which.index, which.sizes);
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
  Tensor output = recorder.call("_to_copy", {&input}, broadcast({&input}), type);
  recorder.connect(output, {input},
                   [&recorder, before = input.type](const Gradients& gradients) -> Gradients {
                     const Tensor& dy = gradients[0];
                     return {recorder.call("_to_copy", {&dy}, broadcast({&dy}), before)};
                   });
  return output;
}

Tensor lower(Recorder& recorder, const Tensor& input) {
  return recorder.autocast() ? to(recorder, input, lower_type()) : input;
}

Tensor widen_on_cuda(Recorder& recorder, const Tensor& input) {
  return recorder.autocast() && !recorder.on_cpu() ? to(recorder, input, Type::float32) : input;
}

Tensor clone(Recorder& recorder, const Tensor& input) {
  Tensor output = recorder.call("clone", {&input}, input.sizes, input.type);
  recorder.connect(output, {input},
                   [](const Gradients& gradients) -> Gradients { return {gradients[0]}; });
  return output;
}

Tensor contiguous(Recorder& recorder, const Tensor& input) {
  return input.contiguous() ? input : clone(recorder, input);
}

// Autocast makes all of them as wide as the widest (at::autocast::promote).
Tensor concatenate(Recorder& recorder, const Tensors& given, std::size_t dimension,
                   std::string_view op) {
  Tensors parts = given;
  const auto is_wide = [](const Tensor& part) { return part.type == Type::float32; };
  if (std::ranges::any_of(parts, is_wide))
    for (Tensor& part : parts) part = to(recorder, part, Type::float32);
  Shape all = parts.front().sizes;
  std::vector<const Tensor*> reads;
  bool last = true;
  all.sizes[dimension] = 0;
  for (const Tensor& part : parts) {
    all.sizes[dimension] += part.sizes[dimension];
    reads.push_back(&part);
    last = last && part.channels_last() && !part.contiguous();
  }
  Tensor output =
      recorder.take(last ? channels_last(all.sizes) : Shape(all.sizes), parts.front().type);
  if (op == "stack") {  // it is given parts that lack the dimension
    Tensors flat = parts;
    for (std::size_t i = 0; i < flat.size(); ++i) {
      flat[i].sizes.erase(dimension);
      flat[i].strides.erase(dimension);
      reads[i] = &flat[i];
    }
    recorder.record(op, reads, {&output});
  } else {
    recorder.record(op, reads, {&output});
  }
  std::vector<std::int64_t> sizes;
  sizes.reserve(parts.size());
  for (const Tensor& part : parts) sizes.push_back(part.sizes[dimension]);
  recorder.connect(output, parts, [sizes, dimension](const Gradients& gradients) {
    Gradients slices;
    for (const std::int64_t size : sizes) {
      Shape part = gradients[0];
      part.sizes[dimension] = size;
      slices.push_back(gradients[0].detached().as(part));
    }
    return slices;
  });
  return output;
}

}  // namespace rehearse::tape
