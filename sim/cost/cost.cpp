#include "cost/cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "cost/captured_time.hpp"
#include "cost/early_stop.hpp"
#include "cost/kernel_model.hpp"
#include "cost/kernel_shares.hpp"
#include "cost/launches.hpp"
#include "cost/muon.hpp"
#include "cost/peak.hpp"
#include "cost/played_time.hpp"
#include "cost/profiled.hpp"
#include "cost/roofline.hpp"
#include "kernels/kernel_curves.hpp"

namespace rehearse::inline cost {
namespace {

/// Whose fits were taken, by family.
using Fits = std::array<const MeasuredKernels*, kCostFamilies>;

/// The time of one pass, into `parts` by family.
Seconds direction_time(const Unit& unit, const Roofline& roofline, double batch,
                       Direction direction, UnitParts& parts, Fits& fits) {
  const bool forward = direction == Direction::forward;
  if (const auto& given = forward ? unit.forward : unit.backward) {
    parts.add(CostFamily::whole_units, *given, forward, 1);
    return *given;
  }
  Seconds sum{0};
  for (const Operator& op : unit.operators) {
    const Seconds time = roofline.time(op, batch, direction);
    const OperatorBasis basis = roofline.basis(op, batch, direction);
    parts.add(basis.family, time, forward, basis.near.distance);
    if (basis.near.measured != nullptr)
      fits[static_cast<std::size_t>(basis.family)] = basis.near.measured;
    sum += time;
  }
  return sum;
}

/// Products of 8 bits where 16 alone were measured, and of 4, take the shares that others reach.
bool of_other_format(CostFamily family, const MeasuredKernels& fit, Precision precision) {
  return family == CostFamily::narrow_products &&
         (precision == Precision::nvfp4 || fit.kernels != "gemm fp8");
}

FamilyGround ground_of(CostFamily family, const MeasuredKernels* fit, const Gpu& gpu,
                       Precision precision, const AnalyticEfficiency& asked) {
  if (fit == nullptr) {
    const bool stated = asked.matrix || asked.attention || asked.memory || asked.depthwise;
    return {.family = family,
            .ground = CostGround::analytic,
            .from = stated ? "run.efficiency" : "shares " + shares_line(gpu)};
  }
  const bool relative = gpu.kernels && !gpu.kernels->relative.empty();
  const bool own = fit->own_chip && !relative && !of_other_format(family, *fit, precision);
  return {.family = family,
          .ground = own ? CostGround::fitted : CostGround::carried_over,
          .from = fmt::format("{} of {}", fit->kernels, fit->on),
          .off = own ? fit->off : std::nullopt};
}

void add_grounds(StepCosts& costs, const Fits& fits, const Gpu& gpu, Precision precision,
                 const AnalyticEfficiency& asked) {
  std::array<bool, kCostFamilies> seen{};
  for (const CostPart& part : costs.parts) {
    const auto family = static_cast<std::size_t>(part.family);
    if (std::exchange(seen[family], true)) continue;
    costs.grounds.push_back(part.family == CostFamily::whole_units
                                ? FamilyGround{part.family, CostGround::given, "the scenario"}
                                : ground_of(part.family, fits[family], gpu, precision, asked));
  }
}

bool times_are_given(const Model& model) {
  return std::all_of(model.units.begin(), model.units.end(),
                     [](const Unit& unit) { return unit.forward && unit.backward; });
}

std::string percent(double share) { return fmt::format("{:.4g} %", 100 * share); }

/// The rates of matrix products and convolutions, and the shares of them that are reached.
std::string rates_text(const Model& model, const Gpu& gpu, Precision precision,
                       const ReachedShares& shares) {
  const FlopsPerSecond matrix = gpu.matrix_peak(precision);
  const std::string attention = percent(shares.attention);
  const bool products = multiplies_on_tensor_cores(gpu, precision);
  const std::string reached = percent(products ? shares.matrix : shares.matrix_fp32);
  if (precision != Precision::fp32 || !model.has_operator(OperatorKind::convolution)) {
    return fmt::format("the {} rate ({}; matrix products reach {}, attention {})",
                       to_string(precision), format(matrix), reached, attention);
  }
  if (!convolves_on_tensor_cores(gpu, precision)) {
    return fmt::format(
        "the fp32 rate ({}; convolutions, too, as this GPU has no tf32; matrix products reach {}, "
        "attention {})",
        format(matrix), reached, attention);
  }
  return fmt::format(
      "the tf32 rate for convolutions ({}; reached: {}) and the fp32 rate for matrix products "
      "({}), PyTorch's defaults (reached: {}, attention {})",
      format(convolution_peak(gpu, precision)), percent(shares.matrix), format(matrix), reached,
      attention);
}

std::string roofline_assumption(const Model& model, const Gpu& gpu, Precision precision,
                                const ReachedShares& shares) {
  return fmt::format(
      "compute: each operator takes {} and the larger of its FLOPs over {} and its bytes over the "
      "memory bandwidth ({}; reached: {}, by operands of matrix products {}); depthwise "
      "convolutions reach {} of the fp32 rate ({}); shares {}",
      format(shares.launch), rates_text(model, gpu, precision, shares),
      format(gpu.memory_bandwidth), percent(shares.memory), percent(shares.matrix_memory),
      percent(shares.depthwise.forward), format(gpu.fp32), shares_line(gpu));
}

/// Of its first attention; nothing: it has none.
std::optional<AttentionKernel> attention_kernel(const Model& model, const Gpu& gpu) {
  for (const Unit& unit : model.units)
    for (const Operator& op : unit.operators)
      if (op.kind == OperatorKind::attention) return attention_library(op.heads.kernel, gpu);
  return std::nullopt;
}

/// What the fits of this GPU's kernels say of a step like this; empty: nothing is fitted.
std::string curves_assumption(const Model& model, const Gpu& gpu, Precision precision,
                              const AnalyticEfficiency& asked) {
  const KernelModel kernels(gpu, precision);
  if (!gpu.curves || asked.matrix || !kernels.knows_products()) return "";
  const KernelCurves& curves = *gpu.curves;
  const double sms = gpu.sms ? *gpu.sms : curves.sms;
  std::string text = fmt::format(
      "kernels: fitted to measured ones of {} ({}; platforms/kernels); products in whole waves of "
      "tiles on {} multiprocessors, in 16 bits at {} of that under lasting load ({})",
      curves.gpu, curves.date, sms, percent(curves.sustained), curves.sustained_source);
  for (const KernelError& error : curves.errors) {
    if (error.family == "gemm tensor" && error.unseen == "shape, training-size") {
      text += fmt::format("; {:.0f} such products that the fit had not seen are {} off in the mean",
                          error.points, percent(error.mean));
    }
  }
  if (const auto kernel = attention_kernel(model, gpu); kernel && kernels.knows_attention())
    text += fmt::format("; attention by {}", to_string(*kernel));
  return text + "; the shares below are of what no fit says";
}

std::string muon_assumption(const Model& model) {
  const NewtonSchulz work = newton_schulz(model, nullptr);
  return fmt::format(
      "optimizer: muon updates {:.0f} hidden matrices one by one, with {} Newton-Schulz steps of "
      "{:.4g} FLOPs in bf16 in all; AdamW in foreach kernels updates the rest",
      work.matrices, kNewtonSchulzSteps, work.flops);
}

std::string optimizer_assumption(const Optimizer& optimizer, const ReachedShares& shares) {
  std::string kernels = "NVIDIA apex's fused kernels";
  if (has_fused_option(optimizer.kind)) {
    kernels = optimizer.fused     ? "fused kernels"
              : optimizer.foreach ? "foreach kernels (PyTorch's default)"
                                  : "a kernel for each tensor";
  }
  return fmt::format(
      "optimizer: {} in {} moves {:.0f} bytes per parameter at {} of the memory "
      "bandwidth",
      to_string(optimizer.kind), kernels, optimizer_bytes_per_parameter(optimizer).value(),
      percent(shares.memory));
}

std::string layout_assumption(const Model& model, const Gpu& gpu, Precision precision) {
  if (!model.has_operator(OperatorKind::layout)) {
    return "layout: channels_last, no conversions around convolutions";
  }
  if (!convolves_on_tensor_cores(gpu, precision)) {
    return "layout: contiguous (NCHW), no conversions around convolutions without tensor cores";
  }
  return "layout: contiguous (NCHW, PyTorch's default), which cuDNN converts around each "
         "convolution on tensor cores; channels_last avoids it";
}

/// What the units' costs rest on, one line each.
std::vector<std::string> assumptions(const Model& model, const Gpu& gpu, Precision precision,
                                     const AnalyticEfficiency& efficiency) {
  std::vector<std::string> lines;
  if (!times_are_given(model)) {
    std::string fitted = curves_assumption(model, gpu, precision, efficiency);
    if (!fitted.empty()) lines.push_back(std::move(fitted));
    lines.push_back(roofline_assumption(model, gpu, precision, reached_shares(gpu, efficiency)));
    lines.emplace_back("workspace: no kernel needs memory beyond its activations");
  }
  if (model.has_operator(OperatorKind::convolution)) {
    lines.push_back(layout_assumption(model, gpu, precision));
  }
  return lines;
}

/// Why no profile speaks for the units: what one would have to be of.
std::string not_measured(const Model& model, const Gpu& gpu, Precision precision) {
  return fmt::format("compute = times of kernels, as there is no profile of {} ({}{}, {}) on {}",
                     model.name, model.sample, model.variant.empty() ? "" : ", " + model.variant,
                     to_string(precision), gpu.name);
}

/// Share of the units' time that no measured kernel speaks for.
double datasheet_share(const StepCosts& costs) {
  Seconds all, alone;
  for (const CostPart& part : costs.parts) {
    const Seconds time = part.forward + part.backward;
    const auto by = std::ranges::find(costs.grounds, part.family, &FamilyGround::family);
    all += time;
    if (by != costs.grounds.end() && by->ground == CostGround::analytic) alone += time;
  }
  return all > Seconds(0) ? alone / all : 0;
}

/// Says on what computed times rest.
void name_basis(StepCosts& costs, const Gpu& gpu) {
  constexpr double kRound = 0.005;
  const double share = datasheet_share(costs);
  costs.origin = share < kRound ? "fitted kernels"
                 : share > 1 - kRound
                     ? "datasheet"
                     : fmt::format("fitted kernels, {:.0f} % datasheet", 100 * share);
  if (share > 0.5)
    costs.outside.push_back(
        fmt::format("compute: {:.0f} % of its time from the datasheet alone, as such kernels were "
                    "not measured on {}",
                    100 * share, gpu.name));
}

Seconds units_time(const StepCosts& costs) {
  Seconds sum;
  for (const UnitCost& unit : costs.units) sum += unit.forward + unit.backward;
  return sum;
}

/// Names operators of a captured model without a curve: their share of the time, and their error.
void add_unknown_kernels(StepCosts& costs, const Model& model, const Roofline& roofline,
                         double batch) {
  const auto unknown = unknown_kernels(model, roofline, batch);
  const double all = units_time(costs).value();
  if (unknown.empty() || all == 0) return;
  double share = 0;
  std::vector<std::string> names;
  for (const auto& [name, time] : unknown) {
    share += time.value() / all;
    if (names.size() < 6)
      names.push_back(fmt::format("{} ({})", name, percent(time.value() / all)));
  }
  costs.outside_error = std::hypot(costs.outside_error, kUnknownKernelsError * share);
  costs.outside.push_back(fmt::format(
      "compute: no curve is of {}{}, {} of the units' time; taken at the memory bandwidth",
      fmt::join(names, ", "), unknown.size() > names.size() ? " and others" : "", percent(share)));
}

/// What the roofline says of the parts of a unit's passes, whoever says what the passes take.
void add_segments(StepCosts& costs, const Model& model, const Roofline& roofline, double batch) {
  for (std::size_t i = 0; i < model.units.size(); ++i) {
    const Unit& unit = model.units[i];
    UnitCost& cost = costs.units[i];
    if (unit.exchanges.empty()) continue;
    cost.forward_segments = segments(unit, Direction::forward, roofline, batch, cost.forward);
    cost.backward_segments = segments(unit, Direction::backward, roofline, batch, cost.backward);
  }
}

StepCosts computed_units(const Model& model, const Gpu& gpu, Precision precision, double batch,
                         const AnalyticEfficiency& efficiency, bool adds_gradients) {
  const Roofline roofline(gpu, precision, efficiency, adds_gradients);
  StepCosts costs;
  Fits fits{};
  for (const Unit& unit : units_of_kernels(model, precision, batch)) {
    const std::size_t at = costs.units.size();
    UnitParts parts(at);
    using enum Direction;
    costs.units.push_back({.forward = direction_time(unit, roofline, batch, forward, parts, fits),
                           .backward = direction_time(unit, roofline, batch, backward, parts, fits),
                           .forward_launch = unit.host_launch,
                           .backward_launch = unit.host_launch,
                           .activation = Bytes(0),
                           .workspace = Bytes(0),
                           .unneeded = unneeded_time(model.units[at], roofline, batch)});
    parts.append_to(costs.parts);
  }
  add_grounds(costs, fits, gpu, precision, efficiency);
  costs.provenance = times_are_given(model) ? Provenance::given : Provenance::analytic;
  costs.origin = to_string(costs.provenance);
  if (costs.provenance == Provenance::analytic) {
    costs.host_computes = gpu.curves && gpu.curves->device && gpu.curves->device->cpu;
    if (!costs.host_computes) add_launches(costs, model, roofline, precision, efficiency);
    costs.uncertainty = analytic_error(gpu, efficiency, precision);
    if (const double narrow = narrow_share(model, gpu); narrow > 0) {
      costs.outside_error = kNarrowError * narrow;
      costs.outside.push_back(
          fmt::format("compute: {} of its products' FLOPs are narrower than "
                      "those that were measured on {}",
                      percent(narrow), gpu.name));
    }
    name_basis(costs, gpu);
    if (model.captured) add_unknown_kernels(costs, model, roofline, batch);
    costs.uncertainty = std::hypot(costs.uncertainty, costs.outside_error);
    if (!gpu.kernels || !gpu.kernels->relative.empty()) {
      costs.outside.push_back("compute: shares of peak and bandwidth " + shares_line(gpu));
    }
  }
  costs.assumptions = assumptions(model, gpu, precision, efficiency);
  if (costs.provenance == Provenance::analytic)
    costs.assumptions.insert(costs.assumptions.begin(), not_measured(model, gpu, precision));
  return costs;
}

}  // namespace

std::string to_string(Provenance provenance) {
  switch (provenance) {
    case Provenance::given:
      return "given";
    case Provenance::analytic:
      return "analytic";
    case Provenance::measured:
      return "measured";
    case Provenance::transferred:
      return "transferred";
  }
  return "?";
}

StepCosts step_costs(const Model& model, const Gpu& gpu, Precision precision, std::int64_t batch,
                     const Optimizer& optimizer, const AnalyticEfficiency& efficiency,
                     const CostSource* source) {
  check(batch > 0, "a batch has at least one sample");
  const CostQuestion question{model, gpu, precision, batch, optimizer, efficiency};
  StepCosts costs = source ? profiled_units(question, *source)
                           : computed_units(model, gpu, precision, static_cast<double>(batch),
                                            efficiency, optimizer.wide_gradients);
  add_segments(costs, model, Roofline(gpu, precision, efficiency, optimizer.wide_gradients),
               static_cast<double>(batch));
  if (costs.provenance != Provenance::given)
    costs.copy_rate = gpu.memory_bandwidth * reached_shares(gpu, efficiency).memory;
  if (costs.provenance != Provenance::given && !efficiency.memory)
    costs.widened = KernelModel(gpu, precision).unvectorized().value_or(0);
  double optimizer_error = 0;
  FamilyGround by{.family = CostFamily::optimizer};
  if (model.optimizer_time) {
    costs.optimizer = *model.optimizer_time;
    by.ground = CostGround::given;
    by.from = "the scenario";
  } else if (const auto profiled = source ? profiled_optimizer(question, *source) : std::nullopt) {
    costs.optimizer = profiled->time;
    optimizer_error = profiled->uncertainty;
    costs.optimizer_unscales = source->profile->precision == Precision::fp16;
    by.ground = source->device ? CostGround::transferred : CostGround::measured;
    by.from = source->file;
    costs.assumptions.push_back(profiled->assumption);
  } else {
    const bool muon = optimizer.kind == OptimizerKind::muon;
    const Roofline own(gpu, precision, efficiency);
    costs.optimizer =
        muon ? muon_step(model, optimizer, own, Roofline(gpu, Precision::bf16_pure, efficiency),
                         efficiency.host_kernel())
             : own.optimizer_step(model, optimizer);
    add_optimizer_launch(costs, model, optimizer, efficiency);
    optimizer_error = analytic_error(gpu, efficiency);
    by.from = "shares " + shares_line(gpu);
    costs.assumptions.push_back(
        muon ? muon_assumption(model)
             : optimizer_assumption(optimizer, reached_shares(gpu, efficiency)));
    if (gpu.curves && gpu.curves->device && !muon) {
      by.ground = CostGround::fitted;
      by.from = "adamw of " + gpu.curves->gpu;
    }
    if (source) {
      costs.outside.push_back(fmt::format("optimizer: computed, {} did not measure {}",
                                          source->file, to_string(optimizer)));
    } else if (costs.provenance == Provenance::given) {
      costs.outside.push_back(
          fmt::format("optimizer: computed, no time of {} is given", to_string(optimizer)));
    }
  }
  costs.parts.push_back({.unit = costs.units.size(),
                         .family = CostFamily::optimizer,
                         .backward = costs.optimizer,
                         .within = by.ground == CostGround::analytic ? Seconds(0) : costs.optimizer,
                         .farthest = by.ground == CostGround::analytic ? 0.0 : 1.0});
  costs.grounds.push_back(std::move(by));
  if (const Seconds units = units_time(costs); units + costs.optimizer > Seconds(0)) {
    costs.uncertainty =
        (units * costs.uncertainty + costs.optimizer * optimizer_error) / (units + costs.optimizer);
  }
  return costs;
}

}  // namespace rehearse::inline cost
