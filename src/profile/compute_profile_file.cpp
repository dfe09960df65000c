#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>

#include "profile/compute_profile.hpp"
#include "profile/yaml_text.hpp"

namespace rehearse {
namespace {

constexpr const char* kSchema = "rehearse.profile/1";
constexpr std::int64_t kMost = 1'000'000'000;
constexpr std::int64_t kMostElements = std::int64_t{1} << 50;
/// What a stated sum may differ from that of the rounded times beside it.
constexpr double kRounding = 5e-4;

// --- reading -------------------------------------------------------------------------------------

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

// --- writing -------------------------------------------------------------------------------------

std::string origin_text(const ProfileOrigin& origin) {
  return fmt::format(
      "provenance:\n  device: {}\n  driver: {}\n  cuda: {}\n  nccl: {}\n  libtorch: {}\n  date: "
      "{}\n  command: {}\n  host_threads: {}\n",
      quoted(origin.device), quoted(origin.driver), quoted(origin.cuda), quoted(origin.nccl),
      quoted(origin.libtorch), quoted(origin.date), quoted(origin.command), origin.host_threads);
}

std::string sample_text(const ComputeProfile& profile) {
  if (profile.image > 0) return fmt::format("sample: {{image: {}}}\n", profile.image);
  if (profile.sequence > 0) return fmt::format("sample: {{sequence: {}}}\n", profile.sequence);
  return fmt::format("sample: {{input: {}}}\n", quoted(profile.input));
}

std::string rates_text(const DeviceRates& rates) {
  std::string text = "rates: {";
  const auto add = [&text](const char* format, FlopsPerSecond rate) {
    if (rate.value() > 0) text += fmt::format("{}: {}, ", format, yaml_flops_per_second(rate));
  };
  add("fp32", rates.fp32);
  add("tf32", rates.tf32);
  add("fp16", rates.fp16);
  add("bf16", rates.bf16);
  return text + fmt::format("memory_bandwidth: {}, memory: {}}}\n",
                            yaml_bytes_per_second(rates.memory_bandwidth),
                            yaml_bytes(rates.memory));
}

/// Names of TorchScript files and submodules may be digits alone, which YAML would take for a
/// number.
std::string name_text(const std::string& name) {
  const bool plain = std::isalpha(static_cast<unsigned char>(name.front())) != 0 &&
                     std::all_of(name.begin(), name.end(), [](unsigned char c) {
                       return std::isalnum(c) != 0 || c == '_' || c == '.';
                     });
  return plain ? name : quoted(name);
}

std::string profiled_unit_text(const ProfiledUnit& unit) {
  std::string text = fmt::format("  - {{name: {}, tensors: [{}]", name_text(unit.name),
                                 fmt::join(unit.tensors, ", "));
  if (unit.buffer_elements > 0) text += fmt::format(", buffer_elements: {}", unit.buffer_elements);
  return text + "}\n";
}

std::string unit_text(const UnitTimes& unit) {
  std::string text = fmt::format(
      "      - {{name: {}, forward: {}, backward: {}, forward_spread: {:.4f}, "
      "backward_spread: {:.4f}, saved: {}, workspace: {}, forward_flops: {:.0f}, backward_flops: "
      "{:.0f}, forward_moved: {}, backward_moved: {}",
      name_text(unit.name), yaml_seconds(unit.forward), yaml_seconds(unit.backward),
      unit.forward_spread, unit.backward_spread, yaml_bytes(unit.saved), yaml_bytes(unit.workspace),
      unit.forward_flops.value(), unit.backward_flops.value(), yaml_bytes(unit.forward_moved),
      yaml_bytes(unit.backward_moved));
  if (unit.forward_launch + unit.backward_launch > Seconds(0)) {
    text += fmt::format(", forward_launch: {}, backward_launch: {}",
                        yaml_seconds(unit.forward_launch), yaml_seconds(unit.backward_launch));
  }
  return text + "}\n";
}

std::string point_text(const BatchPoint& point) {
  std::string text = fmt::format("  - batch: {}\n    repetitions: {}\n    allocated_peak: {}\n",
                                 point.batch, point.repetitions, yaml_bytes(point.allocated_peak));
  if (point.reserved_peak) {
    text += fmt::format("    reserved_peak: {}\n", yaml_bytes(*point.reserved_peak));
  }
  text += fmt::format(
      "    whole: {{forward: {}, backward: {}, optimizer: {}, step: {}}}\n    sum_check: "
      "{{units: {}, whole: {}, difference: {:.4f}}}\n    units:\n",
      yaml_seconds(point.whole.forward), yaml_seconds(point.whole.backward),
      yaml_seconds(point.whole.optimizer), yaml_seconds(point.whole.step),
      yaml_seconds(point.units_sum()), yaml_seconds(point.whole.forward + point.whole.backward),
      point.sum_difference());
  for (const UnitTimes& unit : point.units) text += unit_text(unit);
  return text;
}

std::string optimizers_text(const std::vector<OptimizerTime>& optimizers) {
  if (optimizers.empty()) return "optimizers: {}\n";
  std::string text = "optimizers:\n";
  for (const OptimizerTime& one : optimizers) {
    text += fmt::format("  {}: {{time: {}, spread: {:.4f}, repetitions: {}}}\n", one.kind,
                        yaml_seconds(one.time), one.spread, one.repetitions);
  }
  return text;
}

}  // namespace

ComputeProfile read_compute_profile(const Value& value) {
  Map map = value.as_map();
  map.require("schema").as_choice({kSchema});
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
  return profile;
}

std::string to_yaml(const ComputeProfile& profile) {
  std::string text = fmt::format("schema: {}\nkind: compute\n", kSchema);
  text += origin_text(profile.origin);
  text += fmt::format("model: {}\nprecision: {}\n", name_text(profile.model),
                      to_string(profile.precision));
  text += sample_text(profile) + rates_text(profile.rates) + "units:\n";
  for (const ProfiledUnit& unit : profile.units) text += profiled_unit_text(unit);
  text += fmt::format("step_optimizer: {}\n", profile.step_optimizer);
  text += optimizers_text(profile.optimizers);
  text += profile.points.empty() ? "points: []\n" : "points:\n";
  for (const BatchPoint& point : profile.points) text += point_text(point);
  return text;
}

}  // namespace rehearse
