#include <fmt/format.h>

#include <cmath>

#include "profile/compute_profile.hpp"
#include "profile/yaml_text.hpp"

namespace rehearse {
namespace {

constexpr const char* kSchema = "rehearse.profile/1";
constexpr std::int64_t kMost = 1'000'000'000;
constexpr std::int64_t kMostParameters = std::int64_t{1} << 50;
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

UnitTimes read_unit(const Value& value) {
  Map map = value.as_map();
  UnitTimes unit;
  unit.name = map.require("name").as_string();
  unit.parameters = map.require("parameters").as_integer(0, kMostParameters);
  unit.forward = map.require("forward").as_seconds();
  unit.backward = map.require("backward").as_seconds();
  unit.forward_spread = map.require("forward_spread").as_non_negative_number();
  unit.backward_spread = map.require("backward_spread").as_non_negative_number();
  unit.saved = map.require("saved").as_bytes();
  unit.workspace = map.require("workspace").as_bytes();
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

void check_units(const Value& value, const std::vector<UnitTimes>& units) {
  if (units.empty()) value.fail("expected at least one unit");
  for (std::size_t i = 0; i < units.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (units[i].name == units[j].name) {
        value.as_list()[i].fail(fmt::format("a second unit named \"{}\"", units[i].name));
      }
    }
  }
}

BatchPoint read_point(const Value& value) {
  Map map = value.as_map();
  BatchPoint point;
  point.batch = map.require("batch").as_integer(1, kMost);
  point.repetitions = map.require("repetitions").as_integer(1, kMost);
  point.allocated_peak = map.require("allocated_peak").as_bytes();
  point.whole = read_whole(map.require("whole"));
  const Value sum_check = map.require("sum_check");
  const Value units = map.require("units");
  for (const Value& unit : units.as_list()) point.units.push_back(read_unit(unit));
  check_units(units, point.units);
  read_sum_check(sum_check, point);
  map.finish();
  return point;
}

void check_same_units(const Value& value, const BatchPoint& first, const BatchPoint& point) {
  bool same = first.units.size() == point.units.size();
  for (std::size_t i = 0; same && i < point.units.size(); ++i) {
    same = first.units[i].name == point.units[i].name &&
           first.units[i].parameters == point.units[i].parameters;
  }
  if (!same) {
    value.fail(fmt::format("expected the units of batch {}, in its order", first.batch));
  }
}

std::vector<BatchPoint> read_points(const Value& value) {
  std::vector<BatchPoint> points;
  for (const Value& item : value.as_list()) {
    points.push_back(read_point(item));
    if (points.size() == 1) continue;
    const BatchPoint& before = points[points.size() - 2];
    if (points.back().batch <= before.batch) {
      item.fail(fmt::format("expected a batch above {}, the one before", before.batch));
    }
    check_same_units(item, points.front(), points.back());
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
  map.finish();
  if ((profile.image > 0) == (profile.sequence > 0)) {
    value.fail("expected an image size or a sequence length");
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

std::string unit_text(const UnitTimes& unit) {
  return fmt::format(
      "      - {{name: {}, parameters: {}, forward: {}, backward: {}, forward_spread: {:.4f}, "
      "backward_spread: {:.4f}, saved: {}, workspace: {}}}\n",
      unit.name, unit.parameters, yaml_seconds(unit.forward), yaml_seconds(unit.backward),
      unit.forward_spread, unit.backward_spread, yaml_bytes(unit.saved),
      yaml_bytes(unit.workspace));
}

std::string point_text(const BatchPoint& point) {
  std::string text = fmt::format(
      "  - batch: {}\n    repetitions: {}\n    allocated_peak: {}\n    whole: {{forward: {}, "
      "backward: {}, optimizer: {}, step: {}}}\n    sum_check: {{units: {}, whole: {}, "
      "difference: {:.4f}}}\n    units:\n",
      point.batch, point.repetitions, yaml_bytes(point.allocated_peak),
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
  profile.step_optimizer = map.require("step_optimizer").as_string();
  profile.optimizers = read_optimizers(map.require("optimizers"));
  profile.points = read_points(map.require("points"));
  map.finish();
  return profile;
}

std::string to_yaml(const ComputeProfile& profile) {
  std::string text = fmt::format("schema: {}\nkind: compute\n", kSchema);
  text += origin_text(profile.origin);
  text += fmt::format("model: {}\nprecision: {}\n", profile.model, to_string(profile.precision));
  text += profile.image > 0 ? fmt::format("sample: {{image: {}}}\n", profile.image)
                            : fmt::format("sample: {{sequence: {}}}\n", profile.sequence);
  text += fmt::format("step_optimizer: {}\n", profile.step_optimizer);
  text += optimizers_text(profile.optimizers);
  text += profile.points.empty() ? "points: []\n" : "points:\n";
  for (const BatchPoint& point : profile.points) text += point_text(point);
  return text;
}

}  // namespace rehearse
