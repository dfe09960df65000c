#include "foreign/traces/kineto_work.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <tuple>

#include "base/error.hpp"
#include "foreign/traces/kineto_operators.hpp"

namespace rehearse::inline foreign {
namespace {

bool begins_earlier(const TraceSpan& a, const TraceSpan& b) { return a.begin < b.begin; }

/// The host's operator when it launched.
struct Cause {
  TracedPhase phase = TracedPhase::forward;
  double time = 0;
  const Outermost* within = nullptr;
};

class Steps {
 public:
  explicit Steps(const KinetoTrace& trace) : trace_(trace), operators_(outermost_of(trace)) {
    for (const TraceSpan& note : trace.notes) {
      const std::string& name = trace.name_of(note);
      if (name.starts_with("ProfilerStep#")) windows_.push_back(note);
      if (name.starts_with("Optimizer.step") || name.starts_with("Optimizer.zero_grad"))
        optimizer_.push_back(note);
      if (name.find("post_backward") != std::string::npos) ends_of_backward_.push_back(note);
    }
    for (auto* notes : {&windows_, &optimizer_, &ends_of_backward_})
      std::ranges::sort(*notes, begins_earlier);
    if (windows_.empty()) {
      TracedWindows found = windows_of(trace, operators_, optimizer_);
      windows_ = std::move(found.windows);
      told_by_ = std::move(found.told_by);
      last_window_ends_ = found.last_ends;
    }
    for (const std::string& name : trace.names) {
      is_backward_.push_back(name.starts_with("autograd::engine::evaluate_function"));
      is_ddp_.push_back(name.starts_with("torch.distributed.ddp.reducer::"));
      is_call_of_gloo_.push_back(!trace.gloo_threads.empty() && name.starts_with("c10d::"));
      is_exchange_.push_back(name.starts_with("c10d::") || is_ddp_.back());
    }
  }

  const std::string& told_by() const { return told_by_; }

  std::vector<TracedStep> made() {
    steps_.resize(windows_.size());
    phases_.resize(operators_.all.size(), TracedPhase::forward);
    last_.resize(windows_.size());
    place_operators();
    if (trace_.kernels.empty())
      add_operators();
    else
      add_kernels();
    std::erase_if(steps_, [](const TracedStep& step) { return step.work.empty(); });
    for (TracedStep& step : steps_) {
      step.begin = step.work.front().begin;
      for (const TracedWork& work : step.work) step.end = std::max(step.end, work.end());
    }
    // A step lasts until the next one begins; the last as long as the host was at it, at the least.
    for (std::size_t i = 0; i + 1 < steps_.size(); ++i) steps_[i].end = steps_[i + 1].begin;
    if (!steps_.empty())
      steps_.back().end = std::max(
          steps_.back().end, steps_.back().begin + static_cast<double>(windows_.back().duration));
    return std::move(steps_);
  }

 private:
  /// The step in whose window a moment of the host lies; none: before the first.
  std::optional<std::size_t> step_at(double time) const {
    if (last_window_ends_ && time >= *last_window_ends_) return std::nullopt;
    const auto after = std::ranges::upper_bound(windows_, time, {}, &TraceSpan::begin);
    if (after == windows_.begin()) return std::nullopt;
    return static_cast<std::size_t>(after - windows_.begin()) - 1;
  }

  /// The note, of a list in the order of time, in which a moment lies; or none.
  static const TraceSpan* note_at(const std::vector<TraceSpan>& notes, double time) {
    const auto after = std::ranges::upper_bound(notes, time, {}, &TraceSpan::begin);
    return after != notes.begin() && time <= std::prev(after)->end() ? &*std::prev(after) : nullptr;
  }

  bool in_optimizer(double time) const { return note_at(optimizer_, time) != nullptr; }

  bool is_backward(const Outermost& one) const { return is_backward_[one.name]; }

  /// DDP and FSDP end a backward pass behind autograd's last operator.
  bool ends_backward(const Outermost& one) const {
    return is_ddp_[one.name] || note_at(ends_of_backward_, one.begin) != nullptr;
  }

  /// The operator that a thread was at.
  const Outermost* around(std::uint32_t thread, double time) const {
    const auto part = operators_.threads.find(thread);
    if (part == operators_.threads.end()) return nullptr;
    const auto [first, last] = part->second;
    const std::span all(operators_.all.begin() + first, operators_.all.begin() + last);
    const auto after = std::ranges::upper_bound(all, time, {}, &Outermost::begin);
    if (after == all.begin()) return nullptr;
    const Outermost& before = *std::prev(after);
    return time <= before.end() ? &before : nullptr;
  }

  Cause cause_at(std::uint32_t thread, double time) const {
    Cause cause{.time = time, .within = around(thread, time)};
    if (cause.within != nullptr)
      cause.phase = phases_[static_cast<std::size_t>(cause.within - operators_.all.data())];
    if (in_optimizer(time)) cause.phase = TracedPhase::optimizer;
    return cause;
  }

  /// Gives each outermost operator its place in its step's forward pass.
  void place_operators() {
    in_time_ =
        ordered(operators_.all.size(), [&](std::uint32_t i) { return operators_.all[i].begin; });
    std::size_t from = 0;
    for (std::size_t step = 0; step < windows_.size(); ++step) {
      const double begin = windows_[step].begin;
      while (from < in_time_.size() && operators_.all[in_time_[from]].begin < begin) ++from;
      std::size_t until = from;
      while (until < in_time_.size() &&
             (step + 1 == windows_.size()
                  ? operators_.all[in_time_[until]].begin <
                        last_window_ends_.value_or(std::numeric_limits<double>::infinity())
                  : operators_.all[in_time_[until]].begin < windows_[step + 1].begin))
        ++until;
      place_operators(steps_[step], std::span(in_time_).subspan(from, until - from));
      from = until;
    }
  }

  /// Gives each operator of a step its phase. `forward` and `backward` get those of these phases in
  /// the order of time; autograd's alone are in `backward`. What follows the last of the backward
  /// pass is the optimizer's, such as a norm of gradients.
  void find_phases(std::span<const std::uint32_t> numbers, std::vector<std::uint32_t>& forward,
                   std::vector<std::uint32_t>& backward) {
    std::vector<std::uint32_t> after;  // a backward pass' operator, not known yet
    const auto settle = [&](TracedPhase phase) {
      for (const std::uint32_t i : after) phases_[i] = phase;
      if (phase == TracedPhase::forward) forward.insert(forward.end(), after.begin(), after.end());
      after.clear();
    };
    for (const std::uint32_t i : numbers) {
      const Outermost& one = operators_.all[i];
      if (is_backward(one)) {
        // Autograd counts operators whose gradient it may need: a further micro-batch's.
        const bool is_further = std::ranges::any_of(
            after, [&](std::uint32_t between) { return operators_.all[between].tie >= 0; });
        settle(is_further ? TracedPhase::forward : TracedPhase::backward);
        phases_[i] = TracedPhase::backward;
        backward.push_back(i);
      } else if (const TraceSpan* note = note_at(optimizer_, one.begin)) {
        if (trace_.name_of(*note).starts_with("Optimizer.step")) settle(TracedPhase::optimizer);
      } else if (is_call_of_gloo_[one.name]) {
        continue;
      } else if (backward.empty()) {
        // What keeps replicas the same is no part of the network.
        if (!is_exchange_[one.name]) forward.push_back(i);
      } else {
        after.push_back(i);
        if (ends_backward(one)) settle(TracedPhase::backward);
      }
    }
    settle(TracedPhase::optimizer);
  }

  void place_operators(TracedStep& step, std::span<const std::uint32_t> numbers) {
    std::vector<std::pair<std::int64_t, std::uint32_t>> places;
    std::vector<std::uint32_t> forward, backward;
    find_phases(numbers, forward, backward);
    for (const std::uint32_t i : forward) {
      Outermost& one = operators_.all[i];
      one.place = static_cast<std::uint32_t>(step.forward.size());
      if (one.tie >= 0) places.emplace_back(one.tie, one.place);
      step.forward.push_back(one.name);
    }
    std::ranges::sort(places);
    std::ranges::sort(backward);  // thread by thread
    std::uint32_t last =
        step.forward.empty() ? 0 : static_cast<std::uint32_t>(step.forward.size()) - 1;
    for (const std::uint32_t i : backward) {
      Outermost& one = operators_.all[i];
      const auto elements = operators_.parameters.find(i);
      // An operator that adds up a gradient has no forward operator: it follows its unit's.
      if (elements != operators_.parameters.end()) {
        if (!step.forward.empty()) step.parameters.emplace_back(last, elements->second);
      } else if (const auto after = std::ranges::upper_bound(
                     places, one.tie, {}, &std::pair<std::int64_t, std::uint32_t>::first);
                 one.tie >= 0 && after != places.begin()) {
        last = one.place = std::prev(after)->second;
      }
    }
  }

  void add(const Cause& cause, double begin, float duration) {
    const auto index = step_at(cause.time);
    if (!index) return;
    std::uint32_t& last = last_[*index];
    if (cause.phase != TracedPhase::optimizer && cause.within != nullptr &&
        cause.within->place != kNoPlace)
      last = cause.within->place;
    steps_[*index].work.push_back({begin, duration, cause.phase, last});
  }

  void add_kernels() {
    // Of two calls with one correlation, the runtime's and the driver's, the later one counts.
    const auto launches =
        ordered(trace_.launches.size(), [&](std::uint32_t i) { return trace_.launches[i].tie; });
    const auto order =
        ordered(trace_.kernels.size(), [&](std::uint32_t i) { return trace_.kernels[i].begin; });
    for (const std::uint32_t i : order) {
      const TraceSpan& kernel = trace_.kernels[i];
      const auto after = std::ranges::upper_bound(
          launches, kernel.tie, {}, [&](std::uint32_t one) { return trace_.launches[one].tie; });
      const TraceSpan* launch =
          after == launches.begin() ? nullptr : &trace_.launches[*std::prev(after)];
      const bool is_known = launch != nullptr && launch->tie == kernel.tie;
      add(is_known ? cause_at(launch->thread, launch->begin) : Cause{.time = kernel.begin},
          kernel.begin, kernel.duration);
    }
  }

  /// Without a GPU operators are the work.
  void add_operators() {
    for (const std::uint32_t i : in_time_) {
      const Outermost& one = operators_.all[i];
      if (!is_call_of_gloo_[one.name])
        add(cause_at(one.thread, one.begin), one.begin, one.duration);
    }
    for (const auto& innermost : operators_.innermost)
      if (const auto index = step_at(innermost.first))
        steps_[*index].innermost.push_back(innermost);
  }

  const KinetoTrace& trace_;
  Operators operators_;
  std::vector<TracedPhase> phases_;     ///< of operators; apart, for they are many
  std::vector<std::uint32_t> in_time_;  ///< numbers of operators
  std::vector<TraceSpan> windows_, optimizer_, ends_of_backward_;
  std::vector<bool> is_backward_, is_ddp_, is_call_of_gloo_, is_exchange_;  ///< by name
  std::vector<TracedStep> steps_;
  std::vector<std::uint32_t> last_;  ///< by step, the place of what was added last
  std::string told_by_;
  std::optional<double> last_window_ends_;  ///< what begins behind it is no step's
};

}  // namespace

TracedSteps steps_of(const KinetoTrace& trace) {
  Steps steps(trace);
  TracedSteps found{.steps = steps.made(), .told_by = steps.told_by()};
  if (found.steps.empty())
    throw InputError(
        fmt::format("{}: error: no operator of {} events is a step's\n"
                    "remedy: call prof.step() at the end of each step",
                    trace.file, trace.events));
  return found;
}

}  // namespace rehearse::inline foreign
