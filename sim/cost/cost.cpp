#include "cost/cost.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "cost/peak.hpp"

namespace rehearse {
namespace {

/// True for operators whose weights autocast copies to 16 bits: once per step, kept until backward.
bool has_cast_weights(OperatorKind kind) {
  return kind == OperatorKind::matmul || kind == OperatorKind::convolution ||
         kind == OperatorKind::depthwise_convolution;
}

/// A conversion reads 4 bytes and writes 2, or the other way round.
constexpr Bytes kCastBytes{6};

enum class Direction { forward, backward };

/// The rates that bound kernels on one GPU, and the rules of one precision.
class Roofline {
 public:
  Roofline(const Gpu& gpu, Precision precision, const AnalyticEfficiency& efficiency)
      : precision_(precision),
        matrix_(gpu.matrix_peak(precision) * efficiency.matrix),
        convolution_(convolution_peak(gpu, precision) * efficiency.matrix),
        attention_(gpu.matrix_peak(precision) * efficiency.attention),
        depthwise_(gpu.fp32 * efficiency.depthwise),
        vector_(gpu.fp32),
        memory_(gpu.memory_bandwidth * efficiency.memory),
        floor_(efficiency.kernel_floor),
        converts_layout_(convolves_on_tensor_cores(gpu, precision)) {}

  Seconds time(const Operator& op, double batch, Direction direction) const {
    const bool forward = direction == Direction::forward;
    const double flops = forward ? op.forward_flops : op.backward_flops;
    const double elements = forward ? op.forward_elements : op.backward_elements;
    if (flops == 0 && elements == 0) return Seconds(0);
    if (op.kind == OperatorKind::cast) return cast_time(batch * elements);
    if (op.kind == OperatorKind::layout && !converts_layout_) return Seconds(0);
    const Bytes bytes = batch * elements * element(op) + parameter_bytes(op, direction);
    const Seconds arithmetic = Flops(batch * flops) / rate(op.kind);
    return std::max({arithmetic, moved(bytes), floor_}) + weight_cast_time(op);
  }

  Seconds moved(Bytes size) const {
    check(memory_.value() > 0, "a GPU without a memory bandwidth has no roofline");
    return size / memory_;
  }

 private:
  FlopsPerSecond rate(OperatorKind kind) const {
    check(vector_.value() > 0, "a GPU without an fp32 rate has no roofline");
    switch (kind) {
      case OperatorKind::matmul:
        return matrix_;
      case OperatorKind::convolution:
        return convolution_;
      case OperatorKind::attention:
        return attention_;
      case OperatorKind::depthwise_convolution:
        return depthwise_;
      default:
        return vector_;
    }
  }

  Bytes element(const Operator& op) const {
    return op.wide ? parameter_element(precision_) : activation_element(precision_);
  }

  /// Weights are read forward; backward reads them and writes their gradients. Of an embedding only
  /// the rows in use are read (they are among its elements), but its gradient is dense.
  Bytes parameter_bytes(const Operator& op, Direction direction) const {
    const bool forward = direction == Direction::forward;
    const double copies =
        op.kind == OperatorKind::embedding ? (forward ? 0 : 1) : (forward ? 1 : 2);
    const Bytes size = has_cast_weights(op.kind) && is_autocast(precision_)
                           ? activation_element(precision_)
                           : parameter_element(precision_);
    return copies * op.parameter_elements * size;
  }

  Seconds cast_time(double elements) const {
    if (!is_autocast(precision_) || elements == 0) return Seconds(0);
    return std::max(moved(elements * kCastBytes), floor_);
  }

  /// Forward casts the weights, backward their gradients.
  Seconds weight_cast_time(const Operator& op) const {
    return has_cast_weights(op.kind) ? cast_time(op.parameter_elements) : Seconds(0);
  }

  Precision precision_;
  FlopsPerSecond matrix_, convolution_, attention_, depthwise_, vector_;
  BytesPerSecond memory_;
  Seconds floor_;
  bool converts_layout_;
};

/// What autograd and autocast keep from a unit's forward pass to its backward pass.
Bytes activation_bytes(const Unit& unit, Precision precision, double batch) {
  if (unit.activation) return *unit.activation;
  Bytes kept =
      batch * (unit.saved_elements * activation_element(precision) +
               unit.saved_wide_elements * parameter_element(precision) + Bytes(unit.saved_bytes));
  if (!is_autocast(precision)) return kept;
  double copies = batch * unit.saved_autocast_elements;
  for (const Operator& op : unit.operators) {
    if (has_cast_weights(op.kind)) copies += op.parameter_elements;
  }
  return kept + copies * activation_element(precision);
}

Seconds direction_time(const Unit& unit, const Roofline& roofline, double batch,
                       Direction direction) {
  const bool forward = direction == Direction::forward;
  if (const auto& given = forward ? unit.forward : unit.backward) return *given;
  Seconds sum{0};
  for (const Operator& op : unit.operators) sum += roofline.time(op, batch, direction);
  return sum;
}

Seconds optimizer_time(const Model& model, const Optimizer& optimizer, const Roofline& roofline,
                       Seconds floor) {
  if (model.optimizer_time) return *model.optimizer_time;
  std::size_t tensors = 0;
  for (const Unit& unit : model.units) tensors += unit.tensors.size();
  const Bytes moved =
      static_cast<double>(model.parameters()) * optimizer_bytes_per_parameter(optimizer);
  return std::max(roofline.moved(moved), optimizer_kernels(optimizer, tensors) * floor);
}

bool times_are_given(const Model& model) {
  return std::all_of(model.units.begin(), model.units.end(),
                     [](const Unit& unit) { return unit.forward && unit.backward; });
}

std::string percent(double share) { return fmt::format("{:.4g} %", 100 * share); }

/// The rates of matrix products and convolutions, and the shares of them that are reached.
std::string rates_text(const Model& model, const Gpu& gpu, Precision precision,
                       const AnalyticEfficiency& efficiency) {
  const FlopsPerSecond matrix = gpu.matrix_peak(precision);
  const std::string attention = percent(efficiency.attention);
  const std::string reached = percent(efficiency.matrix);
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
      "the tf32 rate for convolutions ({}) and the fp32 rate for matrix products ({}), PyTorch's "
      "defaults (both reach {}, attention {})",
      format(convolution_peak(gpu, precision)), format(matrix), reached, attention);
}

std::string roofline_assumption(const Model& model, const Gpu& gpu, Precision precision,
                                const AnalyticEfficiency& efficiency) {
  return fmt::format(
      "compute: each operator takes the larger of its FLOPs over {} and its bytes over the memory "
      "bandwidth ({}; reached: {}), at least {}; depthwise convolutions reach {} of the fp32 rate "
      "({})",
      rates_text(model, gpu, precision, efficiency), format(gpu.memory_bandwidth),
      percent(efficiency.memory), format(efficiency.kernel_floor), percent(efficiency.depthwise),
      format(gpu.fp32));
}

std::string optimizer_assumption(const Optimizer& optimizer, const AnalyticEfficiency& efficiency) {
  std::string kernels = "NVIDIA apex's fused kernels";
  if (has_fused_option(optimizer.kind)) {
    kernels = optimizer.fused ? "fused kernels" : "foreach kernels (PyTorch's default)";
  }
  return fmt::format(
      "optimizer: {} in {} moves {:.0f} bytes per parameter at {} of the memory "
      "bandwidth",
      to_string(optimizer.kind), kernels, optimizer_bytes_per_parameter(optimizer).value(),
      percent(efficiency.memory));
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

/// What the costs of this model rest on, one line each.
std::vector<std::string> assumptions(const Model& model, const Gpu& gpu, Precision precision,
                                     const Optimizer& optimizer,
                                     const AnalyticEfficiency& efficiency) {
  std::vector<std::string> lines;
  if (!times_are_given(model)) {
    lines.push_back(roofline_assumption(model, gpu, precision, efficiency));
    lines.emplace_back("workspace: no kernel needs memory beyond its activations");
  }
  if (model.has_operator(OperatorKind::convolution)) {
    lines.push_back(layout_assumption(model, gpu, precision));
  }
  if (!model.optimizer_time) lines.push_back(optimizer_assumption(optimizer, efficiency));
  return lines;
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
                     const Optimizer& optimizer, const AnalyticEfficiency& efficiency) {
  check(batch > 0, "a batch has at least one sample");
  const Roofline roofline(gpu, precision, efficiency);
  const auto samples = static_cast<double>(batch);
  StepCosts costs;
  for (const Unit& unit : model.units) {
    costs.units.push_back({.forward = direction_time(unit, roofline, samples, Direction::forward),
                           .backward = direction_time(unit, roofline, samples, Direction::backward),
                           .host_launch = unit.host_launch,
                           .activation = activation_bytes(unit, precision, samples),
                           .workspace = Bytes(0)});
  }
  costs.optimizer = optimizer_time(model, optimizer, roofline, efficiency.kernel_floor);
  costs.provenance = times_are_given(model) ? Provenance::given : Provenance::analytic;
  costs.assumptions = assumptions(model, gpu, precision, optimizer, efficiency);
  return costs;
}

}  // namespace rehearse
