#pragma once

#include <algorithm>

#include "model/tape/operators.hpp"

// Functions of libraries that PyTorch has no operator for: several kernels behind one node of
// autograd.
namespace rehearse::tape {

/// What kernels of such a function do.
struct LibraryWork {
  std::string_view op = {};  ///< empty: the function's name
  double flops = 0;          ///< as people count them
  Bytes moved{0};            ///< what its kernels read and write; 0: each tensor of the call once
  double launches = 1;       ///< of kernels, one after the other
  /// What all multiprocessors together are busy with it; 0: what it moves bounds it.
  Seconds occupied{0};
  /// Besides: steps one after the other over a sequence, each of `step`, in `blocks` that run side
  /// by side, one to a multiprocessor.
  double steps = 0;
  Seconds step{0};
  double blocks = 0;
};

struct LibraryCall {
  std::string_view op;
  Tensors inputs;
  Tensor output;
  Tensors saved = {};  ///< what backward reads besides the gradient
  /// Kernels one after the other, each way.
  std::vector<LibraryWork> forward = {LibraryWork{}}, backward = {LibraryWork{}};
  std::int64_t scratch = 0;  ///< elements of fp32 that backward takes while it runs
};

/// Runs it; backward makes the gradient of each input.
Tensor call_library(Recorder& recorder, LibraryCall call);

}  // namespace rehearse::tape
