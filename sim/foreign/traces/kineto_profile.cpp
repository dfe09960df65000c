#include "foreign/traces/kineto_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "base/quoting.hpp"
#include "cluster/cluster.hpp"
#include "config/draft.hpp"
#include "foreign/traces/kineto_work.hpp"

namespace rehearse::inline foreign {
namespace {

constexpr double kMicro = 1e-6;
constexpr std::size_t kUnitsOfNoStructure = 8;

/// The units of a forward pass: by place, the unit's number.
struct Units {
  std::vector<std::size_t> of_place;
  std::vector<std::string> names;
  std::string words;
};

Units units_of(const TracedStep& step) {
  Units units;
  const Repeats repeats = repeats_of(step.forward);
  const std::size_t places = std::max<std::size_t>(1, step.forward.size());
  units.of_place.resize(places);
  if (repeats.count == 0) {
    const std::size_t count = std::min(places, kUnitsOfNoStructure);
    for (std::size_t i = 0; i < places; ++i) units.of_place[i] = i * count / places;
    for (std::size_t i = 0; i < count; ++i) units.names.push_back(fmt::format("part.{}", i));
    units.words = fmt::format("{} operators in which nothing repeats, in {} parts", places, count);
    return units;
  }
  const std::size_t end = repeats.first + repeats.count * repeats.period;
  if (repeats.first > 0) units.names.emplace_back("start");
  const std::size_t before = units.names.size();
  for (std::size_t i = 0; i < repeats.count; ++i)
    units.names.push_back(fmt::format("layers.{}", i));
  if (end < places) units.names.emplace_back("end");
  for (std::size_t i = 0; i < places; ++i)
    units.of_place[i] = i < repeats.first ? 0
                        : i < end         ? before + (i - repeats.first) / repeats.period
                                          : units.names.size() - 1;
  units.words =
      fmt::format("{} layers of {} operators each, of {}", repeats.count, repeats.period, places);
  return units;
}

/// Times of one step by unit, and what the device did.
struct StepSums {
  std::vector<double> forward, backward;
  double optimizer = 0, busy = 0, exposed = 0;
};

using Stretch = std::pair<double, double>;

/// The collectives of a trace in the order of time, and the longest of them.
struct Collectives {
  std::vector<Stretch> stretches;
  double longest = 0;

  explicit Collectives(const KinetoTrace& trace) {
    for (const TraceCollective& one : trace.collectives) {
      stretches.emplace_back(one.kernel.begin, one.kernel.end());
      longest = std::max(longest, static_cast<double>(one.kernel.duration));
    }
    std::ranges::sort(stretches);
  }

  std::span<const Stretch> from_until(double begin, double end) const {
    const auto first = std::ranges::lower_bound(stretches, begin - longest, {}, &Stretch::first);
    const auto last = std::ranges::lower_bound(stretches, end, {}, &Stretch::first);
    return first < last ? std::span(first, last) : std::span<const Stretch>();
  }
};

/// Seconds from `begin` to `end` in which a collective ran and no kernel (on a CPU no operator).
class Exposed {
 public:
  Exposed(std::span<const Stretch> collectives, const TracedStep& step) {
    double from = step.begin;  // kernels ran without a gap up to here
    std::size_t next = 0;
    const auto gap = [&](double until) {
      for (; next < collectives.size() && collectives[next].second <= from; ++next) {
      }
      for (std::size_t i = next; i < collectives.size() && collectives[i].first < until; ++i) {
        const double a = std::max(from, collectives[i].first);
        const double b = std::min(until, collectives[i].second);
        if (b > a) {
          gaps_.emplace_back(a, b);
          from = b;
        }
      }
    };
    const auto pass = [&](double begin, double end) {
      if (begin > from) gap(begin);
      from = std::max(from, end);
    };
    for (const auto& [begin, end] : step.innermost) pass(begin, end);
    if (step.innermost.empty())
      for (const TracedWork& work : step.work) pass(work.begin, work.end());
    if (step.end > from) gap(step.end);
  }

  double within(double begin, double end) const {
    double sum = 0;
    for (auto gap = std::ranges::lower_bound(gaps_, begin, {}, &Stretch::second);
         gap != gaps_.end() && gap->first < end; ++gap)
      sum += std::max(0.0, std::min(end, gap->second) - std::max(begin, gap->first));
    return sum;
  }

 private:
  std::vector<Stretch> gaps_;
};

StepSums sums_of(const Collectives& collectives, const TracedStep& step, const Units& units) {
  StepSums sums;
  sums.forward.resize(units.names.size());
  sums.backward.resize(units.names.size());
  const Exposed exposed(collectives.from_until(step.begin, step.end), step);
  double covered = step.begin;
  for (std::size_t i = 0; i < step.work.size(); ++i) {
    const TracedWork& work = step.work[i];
    // A kernel of another stream may begin or end behind the next step's first.
    const double begin = std::min(work.begin, step.end);
    const double until =
        std::min(i + 1 < step.work.size() ? step.work[i + 1].begin : step.end, step.end);
    const double end = std::min(work.end(), step.end);
    const double hidden = exposed.within(begin, until);
    const double time = kMicro * std::max(0.0, until - begin - hidden);
    sums.exposed += kMicro * hidden;
    const double waited = step.innermost.empty() ? 0 : exposed.within(begin, end);
    sums.busy += kMicro * std::max(0.0, end - std::max(covered, begin) - waited);
    covered = std::max(covered, end);
    const std::size_t unit =
        units.of_place[std::min<std::size_t>(work.place, units.of_place.size() - 1)];
    if (work.phase == TracedPhase::forward) sums.forward[unit] += time;
    if (work.phase == TracedPhase::backward) sums.backward[unit] += time;
    if (work.phase == TracedPhase::optimizer) sums.optimizer += time;
  }
  return sums;
}

/// Keeps the shortest of each collective over ranks, which waits for nobody.
std::vector<TracedCollective> collectives_of(const std::vector<KinetoTrace>& ranks, double steps) {
  std::map<std::tuple<std::string, std::string, double, int>, TracedCollective> kinds;
  std::map<std::pair<std::string, std::size_t>, double> least;  // by group and place in it
  for (const KinetoTrace& rank : ranks) {
    std::map<std::string, std::size_t> places;
    for (const TraceCollective& one : rank.collectives) {
      const auto at = std::pair(one.group, places[one.group]++);
      const auto found = least.try_emplace(at, one.kernel.duration).first;
      found->second = std::min(found->second, static_cast<double>(one.kernel.duration));
    }
  }
  std::map<std::string, std::size_t> places;
  for (const TraceCollective& one : ranks.front().collectives) {
    TracedCollective& kind = kinds[{one.what, one.dtype, one.elements, one.ranks}];
    kind.what = one.what;
    kind.dtype = one.dtype;
    kind.elements = one.elements;
    kind.ranks = one.ranks;
    kind.count += 1 / steps;
    kind.first += kMicro * static_cast<double>(one.kernel.duration) / steps;
    kind.least += kMicro * least[{one.group, places[one.group]++}] / steps;
  }
  std::vector<TracedCollective> all;
  for (const auto& [key, kind] : kinds) all.push_back(kind);
  std::ranges::sort(all, std::greater{}, &TracedCollective::least);
  return all;
}

std::string optimizer_of(const KinetoTrace& trace) {
  for (const TraceSpan& note : trace.notes) {
    const std::string& name = trace.name_of(note);
    if (!name.starts_with("Optimizer.step#")) continue;
    std::string kind = name.substr(15, name.find('.', 15) - 15);
    std::ranges::transform(kind, kind.begin(), [](unsigned char c) { return std::tolower(c); });
    if (kind == "adamw" || kind == "adam" || kind == "sgd") return kind;
  }
  return "sgd";
}

DeviceRates rates_of(const std::string& gpu) {
  const auto text =
      fmt::format("{{node: {{gpu: {}, gpus: 1, pcie: 24GBps}}, nodes: 1}}", yaml_quoted(gpu));
  const Cluster cluster = read_cluster(Document::parse(text, "--gpu")->root());
  const Gpu& found = cluster.groups.front().node.gpu;
  return {.fp32 = found.fp32,
          .tf32 = found.tf32,
          .fp16 = found.fp16,
          .bf16 = found.bf16,
          .memory_bandwidth = found.memory_bandwidth,
          .memory = found.memory};
}

/// The commonest forward pass; a step that was cut off has another.
std::size_t commonest_length(const std::vector<TracedStep>& steps) {
  std::map<std::size_t, std::size_t> counts;
  for (const TracedStep& step : steps) ++counts[step.forward.size()];
  return std::ranges::max_element(counts, {}, [](const auto& one) { return one.second; })->first;
}

/// The half of the steps around the median: a hiccup of the host is none of a step's costs.
void keep_middle(std::vector<TracedStep>& steps) {
  std::ranges::sort(steps, {}, [](const TracedStep& step) { return step.end - step.begin; });
  const auto cut = static_cast<std::ptrdiff_t>(steps.size() / 4);
  steps.erase(steps.end() - cut, steps.end());
  steps.erase(steps.begin(), steps.begin() + cut);
}

double spread_of(std::vector<double> values) {
  if (values.size() < 2) return 0;
  std::ranges::sort(values);
  const double middle = values[values.size() / 2];
  return middle > 0 ? (values[values.size() * 3 / 4] - values[values.size() / 4]) / middle : 0;
}

}  // namespace

TracedProfile profile_of(const std::vector<KinetoTrace>& ranks, const TracedSetting& setting) {
  const KinetoTrace& trace = ranks.front();
  TracedSteps traced = steps_of(trace);
  std::vector<TracedStep>& steps = traced.steps;
  TracedProfile made;
  if (!traced.told_by.empty()) made.notes.push_back(traced.told_by);
  const std::size_t places = commonest_length(steps);
  const std::size_t all = steps.size();
  std::erase_if(steps, [&](const TracedStep& step) { return step.forward.size() != places; });
  if (steps.size() < all)
    made.notes.push_back(fmt::format("{} of {} steps have other operators, and are left out",
                                     all - steps.size(), all));
  const Units units = units_of(steps.front());
  made.ranks = trace.ranks;
  made.steps = steps.size();
  keep_middle(steps);
  made.structure = units.words;
  made.optimizer = optimizer_of(trace);
  std::vector<StepSums> sums;
  const Collectives collectives(trace);
  for (const TracedStep& step : steps) {
    sums.push_back(sums_of(collectives, step, units));
    made.step += kMicro * (step.end - step.begin) / static_cast<double>(steps.size());
    made.busy += sums.back().busy / static_cast<double>(steps.size());
    made.exposed += sums.back().exposed / static_cast<double>(steps.size());
  }
  made.collectives = collectives_of(ranks, static_cast<double>(made.steps));

  ComputeProfile& profile = made.profile;
  profile.origin = {.device = setting.gpu.empty() ? "generic" : setting.gpu,
                    .cuda = trace.device.empty() ? "none" : "traced",
                    .libtorch = "traced",
                    .date = "traced",
                    .command = setting.command};
  profile.model = "traced";
  profile.precision = setting.precision;
  profile.sequence = setting.sequence;
  if (setting.sequence == 0) profile.input = "1:float";
  profile.rates = rates_of(profile.origin.device);
  profile.step_optimizer = made.optimizer;
  BatchPoint point;
  point.batch = setting.batch;
  point.repetitions = static_cast<std::int64_t>(steps.size());
  point.allocated_peak = Bytes(trace.allocated_peak);
  const auto mean = [&](auto&& of) {
    double sum = 0;
    for (const StepSums& one : sums) sum += of(one);
    return sum / static_cast<double>(sums.size());
  };
  const auto spread = [&](auto&& of) {
    std::vector<double> values;
    for (const StepSums& one : sums) values.push_back(of(one));
    return spread_of(values);
  };
  Seconds forward(0), backward(0);
  for (std::size_t i = 0; i < units.names.size(); ++i) {
    const auto ahead = [i](const StepSums& one) { return one.forward[i]; };
    const auto behind = [i](const StepSums& one) { return one.backward[i]; };
    UnitTimes times;
    times.name = units.names[i];
    times.forward = Seconds(mean(ahead));
    times.backward = Seconds(mean(behind));
    times.forward_spread = spread(ahead);
    times.backward_spread = spread(behind);
    forward = forward + times.forward;
    backward = backward + times.backward;
    point.units.push_back(times);
    profile.units.push_back({units.names[i], {}, 0});
  }
  for (const auto& [place, elements] : steps.front().parameters)
    profile.units[units.of_place[place]].tensors.push_back(elements);
  if (forward.value() == 0)
    throw InputError(
        fmt::format("{}: error: the trace has no forward pass, and a step begins with one\n"
                    "remedy: trace a whole step, with prof.step() at its end",
                    trace.file));
  const Seconds optimizer(mean([](const StepSums& one) { return one.optimizer; }));
  point.whole = {forward, backward, optimizer, forward + backward + optimizer};
  profile.optimizers.push_back({made.optimizer, optimizer,
                                spread([](const StepSums& one) { return one.optimizer; }),
                                point.repetitions});
  profile.points.push_back(point);
  if (backward.value() == 0)
    made.notes.emplace_back("the trace has no backward pass: forward passes alone are predicted");
  if (trace.parameters.empty())
    made.notes.emplace_back(
        "the trace has no shapes, so nothing is known of parameters: time alone is predicted, and "
        "no exchange of gradients; record_shapes=True has them");
  if (made.ranks > 1)
    made.notes.push_back(
        fmt::format("the run had {} ranks, and the scenario has one: --set cluster.nodes={} --set "
                    "cluster.node.nic=RATE plays them; the trace does not tell their links",
                    made.ranks, made.ranks));
  if (trace.allocated_peak == 0)
    made.notes.emplace_back(
        "the trace has no memory, so none is predicted: profile_memory=True has it");
  return made;
}

void join(ComputeProfile& profile, const ComputeProfile& other) {
  const auto same = [](const ProfiledUnit& a, const ProfiledUnit& b) {
    return a.name == b.name && a.tensors == b.tensors;
  };
  if (!std::ranges::equal(profile.units, other.units, same))
    throw InputError(
        "--onto: error: the two profiles have other units\n"
        "remedy: trace the same network at another batch, with record_shapes=True both times");
  for (const BatchPoint& point : other.points)
    if (std::ranges::find(profile.points, point.batch, &BatchPoint::batch) == profile.points.end())
      profile.points.push_back(point);
  std::ranges::sort(profile.points, {}, &BatchPoint::batch);
}

std::string gpu_of(const std::string& device) {
  const auto document = Document::load_foreign(data_folder() / "platforms/devices.yaml");
  Map names = document->root().as_map();
  const auto name = names.optional(device);
  return name ? name->as_string() : "";
}

std::string traced_scenario(const TracedProfile& traced, const TracedSetting& setting,
                            const std::string& profile_file) {
  Draft scenario;
  scenario.set("description", fmt::format("a step that PyTorch's profiler traced, {:.6g} ms",
                                          1e3 * (traced.step - traced.exposed)));
  scenario.set("model.profile", profile_file).set("model.batch_per_gpu", setting.batch);
  scenario.set("cluster.node.gpu", setting.gpu.empty() ? "generic" : setting.gpu)
      .set("cluster.node.gpus", 1)
      .set("cluster.node.pcie", "24GBps")
      .set("cluster.nodes", 1);
  scenario.set("strategy.ddp", Draft::map());
  scenario.at("optimizer").entry(traced.optimizer, Draft::map());
  if (traced.profile.origin.cuda == "none") scenario.set("memory.device", "cpu");
  return scenario.block();
}

}  // namespace rehearse::inline foreign
