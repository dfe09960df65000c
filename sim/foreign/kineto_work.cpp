#include "foreign/kineto_work.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.hpp"

namespace rehearse::inline foreign {
namespace {

/// Longer lists of operators are cut: a period takes the square of their number to find.
constexpr std::size_t kMostOperators = 20'000;

bool begins_earlier(const TraceSpan& a, const TraceSpan& b) { return a.begin < b.begin; }

/// An operator that no other one encloses.
struct Outermost {
  TraceSpan span;
  std::size_t parameter = 0;  ///< elements, of AccumulateGrad within it
};

/// Each thread's events stand in the order of time.
using Threads = std::map<std::uint32_t, std::vector<Outermost>>;

Threads outermost_of(const KinetoTrace& trace) {
  std::vector<std::size_t> order(trace.operators.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  // Where two begin together, the longer one encloses the other.
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    const TraceSpan &one = trace.operators[a], &other = trace.operators[b];
    return std::pair(one.begin, -one.duration) < std::pair(other.begin, -other.duration);
  });
  Threads threads;
  for (const std::size_t i : order) {
    const TraceSpan& span = trace.operators[i];
    std::vector<Outermost>& thread = threads[span.thread];
    const auto elements = trace.parameters.find(i);
    if (thread.empty() || span.begin >= thread.back().span.end()) thread.push_back({span});
    if (elements != trace.parameters.end())
      thread.back().parameter = static_cast<std::size_t>(elements->second);
    // The first operator within that has a number lends it.
    if (thread.back().span.tie < 0) thread.back().span.tie = span.tie;
  }
  return threads;
}

const Outermost* around(const Threads& threads, std::uint32_t thread, double time) {
  const auto found = threads.find(thread);
  if (found == threads.end()) return nullptr;
  const auto after = std::ranges::upper_bound(found->second, time, {},
                                              [](const Outermost& one) { return one.span.begin; });
  if (after == found->second.begin()) return nullptr;
  const Outermost& before = *std::prev(after);
  return time <= before.span.end() ? &before : nullptr;
}

/// The host's operator when it launched.
struct Cause {
  TracedPhase phase = TracedPhase::forward;
  double time = 0;
  const Outermost* within = nullptr;
};

class Steps {
 public:
  explicit Steps(const KinetoTrace& trace) : trace_(trace), threads_(outermost_of(trace)) {
    for (const TraceSpan& note : trace.notes) {
      const std::string& name = trace.name_of(note);
      if (name.starts_with("ProfilerStep#")) windows_.push_back(note);
      if (name.starts_with("Optimizer.step") || name.starts_with("Optimizer.zero_grad"))
        optimizer_.push_back(note);
    }
    std::ranges::sort(windows_, begins_earlier);
    std::ranges::sort(optimizer_, begins_earlier);
    for (const TraceSpan& launch : trace.launches) launches_[launch.tie] = &launch;
    if (windows_.empty()) windows_.push_back(whole());
  }

  std::vector<TracedStep> made() {
    std::vector<TracedStep> steps(windows_.size());
    std::vector<std::vector<std::pair<std::int64_t, std::size_t>>> places(windows_.size());
    for (std::size_t i = 0; i < windows_.size(); ++i) note_forward(i, steps[i], places[i]);
    if (trace_.kernels.empty())
      add_operators(steps, places);
    else
      add_kernels(steps, places);
    std::erase_if(steps, [](const TracedStep& step) { return step.work.empty(); });
    for (std::size_t i = 0; i < steps.size(); ++i) {
      TracedStep& step = steps[i];
      std::ranges::sort(step.work, {}, &TracedWork::begin);
      step.begin = step.work.front().begin;
      step.end = std::ranges::max(step.work, {}, &TracedWork::end).end;
    }
    // A step lasts until the next one begins; the last as long as the host was at it, at the least.
    for (std::size_t i = 0; i + 1 < steps.size(); ++i) steps[i].end = steps[i + 1].begin;
    if (!steps.empty())
      steps.back().end = std::max(
          steps.back().end, steps.back().begin + static_cast<double>(windows_.back().duration));
    return steps;
  }

 private:
  TraceSpan whole() const {
    double begin = 0, end = 0;
    for (const TraceSpan& span : trace_.operators) {
      begin = begin == 0 ? span.begin : std::min(begin, span.begin);
      end = std::max(end, span.end());
    }
    return {begin, static_cast<float>(end - begin), 0, 0, -1};
  }

  /// The step in whose window a moment of the host lies; none: before the first.
  std::optional<std::size_t> step_at(double time) const {
    const auto after = std::ranges::upper_bound(windows_, time, {}, &TraceSpan::begin);
    if (after == windows_.begin()) return std::nullopt;
    return static_cast<std::size_t>(after - windows_.begin()) - 1;
  }

  bool in_optimizer(double time) const {
    const auto after = std::ranges::upper_bound(optimizer_, time, {}, &TraceSpan::begin);
    return after != optimizer_.begin() && time <= std::prev(after)->end();
  }

  bool is_backward(const Outermost* one) const {
    return one != nullptr &&
           trace_.name_of(one->span).starts_with("autograd::engine::evaluate_function");
  }

  Cause cause_at(std::uint32_t thread, double time) const {
    Cause cause{.time = time, .within = around(threads_, thread, time)};
    if (is_backward(cause.within)) cause.phase = TracedPhase::backward;
    if (in_optimizer(time)) cause.phase = TracedPhase::optimizer;
    return cause;
  }

  /// Outermost operators of the forward pass, and their sequence numbers with their places.
  void note_forward(std::size_t index, TracedStep& step,
                    std::vector<std::pair<std::int64_t, std::size_t>>& places) const {
    std::vector<const Outermost*> found;
    for (const auto& [thread, list] : threads_)
      for (const Outermost& one : list)
        if (step_at(one.span.begin) == index && !is_backward(&one) && !in_optimizer(one.span.begin))
          found.push_back(&one);
    std::ranges::sort(found, {}, [](const Outermost* one) { return one->span.begin; });
    for (const Outermost* one : found) {
      if (one->span.tie >= 0) places.emplace_back(one->span.tie, step.forward.size());
      step.forward.push_back(one->span.name);
    }
    std::ranges::sort(places);
    step.parameters.resize(step.forward.size());
    std::size_t last = step.forward.empty() ? 0 : step.forward.size() - 1;
    for (const auto& [thread, list] : threads_)
      for (const Outermost& one : list) {
        if (step_at(one.span.begin) != index || !is_backward(&one)) continue;
        // What adds a parameter's gradient up has no forward operator: it follows its unit's.
        if (one.parameter > 0) {
          if (!step.forward.empty())
            step.parameters[last].push_back(static_cast<std::int64_t>(one.parameter));
        } else {
          last = place_of(places, one.span.tie, last);
        }
      }
  }

  static std::size_t place_of(const std::vector<std::pair<std::int64_t, std::size_t>>& places,
                              std::int64_t sequence, std::size_t otherwise) {
    const auto after = std::ranges::upper_bound(places, sequence, {},
                                                &std::pair<std::int64_t, std::size_t>::first);
    return sequence < 0 || after == places.begin() ? otherwise : std::prev(after)->second;
  }

  template <class Places>
  void add(std::vector<TracedStep>& steps, const Places& places, const Cause& cause, double begin,
           double end) {
    const auto index = step_at(cause.time);
    if (!index) return;
    TracedStep& step = steps[*index];
    std::size_t& last = last_[*index];
    if (cause.phase == TracedPhase::backward && cause.within != nullptr)
      last = place_of(places[*index], cause.within->span.tie, last);
    if (cause.phase == TracedPhase::forward && cause.within != nullptr)
      last = forward_place(*index, *cause.within);
    step.work.push_back({begin, end, cause.phase, last});
  }

  std::size_t forward_place(std::size_t index, const Outermost& one) {
    auto& known = forward_places_[index];
    if (known.empty()) {
      std::vector<double> begins;
      for (const auto& [thread, list] : threads_)
        for (const Outermost& each : list)
          if (step_at(each.span.begin) == index && !is_backward(&each) &&
              !in_optimizer(each.span.begin))
            begins.push_back(each.span.begin);
      std::ranges::sort(begins);
      known = std::move(begins);
    }
    return static_cast<std::size_t>(std::ranges::lower_bound(known, one.span.begin) -
                                    known.begin());
  }

  template <class Places>
  void add_kernels(std::vector<TracedStep>& steps, const Places& places) {
    std::vector<std::pair<Cause, const TraceSpan*>> all;
    for (const TraceSpan& kernel : trace_.kernels) {
      const auto launch = launches_.find(kernel.tie);
      const Cause cause = launch == launches_.end()
                              ? Cause{.time = kernel.begin}
                              : cause_at(launch->second->thread, launch->second->begin);
      all.emplace_back(cause, &kernel);
    }
    std::ranges::stable_sort(all, {}, [](const auto& one) { return one.second->begin; });
    for (const auto& [cause, kernel] : all) add(steps, places, cause, kernel->begin, kernel->end());
  }

  /// Without a GPU operators are the work.
  template <class Places>
  void add_operators(std::vector<TracedStep>& steps, const Places& places) {
    std::vector<const Outermost*> all;
    for (const auto& [thread, list] : threads_)
      for (const Outermost& one : list) all.push_back(&one);
    std::ranges::sort(all, {}, [](const Outermost* one) { return one->span.begin; });
    for (const Outermost* one : all)
      add(steps, places, cause_at(one->span.thread, one->span.begin), one->span.begin,
          one->span.end());
  }

  const KinetoTrace& trace_;
  Threads threads_;
  std::vector<TraceSpan> windows_, optimizer_;
  std::unordered_map<std::int64_t, const TraceSpan*> launches_;
  std::map<std::size_t, std::size_t> last_;
  std::map<std::size_t, std::vector<double>> forward_places_;
};

}  // namespace

std::vector<TracedStep> steps_of(const KinetoTrace& trace) {
  std::vector<TracedStep> steps = Steps(trace).made();
  if (steps.empty())
    throw InputError(
        fmt::format("{}: error: no operator of {} events is a step's\n"
                    "remedy: call prof.step() at the end of each step",
                    trace.file, trace.events));
  return steps;
}

Repeats repeats_of(const std::vector<std::uint32_t>& list) {
  const std::size_t size = std::min(list.size(), kMostOperators);
  constexpr std::size_t kLeastPeriod = 3;
  Repeats best;
  std::size_t covered = size / 3;
  for (std::size_t period = kLeastPeriod; period <= size / 2; ++period) {
    std::size_t run = 0;
    for (std::size_t i = 0; i + period <= size; ++i) {
      const bool same = i + period < size && list[i] == list[i + period];
      if (same) {
        ++run;
        continue;
      }
      const std::size_t count = run / period + 1;
      if (count > 1 && count * period > covered) {
        covered = count * period;
        best = {i - run, period, count};
      }
      run = 0;
    }
  }
  return best;
}

}  // namespace rehearse::inline foreign
