#pragma once

#include <ATen/record_function.h>

#include <string>
#include <vector>

#include "base/quantity.hpp"

namespace rehearse::inline calibrate {

/// One call of an operator by LibTorch's dispatcher: "aten::addmm", what it got and what it gave.
struct OperatorCall {
  std::string name;
  std::vector<c10::IValue> inputs, outputs;
};

/// Floating-point operations of a product, a multiply-add counting 2: convolutions and their
/// gradients (those that are asked for), matrix products, fused attention (all pairs of tokens,
/// masked or not; backward twice the forward, without what a kernel computes again). 0 for all
/// others. A product may call others inside, which are the same work once more.
Flops product_flops(const OperatorCall& call);

/// Bytes of the tensors that the operator reads and writes; 0 for views, allocations, and what
/// gives back one of its inputs untouched. Elements that a broadcast repeats count once.
Bytes moved_bytes(const OperatorCall& call);

}  // namespace rehearse::inline calibrate
