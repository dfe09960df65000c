#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "config/fields.hpp"
#include "config/mistakes.hpp"
#include "profile/compute_profile.hpp"
#include "profile/profile_keys.hpp"

namespace rehearse::inline profile {
namespace {

constexpr std::int64_t kMost = 1'000'000'000;
constexpr std::int64_t kMostElements = std::int64_t{1} << 50;
/// What a stated sum may differ from that of the rounded times beside it.
constexpr double kRounding = 5e-4;

Fields<ProfileOrigin> origin_fields() {
  using O = ProfileOrigin;
  return {
      required("device", &O::device, "The GPU or CPU."),
      required("driver", &O::driver, "Version of the driver."),
      required("cuda", &O::cuda, "Version of CUDA; none: a CPU."),
      required("nccl", &O::nccl, "Version of NCCL."),
      required("libtorch", &O::libtorch, "Version of LibTorch."),
      required("date", &O::date, "Day of the measurement."),
      required("command", &O::command, "The command that wrote it."),
      required("host_threads", &O::host_threads, form::integer(1, kMost), "Threads of the host.")};
}

/// A rate that is left out is 0: the device lacks the format.
Fields<DeviceRates> rate_fields() {
  using R = DeviceRates;
  return {required("fp32", &R::fp32, "Products in fp32."),
          silent("tf32", &R::tf32, "In tf32."),
          silent("fp16", &R::fp16, "In fp16."),
          silent("bf16", &R::bf16, "In bf16."),
          required("memory_bandwidth", &R::memory_bandwidth, "Copies."),
          required("memory", &R::memory, "Its memory.")};
}

Fields<recorded::Operator> operator_fields() {
  using O = recorded::Operator;
  static const Form<double> kShare = form::within(0, 1);
  return {required("name", &O::name, "PyTorch's name."),
          silent("rows", &O::rows, form::not_negative(), "Rows of a product, of one sample."),
          silent("inner", &O::inner, form::not_negative(), "Features that it reads."),
          silent("columns", &O::columns, form::not_negative(), "Features that it makes."),
          silent("bias", &O::bias, "It adds a bias."),
          silent("heads", &O::heads, form::integer(0, kMost), "Heads of attention."),
          silent("kv_heads", &O::kv_heads, form::integer(0, kMost), "Those of keys and values."),
          silent("sum", &O::sum, "Adds two activations of one shape."),
          required("forward", &O::forward, kShare, "Its share of the unit's forward."),
          required("backward", &O::backward, kShare, "The same of backward.")};
}

Fields<ProfiledUnit> unit_fields() {
  using U = ProfiledUnit;
  return {required("name", &U::name, "Name."),
          required("tensors", &U::tensors, form::list(form::integer(1, kMostElements)),
                   "Elements of each parameter."),
          field("buffer_elements", &U::buffer_elements, form::integer(0, kMostElements),
                "Elements of its buffers."),
          silent("handed", &U::handed, "What the unit before hands to it of a sample."),
          silent("operators", &U::operators, form::list(form::map(operator_fields())),
                 "Calls of its forward, where a run was recorded.")};
}

void check_unit(const Value& item, const std::vector<ProfiledUnit>& units) {
  if (std::ranges::count(units, units.back().name, &ProfiledUnit::name) > 1)
    item.fail(fmt::format("a second unit named \"{}\"", units.back().name));
}

Fields<UnitTimes> unit_times_fields() {
  using U = UnitTimes;
  static const Form<double> kSpread = form::not_negative();
  return {required("name", &U::name, "The unit."),
          required("forward", &U::forward, "Forward."),
          required("backward", &U::backward, "Backward."),
          required("forward_spread", &U::forward_spread, kSpread, "Quartiles over median."),
          required("backward_spread", &U::backward_spread, kSpread, "The same of backward."),
          field("forward_launch", &U::forward_launch, "Host time of its launches."),
          field("backward_launch", &U::backward_launch, "The same of backward."),
          required("saved", &U::saved, "Kept for backward."),
          required("workspace", &U::workspace, "Taken meanwhile."),
          required("forward_flops", &U::forward_flops, form::not_negative(), "Operations."),
          required("backward_flops", &U::backward_flops, form::not_negative(),
                   "Operations of backward."),
          required("forward_moved", &U::forward_moved, "Bytes read and written."),
          required("backward_moved", &U::backward_moved, "Those of backward.")};
}

Form<Seconds> time_above_zero() {
  Form<Seconds> above = form_of<Seconds>();
  above.read = [](const Value& value) {
    const Seconds time = value.as_seconds();
    if (!(time > Seconds(0))) value.fail("expected a time above zero");
    return time;
  };
  return above;
}

Fields<StepTimes> step_fields() {
  using S = StepTimes;
  return {required("forward", &S::forward, time_above_zero(), "Forward."),
          required("backward", &S::backward, "Backward; 0 of inference."),
          required("optimizer", &S::optimizer, "Optimizer."),
          required("step", &S::step, time_above_zero(), "All of it.")};
}

/// A point says this of itself, for readers of the file.
struct SumCheck {
  Seconds units, whole;
  double difference = 0;
};

Fields<SumCheck> sum_check_fields() {
  using S = SumCheck;
  return {required("units", &S::units, "Sum of the units."),
          required("whole", &S::whole, "Forward and backward."),
          required("difference", &S::difference, form::number(), "Relative difference.")};
}

Fields<BatchPoint> point_fields() {
  using P = BatchPoint;
  return {required("batch", &P::batch, form::integer(1, kMost).in("samples"), "The batch."),
          required("repetitions", &P::repetitions, form::integer(1, kMost), "Repetitions."),
          required("allocated_peak", &P::allocated_peak, "Peak of allocated memory."),
          field("reserved_peak", &P::reserved_peak, "Peak of reserved memory."),
          required("whole", &P::whole, form::map(step_fields()), "The whole step."),
          {lines_of({"sum_check", type::map(), "required", "Units against the whole."},
                    keys_of(sum_check_fields(), ".")),
           [](Map& map, P&) { map.require("sum_check"); }},  // read where the units are known
          required("units", &P::units, form::list(form::map(unit_times_fields())),
                   "Costs of each unit.")};
}

void check_point(const Value& item, const std::vector<BatchPoint>& points) {
  if (points.size() == 1) return;
  const BatchPoint& before = points[points.size() - 2];
  if (points.back().batch <= before.batch)
    item.fail(fmt::format("expected a batch above {}, the one before", before.batch));
}

Fields<OptimizerTime> optimizer_fields() {
  using O = OptimizerTime;
  return {required("time", &O::time, "Median."),
          required("spread", &O::spread, form::not_negative(), "Quartiles apart, over median."),
          required("repetitions", &O::repetitions, form::integer(1, kMost), "Repetitions.")};
}

/// It must be that of the times beside it.
void check_sums(const Value& value, const BatchPoint& point) {
  Map map = value.as_map();
  const SumCheck stated = read_fields(map, sum_check_fields());
  const auto differs = [](Seconds one, Seconds sum) { return std::abs(one / sum - 1) > kRounding; };
  if (differs(stated.units, point.units_sum()))
    map.require("units").fail("is not the sum of the units' times");
  if (differs(stated.whole, point.whole.forward + point.whole.backward))
    map.require("whole").fail("is not the whole step's forward and backward");
  if (std::abs(stated.difference - point.sum_difference()) > 2 * kRounding)
    map.require("difference").fail("is not what the units' sum differs from the whole by");
  map.finish();
}

void check_same_units(const Value& value, const std::vector<UnitTimes>& times,
                      const std::vector<ProfiledUnit>& units) {
  const bool same =
      std::equal(times.begin(), times.end(), units.begin(), units.end(),
                 [](const UnitTimes& a, const ProfiledUnit& b) { return a.name == b.name; });
  if (!same) value.fail("expected the profile's units, in their order");
}

std::vector<OptimizerTime> read_optimizers(const Value& value) {
  std::vector<OptimizerTime> optimizers;
  Map map = value.as_map();
  for (const std::string& kind : map.keys())
    optimizers.emplace_back(read_fields(map.require(kind), optimizer_fields())).kind = kind;
  return optimizers;
}

Fields<ComputeProfile> compute_profile_fields() {
  using P = ComputeProfile;
  std::vector<Key> optimizers =
      lines_of({".NAME", type::map(), "-", "One optimizer."}, keys_of(optimizer_fields(), "."));
  return {
      {{{"schema", type::choice({kProfileSchema}), "required", "Version of the format."},
        {"kind", type::choice({"compute"}), "required", "Kind of the profile."}},
       [](Map& map, P&) { map.require("kind").as_choice({"compute"}); }},
      required("model", &P::model, "The network."),
      required("precision", &P::precision, form::one_of(precision_names()).as(parse_precision),
               "Its precision."),
      required("provenance", &P::origin, form::map(origin_fields()), "Where it comes from."),
      group<P>("sample",
               {field("image", &P::image, form::integer(1, kMost).in("pixels"), "An image."),
                field("sequence", &P::sequence, form::integer(1, kMost).in("tokens"), "A text."),
                silent("input", &P::input, "Input of a module of your own.")},
               "What one sample is: one of the three."),
      required("rates", &P::rates, form::map(rate_fields()), "What the device reached."),
      required("units", &P::units, form::list(form::map(unit_fields()), check_unit),
               "Units in forward order."),
      required("step_optimizer", &P::step_optimizer, "Optimizer of the whole step."),
      required("optimizers", &P::optimizers,
               Form<std::vector<OptimizerTime>>{type::map(), read_optimizers, {}, optimizers},
               "Times of optimizers."),
      required("points", &P::points, form::list(form::map(point_fields()), check_point),
               "One per batch.")};
}

/// Holds the parts of a profile against each other.
void check_profile(Map& map, const ComputeProfile& profile) {
  if ((profile.image > 0) + (profile.sequence > 0) + !profile.input.empty() != 1)
    map.require("sample").fail("expected an image size, a sequence length or an input");
  if (profile.units.empty()) map.require("units").fail("expected at least one unit");
  const std::vector<Value> points = map.require("points").as_list();
  for (std::size_t i = 0; i < points.size(); ++i) {
    Map point = points[i].as_map();
    check_same_units(point.require("units"), profile.points[i].units, profile.units);
    check_sums(point.require("sum_check"), profile.points[i]);
  }
}

}  // namespace

std::vector<Key> compute_profile_keys() { return keys_of(compute_profile_fields()); }

ComputeProfile read_compute_profile(const Value& value) {
  Map map = value.as_map();
  const SoundPart part;
  map.require("schema").as_choice({kProfileSchema});
  part.check();  // another kind of file has other keys
  const ComputeProfile profile = read_fields(map, compute_profile_fields());
  map.finish();
  part.check();
  check_profile(map, profile);
  return profile;
}

}  // namespace rehearse::inline profile
