#pragma once

#include "cost/roofline.hpp"

namespace rehearse::inline cost {

/// The work of Muon's Newton-Schulz iterations on all hidden matrices that are trained
/// (torch.optim's _zeropower_via_newtonschulz, five steps).
struct NewtonSchulz {
  double matrices = 0;
  double flops = 0;
  Seconds time;  ///< on the GPU; 0 where no roofline was asked
};
/// Each step of a matrix m x n (m <= n) makes X X^T, its square and the product of that with X,
/// 4 m^2 n + 2 m^3 FLOPs. addmm copies what it adds to first, out of place. `in_bf16` computes in
/// bf16, as the iterations do whatever the model's precision; null: the work alone.
NewtonSchulz newton_schulz(const Model& model, const Roofline* in_bf16);

/// Muon's step over all of the model's parameters; `own` is of the model's precision. It is never
/// shorter than launching its kernels one by one takes the host.
Seconds muon_step(const Model& model, const Optimizer& optimizer, const Roofline& own,
                  const Roofline& in_bf16, Seconds host_launch);

}  // namespace rehearse::inline cost
