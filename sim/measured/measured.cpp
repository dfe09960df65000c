// What `calibrate` and `record` measured, read from their files, and two of them side by side.
#include "measured/measured.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.hpp"
#include "base/number.hpp"
#include "base/percentile.hpp"
#include "config/document.hpp"
#include "config/whole_file.hpp"
#include "profile/comm_profile.hpp"
#include "profile/compute_profile.hpp"

namespace rehearse::inline measured {
namespace {

namespace fs = std::filesystem;

constexpr std::array kKinds = {"step", "forward",      "backward",      "optimizer",  "waiting",
                               "core", "unit forward", "unit backward", "collective", "kernel"};

constexpr std::int64_t kMostRanks = 1 << 30, kMostBatch = 1'000'000'000;

std::size_t order_of(const std::string& kind) {
  return static_cast<std::size_t>(std::ranges::find(kKinds, kind) - kKinds.begin());
}

/// Adds one batch of a compute profile: the recorded run's, where `batch` says it (others are of
/// records that were joined to it); else the largest that was measured.
void add_compute(const fs::path& file, std::int64_t batch, MeasuredFolder& found) {
  const ComputeProfile profile = read_compute_profile(Document::load(file)->root());
  found.command = profile.origin.command;
  found.device = profile.origin.device;
  found.library = profile.origin.libtorch;
  const bool several = !found.model.empty();
  const std::string before = several ? profile.model + ": " : "";
  if (!several) {
    found.model = profile.model;
    found.precision = to_string(profile.precision);
  }
  for (const OptimizerTime& one : profile.optimizers)
    found.parts.push_back({"optimizer", before + one.kind, one.time, one.spread});
  if (profile.points.empty()) return;
  const auto own = std::ranges::find(profile.points, batch, &BatchPoint::batch);
  const BatchPoint& point = own == profile.points.end() ? profile.points.back() : *own;
  if (!several) found.batch = point.batch;
  found.parts.push_back({"forward", before + "all units", point.whole.forward});
  found.parts.push_back({"backward", before + "all units", point.whole.backward});
  for (const UnitTimes& unit : point.units) {
    found.parts.push_back({"unit forward", before + unit.name, unit.forward, unit.forward_spread});
    found.parts.push_back(
        {"unit backward", before + unit.name, unit.backward, unit.backward_spread});
  }
}

std::string collective_name(const std::string& what, Bytes size, std::int64_t ranks) {
  return fmt::format("{} of {} over {} ranks", what, format(size), ranks);
}

/// Adds what curves say of the smallest and the largest size that each was fitted on.
void add_curves(const fs::path& file, MeasuredFolder& found) {
  const CommProfile profile = read_comm_profile(Document::load(file)->root());
  if (found.device.empty()) found.device = profile.hardware;
  if (found.command.empty()) found.command = profile.source;
  for (const CommCurve& curve : profile.curves) {
    std::vector<Bytes> sizes = {curve.smallest};
    if (curve.largest > curve.smallest) sizes.push_back(curve.largest);
    for (const Bytes size : sizes)
      found.parts.push_back(
          {"collective", collective_name(to_string(curve.kind), size, curve.ranks),
           curve.cost(size).total(),
           size >= kLargeMessage ? curve.error_p90_large : curve.error_p90_small});
  }
}

/// The step and its collectives, which only a real run has.
void add_record(const fs::path& file, MeasuredFolder& found) {
  Map map = Document::load(file)->root().as_map();
  const auto own = map.optional("step");
  if (!own)
    throw InputError(fmt::format("{}: error: nothing was recorded: {}", file.string(),
                                 map.string_or("why", "the run took no step")));
  Map step = own->as_map();
  found.parts.push_back({"step", "the whole step", step.require("time").as_seconds(),
                         step.number_or("quartiles_apart", 0)});
  for (const auto& [key, name] : {std::pair{"exposed", "for collectives"}, {"loader", "for data"}})
    found.parts.push_back({"waiting", name, step.seconds_or(key, Seconds(0))});
  found.parts.push_back(
      {"core", "ready without one", step.seconds_or("ready_without_a_core", Seconds(0))});
  if (const auto run = map.optional("run")) {
    Map of_run = run->as_map();
    found.ranks = of_run.integer_or("ranks", 0, 0, kMostRanks);
  }
  const auto seen = map.optional("collectives");
  if (!seen || seen->as_list().empty()) return;
  std::erase_if(found.parts, [](const MeasuredPart& one) { return one.kind == "collective"; });
  for (const Value& one : seen->as_list()) {
    Map line = one.as_map();
    found.parts.push_back(
        {"collective",
         collective_name(line.require("what").as_string(), line.require("size").as_bytes(),
                         line.integer_or("ranks", 1, 1, 1 << 30)),
         line.require("time").as_seconds(), line.number_or("spread", 0),
         line.number_or("in_a_step", 1)});
  }
}

/// Cells of a line of CSV, whose quotes are doubled within quotes.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += line[++i];
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (line[i] == ',' && !quoted) {
      cells.emplace_back();
    } else if (line[i] != '\r') {
      cells.back() += line[i];
    }
  }
  return cells;
}

/// The table of kernels, by names that tell pass, kernel and shapes.
void add_kernels(const fs::path& file, MeasuredFolder& found) {
  for (const RecordedKernel& one : read_recorded_kernels(file)) {
    std::string name = one.pass;
    for (const std::string& word : {one.name, one.shapes})
      if (!word.empty()) name += " " + word;
    found.parts.push_back({"kernel", name, one.time, one.spread, one.calls});
  }
}

std::vector<fs::path> profiles_in(const fs::path& folder) {
  std::vector<fs::path> files;
  if (fs::exists(folder / "profile.yaml")) files.push_back(folder / "profile.yaml");
  if (fs::is_directory(folder / "compute"))
    for (const fs::directory_entry& one : fs::directory_iterator(folder / "compute"))
      if (one.path().extension() == ".yaml") files.push_back(one.path());
  std::ranges::sort(files);
  return files;
}

/// Samples that a rank of a recorded run trains with at once; 0: none was recorded, or nobody
/// knows.
std::int64_t recorded_batch(const fs::path& file) {
  if (!fs::exists(file)) return 0;
  const auto run = Document::load(file)->root().as_map().optional("run");
  if (!run) return 0;
  Map of_run = run->as_map();
  if (!of_run.has("batch_per_rank") || of_run.require("batch_per_rank").shown() == "unknown")
    return 0;
  return of_run.require("batch_per_rank").as_integer(1, kMostBatch);
}

void read_folder(const fs::path& folder, MeasuredFolder& found) {
  const fs::path record = folder / "record.yaml";
  const std::int64_t batch = recorded_batch(record);
  for (const fs::path& file : profiles_in(folder)) add_compute(file, batch, found);
  if (fs::exists(folder / "comm.yaml")) add_curves(folder / "comm.yaml", found);
  if (fs::exists(record)) add_record(record, found);
  if (batch > 0) found.batch = batch;
  if (fs::exists(folder / "kernels.csv")) add_kernels(folder / "kernels.csv", found);
}

/// A report `rehearse.step/1` of `calibrate step`: the mean of the ranks' medians, and how far the
/// quartiles of all their steps are apart.
void add_steps(const fs::path& file, MeasuredFolder& found) {
  const auto report = nlohmann::json::parse(read_whole_file(file));
  found.command = report.at("command");
  found.device = report.at("hardware");
  found.library = report.at("libtorch");
  found.model = report.at("model");
  found.precision = report.at("precision");
  found.batch = report.at("batch_per_rank");
  std::vector<Seconds> steps;
  std::map<std::string, Seconds> phases;
  Seconds medians(0), waited(0);
  for (const auto& rank : report.at("per_rank")) {
    std::vector<Seconds> own;
    for (const double step : rank.at("step_times_s")) own.emplace_back(step);
    if (own.empty()) continue;
    ++found.ranks;
    medians += percentile(own, 0.5);
    steps.insert(steps.end(), own.begin(), own.end());
    for (const auto& [name, time] : rank.at("phases").items())
      phases[name.substr(0, name.rfind("_s"))] += Seconds(time.get<double>());
    waited += Seconds(rank.value("waited_s", 0.0));
  }
  if (found.ranks == 0) return;
  const double share = 1.0 / static_cast<double>(found.ranks);
  const double apart = (percentile(steps, 0.75) - percentile(steps, 0.25)) / (medians * share);
  found.parts.push_back({"step", "the whole step", medians * share, apart});
  for (const auto& [name, time] : phases)
    if (order_of(name) < kKinds.size()) found.parts.push_back({name, "of a step", time * share});
  found.parts.push_back({"waiting", "for collectives", waited * share});
}

void read_file(const fs::path& file, MeasuredFolder& found) {
  Map map = Document::load(file)->root().as_map();
  if (map.has("per_rank")) {
    try {
      return add_steps(file, found);
    } catch (const nlohmann::json::exception&) {
      map.where().fail("this is no whole report of `rehearse calibrate step`", "measure it again");
    }
  }
  if (map.has("products"))
    map.where().fail("a fit of kernels holds no times",
                     "its list `measured` says how far each kind of kernel was off");
  if (map.has("curves")) {
    add_curves(file, found);
  } else {
    add_compute(file, 0, found);
  }
}

/// One for each part of `of`, by kind and name.
std::map<std::pair<std::string, std::string>, MeasuredPart> by_name(const MeasuredFolder& of) {
  std::map<std::pair<std::string, std::string>, MeasuredPart> found;
  for (const MeasuredPart& part : of.parts) found.emplace(std::pair{part.kind, part.name}, part);
  return found;
}

}  // namespace

bool is_measured_folder(const fs::path& place) {
  return fs::is_directory(place) &&
         (fs::exists(place / "record.yaml") || fs::exists(place / "comm.yaml") ||
          !profiles_in(place).empty());
}

// phase, kernel, operator, shapes, types, in_a_step, time_us_in_a_step, share, spread.
std::vector<RecordedKernel> read_recorded_kernels(const fs::path& file) {
  constexpr std::size_t kColumns = 9;
  std::vector<RecordedKernel> found;
  std::istringstream lines(read_whole_file(file));
  std::string line;
  std::getline(lines, line);
  for (int number = 2; std::getline(lines, line); ++number) {
    std::vector<std::string> cells = cells_of(line);
    const auto value = [&](std::size_t place) {
      return place < cells.size() ? decimal_number(cells[place]) : std::nullopt;
    };
    const auto often = value(5), time = value(6), spread = value(8);
    if (cells.size() != kColumns || !often || !time || !spread)
      throw InputError(
          fmt::format("{}:{}: error: expected nine columns of a record's kernels\n"
                      "remedy: record the run again",
                      file.string(), number));
    found.push_back({.pass = std::move(cells[0]),
                     .name = std::move(cells[1]),
                     .op = std::move(cells[2]),
                     .shapes = std::move(cells[3]),
                     .types = std::move(cells[4]),
                     .calls = *often,
                     .time = Seconds(*time * 1e-6),
                     .spread = *spread});
  }
  return found;
}

MeasuredFolder read_measured(const fs::path& place) {
  MeasuredFolder found{.name = place.string()};
  if (!fs::exists(place))
    throw MissingError(
        fmt::format("{}: error: cannot read it: No such file or directory\n"
                    "remedy: a folder of `rehearse record` or `calibrate`",
                    place.string()));
  if (fs::is_directory(place)) {
    read_folder(place, found);
  } else {
    read_file(place, found);
  }
  if (found.parts.empty())
    throw InputError(fmt::format(
        "{}: error: it holds no measurements\nremedy: name a folder that `rehearse record -- "
        "COMMAND` or `rehearse calibrate` wrote",
        place.string()));
  std::ranges::stable_sort(found.parts, {},
                           [](const MeasuredPart& one) { return order_of(one.kind); });
  return found;
}

bool MeasuredChange::is_beyond_spread() const {
  const Seconds half = 0.5 * (first.spread * first.time + second.spread * second.time);
  return !both || std::abs(change().value()) > half.value();
}

MeasuredComparison compare_measured(MeasuredFolder first, MeasuredFolder second) {
  const auto left = by_name(first), right = by_name(second);
  MeasuredComparison made;
  bool common = false;
  for (const auto& [key, part] : left) {
    const auto other = right.find(key);
    common = common || other != right.end();
    MeasuredChange change{part, {part.kind, part.name, Seconds(0)}, other != right.end()};
    if (change.both) change.second = other->second;
    made.changes.push_back(change);
  }
  for (const auto& [key, part] : right)
    if (!left.contains(key))
      made.changes.push_back({{part.kind, part.name, Seconds(0)}, part, false});
  if (!common)
    throw InputError(
        fmt::format("{} and {}: error: they have no measured part in common\nremedy: "
                    "compare records of one script, or profiles of one model",
                    first.name, second.name));
  std::ranges::stable_sort(made.changes, [](const MeasuredChange& a, const MeasuredChange& b) {
    const auto x = order_of(a.first.kind), y = order_of(b.first.kind);
    return x != y ? x < y : std::abs(a.change().value()) > std::abs(b.change().value());
  });
  made.first = std::move(first);
  made.second = std::move(second);
  return made;
}

}  // namespace rehearse::inline measured
