// Where kernels are written down, and how.
#include "model/tape/autograd.hpp"

namespace rehearse::tape {

void Recorder::enter(std::uint32_t unit, bool backward) {
  unit_ = unit;
  UnitTape& tape = tape_.units[unit];
  events_ = backward ? &tape.backward : &tape.forward;
  if (!options_.kernels) return;
  UnitKernels& own = tape_.kernels[unit];
  kernels_ = backward ? &own.backward : &own.forward;
}

namespace {

ElementType element_type(Type type) {
  switch (type) {
    case Type::float32:
      return ElementType::fp32;
    case Type::float16:
      return ElementType::narrow;
    case Type::int64:
      return ElementType::int64;
    case Type::int32:
      return ElementType::int32;
    case Type::byte:
      return ElementType::byte;
    case Type::boolean:
      return ElementType::boolean;
    case Type::complex64:
      return ElementType::complex64;
  }
  return ElementType::fp32;
}

KernelView view_of(const Tensor& tensor) {
  KernelView view{tensor.sizes, element_type(tensor.type)};
  for (std::size_t i = 0; i < view.sizes.size(); ++i)
    if (tensor.strides[i] == 0) view.sizes[i] = 1;
  if (tensor.contiguous()) return view;
  view.layout = tensor.channels_last() ? MemoryLayout::channels_last : MemoryLayout::strided;
  return view;
}

}  // namespace

void Recorder::record(std::string_view op, std::span<const Tensor* const> reads,
                      std::span<const Tensor* const> writes, CallOptions options) {
  if (kernels_ == nullptr) return;
  Kernel kernel{.op = op,
                .options = std::move(options.with),
                .role = in_backward_ ? options.role : KernelRole::forward,
                .remade = remakes_ && !in_backward_,
                .node = in_backward_ ? node_ : static_cast<std::uint32_t>(nodes_)};
  for (const Tensor* one : reads)
    if (one->defined) kernel.reads.push_back(view_of(*one));
  for (const Tensor* one : writes)
    if (one->defined) kernel.writes.push_back(view_of(*one));
  kernels_->push_back(std::move(kernel));
}

}  // namespace rehearse::tape
