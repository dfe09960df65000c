// Between two training steps a fragment's outer step begins with the pseudo-gradient: what its
// replica had after the last outer step less what it has now. It goes on with the mean of these,
// and ends with what the outer optimizer makes of that (Douillard et al., "Streaming DiLoCo with
// overlapping communication", 2025; torchft's local_sgd.py).
#include "strategy/outer/period.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "strategy/outer/outer_step.hpp"

namespace rehearse::inline strategy {
namespace {

/// Operations of a period.
constexpr std::size_t kMostOperations = 8'000'000;
/// Copies whose memory is played: those between the third and the last do what the second does.
constexpr int kPlayed = 3;

class PeriodBuilder {
 public:
  PeriodBuilder(const Program& step, const LocalSgd& options, const OuterShare& share,
                const StepCosts& costs)
      : step_(step),
        options_(options),
        share_(share),
        costs_(costs),
        wire_(wire_element(options.compression, share.element)),
        begins_(static_cast<std::size_t>(options.period)),
        ends_(begins_.size()) {
    const std::size_t all = step.ops.size() * begins_.size();
    if (all > kMostOperations)
      throw InputError(fmt::format(
          "error: strategy.local_sgd.period: {} steps of {} operations are {}, of which {} can be "
          "simulated\nremedy: a period of at most {}",
          options.period, step.ops.size(), all, kMostOperations,
          std::max<std::size_t>(1, kMostOperations / step.ops.size())));
    find_ends();
  }

  Program make() {
    period_ = {.name = step_.name,
               .lanes = step_.lanes,
               .tensors = step_.tensors,
               .owners = step_.owners,
               .setup = step_.setup,
               .steps = static_cast<std::uint32_t>(options_.period),
               .stage = step_.stage};
    const bool alone = std::ranges::none_of(
        step_.lanes, [](const Lane& lane) { return lane.kind == LaneKind::communication; });
    outer_ = LaneId(period_.lanes.size());
    period_.lanes.push_back({alone ? "nccl" : "nccl (outer)", LaneKind::communication});
    hold();
    for (int step = 0; step < options_.period; ++step) {
      add_copy(step);
      add_outer(step);
    }
    link();
    return std::move(period_);
  }

 private:
  /// Of one fragment.
  struct Fragment {
    int sent = 0;  ///< behind this step of the period
    TensorId pseudo{}, momentum{}, buffer{}, flat{};
    OpId reduced{};
    std::optional<OpId> applied{};
    std::uint32_t distance = 0;  ///< periods between the two
  };

  bool is_averaged() const { return !options_.outer; }
  double elements() const { return share_.elements / options_.fragments; }
  std::string of_fragment(std::size_t which) const {
    return options_.fragments == 1 ? ""
                                   : fmt::format(", fragment {}/{}", which + 1, options_.fragments);
  }

  void find_ends();
  void hold();
  void add_copy(int step);
  void add_outer(int step);
  void send(std::size_t which, int step);
  void apply(std::size_t which, int step, std::uint32_t distance);
  void link();
  OpId add(Op op);
  TensorId tensor(MemoryKind kind, Bytes size, std::uint32_t owner);
  void note(OpId op, TensorId id, TensorEvent::Action action, bool once = false) {
    period_.ops[op.index()].memory.push_back({id, action, once});
  }
  std::vector<After> behind(int step) const;
  Seconds time_to_send() const;
  Seconds time_to_apply() const;

  const Program& step_;
  const LocalSgd& options_;
  const OuterShare& share_;
  const StepCosts& costs_;
  Bytes wire_;
  Program period_;
  LaneId outer_{};
  std::vector<std::size_t> begins_;          ///< by copy: its first operation
  std::vector<std::optional<OpId>> ends_;    ///< by copy: outer steps that the next waits for
  std::vector<std::size_t> firsts_, lasts_;  ///< of a step, on lanes other than the host's
  std::vector<Fragment> fragments_;
};

void PeriodBuilder::find_ends() {
  for (std::size_t lane = 0; lane < step_.lanes.size(); ++lane) {
    if (step_.lanes[lane].kind == LaneKind::host) continue;
    const auto on_lane = [&](const Op& op) { return op.lane && op.lane->index() == lane; };
    const auto first = std::ranges::find_if(step_.ops, on_lane);
    if (first == step_.ops.end()) continue;
    firsts_.push_back(static_cast<std::size_t>(first - step_.ops.begin()));
    for (std::size_t op = step_.ops.size(); op-- > 0;) {
      if (!on_lane(step_.ops[op])) continue;
      lasts_.push_back(op);
      break;
    }
  }
}

TensorId PeriodBuilder::tensor(MemoryKind kind, Bytes size, std::uint32_t owner) {
  period_.tensors.push_back({kind, size, owner, 0});
  return TensorId(period_.tensors.size() - 1);
}

/// What the last outer step made of the parameters is kept beside them.
void PeriodBuilder::hold() {
  const auto owner = static_cast<std::uint32_t>(period_.owners.size());
  period_.owners.emplace_back(is_averaged() ? "flat copy" : "outer step");
  const Bytes size = elements() * share_.element;
  for (int f = 0; f < options_.fragments; ++f) {
    Fragment& fragment = fragments_.emplace_back();
    fragment.sent = (f + 1) * options_.period / options_.fragments - 1;
    Bytes flat;
    for (const OuterShare::Held& held : share_.held) flat += held.size / options_.fragments;
    fragment.flat = tensor(MemoryKind::communication, flat, owner);
    fragment.pseudo = tensor(MemoryKind::communication, size, owner);
    if (is_averaged()) continue;
    const TensorId before = tensor(MemoryKind::optimizer_state, size, owner);
    period_.setup.push_back({before, TensorEvent::Action::take});
    if (options_.outer->momentum > 0)
      fragment.momentum = tensor(MemoryKind::optimizer_state, size, owner);
    if (options_.compression != OuterCompression::none)
      fragment.buffer = tensor(MemoryKind::communication, elements() * wire_, owner);
  }
}

void PeriodBuilder::add_copy(int step) {
  begins_[static_cast<std::size_t>(step)] = period_.ops.size();
  const bool is_played = step < kPlayed || step + 1 == options_.period;
  for (const Op& op : step_.ops) {
    Op& copy = period_.ops.emplace_back(op);
    if (auto* compute = std::get_if<Compute>(&copy.work))
      compute->step = static_cast<std::uint32_t>(step);
    copy.memory.clear();
    if (!is_played) continue;
    std::ranges::copy_if(op.memory, std::back_inserter(copy.memory),
                         [step](const TensorEvent& event) { return step == 0 || !event.once; });
  }
}

OpId PeriodBuilder::add(Op op) {
  period_.ops.push_back(std::move(op));
  return OpId(period_.ops.size() - 1);
}

std::vector<After> PeriodBuilder::behind(int step) const {
  std::vector<After> after;
  for (const std::size_t op : lasts_)
    after.push_back({OpId(begins_[static_cast<std::size_t>(step)] + op)});
  return after;
}

Seconds PeriodBuilder::time_to_send() const {
  return costs_.copy_time(elements() * moved_to_send(options_.compression, share_.element));
}

/// SGD's step on the parameters as they were, which are copied into those that are trained on.
Seconds PeriodBuilder::time_to_apply() const {
  const Optimizer sgd = as_optimizer(*options_.outer, share_.precision);
  Bytes moved = optimizer_bytes_per_parameter(sgd) + 2.0 * share_.element;
  if (options_.outer->nesterov && options_.outer->momentum > 0) moved += 3.0 * share_.element;
  if (options_.compression != OuterCompression::none) moved += share_.element + wire_;
  return costs_.copy_time(elements() * moved);
}

void PeriodBuilder::send(std::size_t which, int step) {
  Fragment& fragment = fragments_[which];
  std::vector<After> after = behind(step);
  std::optional<OpId> difference;
  if (!is_averaged()) {
    difference =
        add({.of = "pseudo-gradient" + of_fragment(which),
             .phase = Phase::optimizer,
             .lane = LaneId(0),
             .work = Compute{.duration = time_to_send(), .step = static_cast<std::uint32_t>(step)},
             .after = std::move(after)});
    after = {{*difference}};
  }
  const Bytes size = elements() * wire_;
  fragment.reduced =
      add({.verb = Verb::all_reduce,
           .of = (is_averaged() ? "parameters" : "pseudo-gradients") + of_fragment(which),
           .moves = size,
           .phase = Phase::communication,
           .lane = outer_,
           .work = Collective{.kind = CollectiveKind::all_reduce,
                              .group = share_.outer_group,
                              .size = size,
                              .algorithm = options_.algorithm},
           .after = std::move(after)});
  note(difference.value_or(fragment.reduced), fragment.pseudo, TensorEvent::Action::take);
  if (is_averaged() || options_.compression == OuterCompression::none) return;
  note(fragment.reduced, fragment.buffer, TensorEvent::Action::take);
  note(fragment.reduced, fragment.buffer, TensorEvent::Action::give);
}

void PeriodBuilder::apply(std::size_t which, int step, std::uint32_t distance) {
  Fragment& fragment = fragments_[which];
  fragment.distance = distance;
  if (!is_averaged())
    fragment.applied = add(
        {.of = "outer optimizer" + of_fragment(which),
         .phase = Phase::optimizer,
         .lane = LaneId(0),
         .work = Compute{.duration = time_to_apply(), .step = static_cast<std::uint32_t>(step)}});
  OpId last = fragment.applied.value_or(fragment.reduced);
  if (!is_averaged() && options_.outer->momentum > 0)
    note(last, fragment.momentum, TensorEvent::Action::take, true);
  note(last, fragment.pseudo, TensorEvent::Action::give);
  for (const OuterShare::Held& held : share_.held) {
    const Bytes size = held.size / options_.fragments;
    last = add({.verb = Verb::all_gather,
                .of = "outer parameters" + of_fragment(which),
                .moves = size,
                .phase = Phase::communication,
                .lane = outer_,
                .work = Collective{.kind = CollectiveKind::all_gather,
                                   .group = held.group,
                                   .size = size,
                                   .algorithm = options_.algorithm},
                .after = {{last}}});
    if (&held == &share_.held.front()) note(last, fragment.flat, TensorEvent::Action::take);
    if (&held == &share_.held.back()) note(last, fragment.flat, TensorEvent::Action::give);
  }
  ends_[static_cast<std::size_t>(step)] = last;
}

/// What comes back first frees memory for what leaves.
void PeriodBuilder::add_outer(int step) {
  for (std::size_t f = 0; f < fragments_.size() && options_.overlap_steps > 0; ++f) {
    const int applied = fragments_[f].sent + options_.overlap_steps;
    if (applied % options_.period == step)
      apply(f, step, static_cast<std::uint32_t>(applied / options_.period));
  }
  for (std::size_t f = 0; f < fragments_.size(); ++f) {
    if (fragments_[f].sent != step) continue;
    send(f, step);
    if (options_.overlap_steps == 0) apply(f, step, 0);
  }
}

/// Edges to other steps, of this period or of those before it.
void PeriodBuilder::link() {
  const int period = options_.period;
  const auto link_to = [&](int step, const After& after) {
    const int target = step - static_cast<int>(after.distance);
    const int ago = target >= 0 ? 0 : (-target + period - 1) / period;
    return After{OpId(begins_[static_cast<std::size_t>(target + ago * period)] + after.op.index()),
                 static_cast<std::uint32_t>(ago)};
  };
  for (int step = 0; step < period; ++step) {
    const std::size_t begin = begins_[static_cast<std::size_t>(step)];
    for (std::size_t i = 0; i < step_.ops.size(); ++i)
      for (After& after : period_.ops[begin + i].after) after = link_to(step, after);
    const int before = (step + period - 1) % period;
    if (const auto& end = ends_[static_cast<std::size_t>(before)])
      for (const std::size_t first : firsts_)
        period_.ops[begin + first].after.push_back({*end, step == 0 ? 1U : 0U});
  }
  for (const Fragment& fragment : fragments_)
    if (fragment.applied)
      period_.ops[fragment.applied->index()].after.push_back({fragment.reduced, fragment.distance});
}

}  // namespace

Program local_period(const Program& step, const LocalSgd& options, const OuterShare& share,
                     const StepCosts& costs) {
  return PeriodBuilder(step, options, share, costs).make();
}

}  // namespace rehearse::inline strategy
