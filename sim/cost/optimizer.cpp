#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>

#include "cost/cost.hpp"

namespace rehearse::inline cost {
namespace {

/// Tensors that one multi-tensor kernel takes at most, by the number of its tensor lists and
/// whether a scalar comes with each tensor: depth_to_max_tensors and .._scalarlist in PyTorch's
/// aten/src/ATen/native/cuda/MultiTensorApply.cuh (kernel arguments of 4 KB), the former also in
/// apex's csrc/multi_tensor_apply.cuh.
constexpr std::size_t kOneList = 110, kTwoLists = 64, kThreeLists = 48, kFourLists = 36;
constexpr std::size_t kOneListAndScalars = 96;

/// One kernel over all parameters.
struct Pass {
  /// Reads and writes per parameter: of itself, its gradient, its states and temporaries.
  double parameter, gradient, states;
  std::size_t tensors;  ///< that one launch takes
};

// Foreach kernels are those of _multi_tensor_sgd, _multi_tensor_adam and _multi_tensor_adamw in
// torch/optim/{sgd,adam,adamw}.py with PyTorch's default options (no weight decay but adamw's, no
// amsgrad, not capturable). p: parameter, g: gradient, m and v: states, t: temporary. An operand
// that is named twice in one kernel counts once: the cache has it the second time.
constexpr std::array<Pass, 1> kForeachSgd = {{{2, 1, 0, kTwoLists}}};  // add_: p, g -> p
constexpr std::array<Pass, 3> kForeachMomentum = {{
    {0, 0, 2, kOneList},   // mul_: m -> m
    {0, 1, 2, kTwoLists},  // add_: m, g -> m
    {2, 0, 1, kTwoLists},  // add_: p, m -> p
}};
constexpr std::array<Pass, 8> kForeachAdamW = {{
    {2, 0, 0, kOneList},            // mul_ (weight decay): p -> p
    {0, 1, 2, kTwoLists},           // lerp_: m, g -> m
    {0, 0, 2, kOneList},            // mul_: v -> v
    {0, 1, 2, kThreeLists},         // addcmul_: v, g, g -> v
    {0, 0, 2, kTwoLists},           // sqrt: v -> t
    {0, 0, 2, kOneListAndScalars},  // div_: t -> t
    {0, 0, 2, kOneList},            // add_: t -> t
    {2, 0, 2, kThreeLists},         // addcdiv_: p, m, t -> p
}};
constexpr std::span<const Pass> kForeachAdam = std::span(kForeachAdamW).subspan(1);

// Fused (torch/optim, _fused_sgd, _fused_adam, _fused_adamw): each tensor is read once, and all but
// g written.
constexpr std::array<Pass, 1> kFusedSgd = {{{2, 1, 0, kTwoLists}}};
constexpr std::array<Pass, 1> kFusedMomentum = {{{2, 1, 2, kThreeLists}}};
constexpr std::array<Pass, 1> kFusedAdam = {{{2, 1, 4, kFourLists}}};
// NVIDIA apex, csrc/multi_tensor_lamb.cu.
constexpr std::array<Pass, 5> kApexLamb = {{
    {0, 1, 0, kOneList},    // norm: g
    {1, 0, 0, kOneList},    // norm: p
    {1, 1, 5, kFourLists},  // stage 1: g, p, m, v -> m, v, update
    {0, 0, 1, kOneList},    // norm: update
    {2, 0, 1, kTwoLists},   // stage 2: p, update -> p
}};

// bitsandbytes, csrc/kernels.cu: kOptimizerStatic8bit2StateBlockwise, a launch for each tensor.
constexpr std::array<Pass, 1> kAdamW8bit = {{{2, 1, 4, 1}}};
// _single_tensor_adafactor of a matrix, torch/optim/_adafactor.py; transformers' own has 26. A
// vector has 11. u: the update. Copies bring norms to the host, which waits for them.
constexpr std::array<Pass, 20> kAdafactor = {{
    {1, 0, 0, 1},                // norm: p
    {0, 0, 0, 1},                // copied
    {0, 1, 0, 1},                // norms of g's rows
    {0, 0, 0, 1}, {0, 0, 0, 1},  // square_, div_
    {0, 0, 0, 1},                // lerp_ of the rows' state
    {0, 1, 0, 1},                // norms of g's columns
    {0, 0, 0, 1}, {0, 0, 0, 1},  // square_, div_
    {0, 0, 0, 1},                // lerp_ of the columns' state
    {0, 1, 0, 1},                // matmul: rows, columns -> u
    {0, 0, 0, 1}, {0, 0, 0, 1},  // mean and clamp_ of the rows
    {0, 2, 0, 1},                // div_: u
    {0, 2, 0, 1}, {0, 2, 0, 1},  // clamp_, rsqrt_: u
    {0, 3, 0, 1},                // mul_: u, g -> u
    {0, 1, 0, 1},                // norm: u
    {0, 0, 0, 1},                // copied
    {2, 1, 0, 1},                // add_: p, u -> p
}};
// torch/optim/_muon.py, _single_tensor_muon; what it moves in bf16 is orthogonal_bytes(). u: the
// update.
constexpr std::array<Pass, 8> kMuon = {{
    {0, 1, 2, 1},  // lerp_: m, g -> m
    {0, 2, 1, 1},  // lerp: g, m -> u
    {0, 0, 0, 1},  // to bf16
    {0, 0, 0, 1},  // norm
    {0, 0, 0, 1},  // clamp of the norm
    {0, 0, 0, 1},  // div_
    {2, 0, 0, 1},  // mul_ (weight decay): p -> p
    {2, 0, 0, 1},  // add_: p, u -> p
}};

/// What an optimizer keeps, and the kernels of one step.
struct OptimizerTraits {
  const char* name;
  int states;                     ///< elements kept per parameter
  std::span<const Pass> fused;    ///< PyTorch's `fused=True`
  std::span<const Pass> foreach;  ///< PyTorch's default; empty where there is no such choice
};
constexpr std::array<OptimizerTraits, 8> kOptimizers = {
    {{"sgd", 0, kFusedSgd, kForeachSgd},
     {"sgd_momentum", 1, kFusedMomentum, kForeachMomentum},
     {"adam", 2, kFusedAdam, kForeachAdam},
     {"adamw", 2, kFusedAdam, kForeachAdamW},
     {"lamb", 2, kApexLamb, {}},
     {"adamw_8bit", 2, kAdamW8bit, {}},
     {"adafactor", 0, kAdafactor, {}},
     {"muon", 1, kMuon, {}}}};

/// A byte, and an fp32 scale for each block of 256 (bitsandbytes' and torchao's block sizes).
constexpr Bytes kEightBits{1 + 4.0 / 256};

const OptimizerTraits& traits(OptimizerKind kind) {
  return kOptimizers.at(static_cast<std::size_t>(kind));
}

std::span<const Pass> passes(const Optimizer& optimizer) {
  const OptimizerTraits& all = traits(optimizer.kind);
  return optimizer.fused || !has_fused_option(optimizer.kind) ? all.fused : all.foreach;
}

bool is_for_loop(const Optimizer& optimizer) {
  return !optimizer.fused && !optimizer.foreach && has_fused_option(optimizer.kind);
}

/// Bytes of the elements that a step reads and writes.
struct Elements {
  Bytes stored;  ///< parameters and gradients outside the optimizer
  Bytes master;  ///< 0: none
  Bytes updated, state;
};

Elements elements_of(const Optimizer& optimizer) {
  Elements all{
      .stored = parameter_element(optimizer.of),
      .master = optimizer.master_element.value_or(Bytes(has_master_weights(optimizer.of) ? 4 : 0)),
      .updated = Bytes(0),
      .state = Bytes(0)};
  all.updated = all.master > Bytes(0) ? all.master : all.stored;
  const bool eight_bits = optimizer.kind == OptimizerKind::adamw_8bit;
  all.state = optimizer.state_element.value_or(eight_bits ? kEightBits : all.updated);
  return all;
}

/// Of Muon's update in bf16, per parameter: made of what is wider, read for its norm, divided by
/// it, and read into the parameter.
Bytes orthogonal_bytes(const Elements& elements) {
  constexpr Bytes kHalf(2);
  const Bytes made = elements.updated > kHalf ? elements.updated + kHalf : Bytes(0);
  return made + kHalf + 2 * kHalf + kHalf;
}

}  // namespace

std::string to_string(OptimizerKind kind) { return traits(kind).name; }

std::string to_string(const Optimizer& optimizer) {
  const char* implementation = optimizer.fused ? ", fused" : optimizer.foreach ? "" : ", for-loop";
  return to_string(optimizer.kind) + implementation;
}

const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    names.reserve(kOptimizers.size());
    for (const OptimizerTraits& optimizer : kOptimizers) names.emplace_back(optimizer.name);
    return names;
  }();
  return kNames;
}

Optimizer on_storage(Optimizer optimizer, StoredAs storage) {
  if (storage == StoredAs::fp32) optimizer.of = Precision::fp32;
  if (storage == StoredAs::bf16) optimizer.of = Precision::bf16_pure;
  return optimizer;
}

Optimizer on_tensor(Optimizer optimizer, const std::optional<MatrixShape>& matrix) {
  if (optimizer.kind == OptimizerKind::muon && !matrix) optimizer.kind = OptimizerKind::adamw;
  return optimizer;
}

OptimizerKind parse_optimizer(const std::string& name) {
  for (std::size_t i = 0; i < kOptimizers.size(); ++i) {
    if (kOptimizers[i].name == name) return static_cast<OptimizerKind>(i);
  }
  throw std::invalid_argument(fmt::format("expected an optimizer, one of {}; got \"{}\"",
                                          fmt::join(optimizer_names(), ", "), name));
}

OptimizerMemory optimizer_memory(const Optimizer& optimizer) {
  const Elements elements = elements_of(optimizer);
  OptimizerMemory memory{.states = traits(optimizer.kind).states,
                         .state_element = elements.state,
                         .temporary_element = elements.state,
                         .master_element = elements.master,
                         .gradient_element = optimizer.wide_gradients ? Bytes(0) : elements.master};
  if (optimizer.kind == OptimizerKind::muon) memory.orthogonalizes = memory.one_by_one = true;
  if (optimizer.kind == OptimizerKind::adafactor) {
    memory.factored = true;
    memory.temporary_element = Bytes(4);
    // The gradient and the parameter in fp32 where they are not; g^2 and the update.
    memory.foreach_temporaries = memory.loop_temporaries =
        2 + (elements.updated < Bytes(4) ? 2 : 0);
    memory.one_by_one = true;
    return memory;
  }
  const bool is_adam =
      optimizer.kind == OptimizerKind::adam || optimizer.kind == OptimizerKind::adamw;
  if (!is_adam || optimizer.fused) return memory;
  // Denominators, sqrt(v) / sqrt(1 - beta2^t) + eps. _multi_tensor_adam works on the square roots
  // in place; one tensor after the other (_single_tensor_adam, and LibTorch's Adam) the quotient is
  // a second one.
  memory.foreach_temporaries = 1;
  memory.loop_temporaries = 2;
  return memory;
}

Bytes kept_of(const Optimizer& optimizer, const Model& model) {
  if (optimizer.kind != OptimizerKind::muon)
    return optimizer_memory(optimizer).kept() * static_cast<double>(model.trainable_parameters());
  Bytes sum;
  for (const Unit& unit : model.units)
    for (std::size_t i = 0; i < unit.tensors.size(); ++i)
      if (unit.trait(i).trained)
        sum += static_cast<double>(unit.tensors[i]) *
               optimizer_memory(on_tensor(optimizer, hidden_matrix(unit, i))).kept();
  return sum;
}

std::string describe_formats(const Optimizer& optimizer) {
  const OptimizerMemory memory = optimizer_memory(optimizer);
  std::string states =
      memory.states == 0 ? "no states"
                         : fmt::format("{} state{} of {:.0f}", memory.states,
                                       memory.states == 1 ? "" : "s", memory.state_element.value());
  if (memory.orthogonalizes) states += " for hidden matrices and 2 for all else (AdamW)";
  const std::string master =
      memory.master_element > Bytes(0)
          ? fmt::format("master weights of {:.0f}", memory.master_element.value())
          : "no master weights";
  return fmt::format("parameters and gradients of {:.0f} bytes, {}, {}",
                     parameter_element(optimizer.of).value(), states, master);
}

bool has_plain_formats(const Optimizer& optimizer) {
  const Elements elements = elements_of(optimizer);
  return elements.master == Bytes(0) && elements.state == elements.stored;
}

bool has_fused_option(OptimizerKind kind) { return !traits(kind).foreach.empty(); }

Bytes optimizer_bytes_per_parameter(const Optimizer& optimizer) {
  const Elements elements = elements_of(optimizer);
  Bytes moved = optimizer.kind == OptimizerKind::muon ? orthogonal_bytes(elements) : Bytes(0);
  for (const Pass& pass : passes(optimizer))
    moved += (pass.parameter + pass.gradient) * elements.updated + pass.states * elements.state;
  if (elements.master > Bytes(0) && optimizer.wide_gradients) {
    moved += elements.stored + elements.master;  // the new parameters, of the master weights
  } else if (elements.master > Bytes(0)) {
    moved += 2.0 * (elements.stored + elements.master);
  }
  return moved;
}

double optimizer_kernels(const Optimizer& optimizer, std::size_t tensors) {
  const std::size_t conversions = elements_of(optimizer).master > Bytes(0) ? 2 : 0;
  if (is_for_loop(optimizer) || optimizer.in_backward)
    return static_cast<double>((passes(optimizer).size() + conversions) * tensors);
  std::size_t kernels = conversions * ((tensors + kTwoLists - 1) / kTwoLists);
  for (const Pass& pass : passes(optimizer)) {
    kernels += (tensors + pass.tensors - 1) / pass.tensors;
  }
  return static_cast<double>(kernels);
}

double looped_kernels(const Optimizer& optimizer, std::size_t tensors) {
  if (is_for_loop(optimizer)) return static_cast<double>(passes(optimizer).size() * tensors);
  const auto looped = [](const Pass& pass) { return pass.tensors == 1; };
  return static_cast<double>(std::ranges::count_if(passes(optimizer), looped)) *
         static_cast<double>(tensors);
}

}  // namespace rehearse::inline cost
