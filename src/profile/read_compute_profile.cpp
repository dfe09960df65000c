#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "config/mistakes.hpp"
#include "profile/compute_profile.hpp"

namespace rehearse::inline profile {
namespace {

constexpr std::int64_t kMost = 1'000'000'000;
constexpr std::int64_t kMostElements = std::int64_t{1} << 50;
/// What a stated sum may differ from that of the rounded times beside it.
constexpr double kRounding = 5e-4;

ProfileOrigin read_origin(const Value& value) {
  Map map = value.as_map();
  ProfileOrigin origin;
  origin.device = map.require("device").as_string();
  origin.driver = map.require("driver").as_string();
  origin.cuda = map.require("cuda").as_string();
  origin.nccl = map.require("nccl").as_string();
  origin.libtorch = map.require("libtorch").as_string();
  origin.date = map.require("date").as_string();
  origin.command = map.require("command").as_string();
  origin.host_threads = static_cast<int>(map.require("host_threads").as_integer(1, kMost));
  map.finish();
  return origin;
}

/// 0 where it is left out: the device lacks the format.
FlopsPerSecond rate_or_none(Map& map, const std::string& format) {
  const std::optional<Value> rate = map.optional(format);
  return rate ? rate->as_flops_per_second() : FlopsPerSecond(0);
}

DeviceRates read_rates(const Value& value) {
  Map map = value.as_map();
  const DeviceRates rates{.fp32 = map.require("fp32").as_flops_per_second(),
                          .tf32 = rate_or_none(map, "tf32"),
                          .fp16 = rate_or_none(map, "fp16"),
                          .bf16 = rate_or_none(map, "bf16"),
                          .memory_bandwidth = map.require("memory_bandwidth").as_bytes_per_second(),
                          .memory = map.require("memory").as_bytes()};
  map.finish();
  return rates;
}

ProfiledUnit read_profiled_unit(const Value& value) {
  Map map = value.as_map();
  ProfiledUnit unit;
  unit.name = map.require("name").as_string();
  for (const Value& elements : map.require("tensors").as_list()) {
    unit.tensors.push_back(elements.as_integer(1, kMostElements));
  }
  unit.buffer_elements = map.integer_or("buffer_elements", 0, 0, kMostElements);
  map.finish();
  return unit;
}

std::vector<ProfiledUnit> read_profiled_units(const Value& value) {
  std::vector<ProfiledUnit> units;
  for (const Value& item : value.as_list()) {
    units.push_back(read_profiled_unit(item));
    for (std::size_t i = 0; i + 1 < units.size(); ++i) {
      if (units[i].name == units.back().name) {
        item.fail(fmt::format("a second unit named \"{}\"", units[i].name));
      }
    }
  }
  if (units.empty()) value.fail("expected at least one unit");
  return units;
}

UnitTimes read_unit(const Value& value) {
  Map map = value.as_map();
  UnitTimes unit;
  unit.name = map.require("name").as_string();
  unit.forward = map.require("forward").as_seconds();
  unit.backward = map.require("backward").as_seconds();
  unit.forward_spread = map.require("forward_spread").as_non_negative_number();
  unit.backward_spread = map.require("backward_spread").as_non_negative_number();
  unit.forward_launch = map.seconds_or("forward_launch", Seconds(0));
  unit.backward_launch = map.seconds_or("backward_launch", Seconds(0));
  unit.saved = map.require("saved").as_bytes();
  unit.workspace = map.require("workspace").as_bytes();
  unit.forward_flops = Flops(map.require("forward_flops").as_non_negative_number());
  unit.backward_flops = Flops(map.require("backward_flops").as_non_negative_number());
  unit.forward_moved = map.require("forward_moved").as_bytes();
  unit.backward_moved = map.require("backward_moved").as_bytes();
  map.finish();
  return unit;
}

Seconds read_positive(const Value& value) {
  const Seconds time = value.as_seconds();
  if (!(time > Seconds(0))) value.fail("expected a time above zero");
  return time;
}

StepTimes read_whole(const Value& value) {
  Map map = value.as_map();
  const StepTimes whole{.forward = read_positive(map.require("forward")),
                        .backward = read_positive(map.require("backward")),
                        .optimizer = map.require("optimizer").as_seconds(),
                        .step = read_positive(map.require("step"))};
  map.finish();
  return whole;
}

/// The check is stated for readers of the file; it must be that of the times beside it.
void read_sum_check(const Value& value, const BatchPoint& point) {
  Map map = value.as_map();
  const Value units = map.require("units");
  const Value whole = map.require("whole");
  const Value difference = map.require("difference");
  const auto differs = [](Seconds stated, Seconds sum) {
    return std::abs(stated / sum - 1) > kRounding;
  };
  if (differs(units.as_seconds(), point.units_sum())) {
    units.fail("is not the sum of the units' times");
  }
  if (differs(whole.as_seconds(), point.whole.forward + point.whole.backward)) {
    whole.fail("is not the whole step's forward and backward");
  }
  if (std::abs(difference.as_number() - point.sum_difference()) > 2 * kRounding) {
    difference.fail("is not what the units' sum differs from the whole by");
  }
  map.finish();
}

void check_same_units(const Value& value, const std::vector<UnitTimes>& times,
                      const std::vector<ProfiledUnit>& units) {
  const bool same =
      std::equal(times.begin(), times.end(), units.begin(), units.end(),
                 [](const UnitTimes& a, const ProfiledUnit& b) { return a.name == b.name; });
  if (!same) value.fail("expected the profile's units, in their order");
}

BatchPoint read_point(const Value& value, const std::vector<ProfiledUnit>& profiled) {
  Map map = value.as_map();
  BatchPoint point;
  point.batch = map.require("batch").as_integer(1, kMost);
  point.repetitions = map.require("repetitions").as_integer(1, kMost);
  point.allocated_peak = map.require("allocated_peak").as_bytes();
  if (const auto reserved = map.optional("reserved_peak"))
    point.reserved_peak = reserved->as_bytes();
  point.whole = read_whole(map.require("whole"));
  const Value sum_check = map.require("sum_check");
  const Value units = map.require("units");
  for (const Value& unit : units.as_list()) point.units.push_back(read_unit(unit));
  check_same_units(units, point.units, profiled);
  read_sum_check(sum_check, point);
  map.finish();
  return point;
}

std::vector<BatchPoint> read_points(const Value& value, const std::vector<ProfiledUnit>& units) {
  std::vector<BatchPoint> points;
  for (const Value& item : value.as_list()) {
    points.push_back(read_point(item, units));
    if (points.size() == 1) continue;
    const BatchPoint& before = points[points.size() - 2];
    if (points.back().batch <= before.batch) {
      item.fail(fmt::format("expected a batch above {}, the one before", before.batch));
    }
  }
  return points;
}

std::vector<OptimizerTime> read_optimizers(const Value& value) {
  std::vector<OptimizerTime> optimizers;
  Map map = value.as_map();
  for (const std::string& kind : map.keys()) {
    Map entry = map.require(kind).as_map();
    optimizers.push_back({.kind = kind,
                          .time = entry.require("time").as_seconds(),
                          .spread = entry.require("spread").as_non_negative_number(),
                          .repetitions = entry.require("repetitions").as_integer(1, kMost)});
    entry.finish();
  }
  return optimizers;
}

void read_sample(const Value& value, ComputeProfile& profile) {
  Map map = value.as_map();
  profile.image = map.integer_or("image", 0, 1, kMost);
  profile.sequence = map.integer_or("sequence", 0, 1, kMost);
  if (const auto input = map.optional("input")) profile.input = input->as_string();
  map.finish();
  if ((profile.image > 0) + (profile.sequence > 0) + !profile.input.empty() != 1) {
    value.fail("expected an image size, a sequence length or an input");
  }
}

}  // namespace

ComputeProfile read_compute_profile(const Value& value) {
  Map map = value.as_map();
  const SoundPart part;
  map.require("schema").as_choice({kProfileSchema});
  part.check();  // another kind of file has other keys
  map.require("kind").as_choice({"compute"});
  ComputeProfile profile;
  profile.origin = read_origin(map.require("provenance"));
  profile.model = map.require("model").as_string();
  profile.precision = parse_precision(map.require("precision").as_choice(precision_names()));
  read_sample(map.require("sample"), profile);
  profile.rates = read_rates(map.require("rates"));
  profile.units = read_profiled_units(map.require("units"));
  profile.step_optimizer = map.require("step_optimizer").as_string();
  profile.optimizers = read_optimizers(map.require("optimizers"));
  profile.points = read_points(map.require("points"), profile.units);
  map.finish();
  part.check();
  return profile;
}

}  // namespace rehearse::inline profile
