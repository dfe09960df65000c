// The backward pass of the critical path method (Kelley & Walker 1959) over what really ran.
#include "explain/slack.hpp"

#include <algorithm>
#include <queue>

namespace rehearse::inline explanation {
namespace {

class BackwardPass {
 public:
  explicit BackwardPass(const WaitGraph& graph) : graph_(graph) {
    for (std::size_t s = 0; s < count(); ++s) end_ = std::max(end_, graph.span(s).end);
    latest_.assign(count(), end_);
    for (std::size_t s = 0; s < count(); ++s)
      if (by_priority(s)) latest_[s] = graph.span(s).end;
    waiting_.assign(count(), true);
    for (std::size_t s = 0; s < count(); ++s) due_.push({graph.span(s).end, s});
  }

  std::vector<Seconds> slack() {
    while (!due_.empty()) {
      const std::size_t next = due_.top().second;
      due_.pop();
      waiting_[next] = false;
      pass(next);
    }
    std::vector<Seconds> slack;
    for (std::size_t s = 0; s < count(); ++s)
      slack.push_back(std::max(Seconds(0), latest_[s] - graph_.span(s).end));
    return slack;
  }

 private:
  std::size_t count() const { return graph_.trace().spans.size(); }
  /// Whom such a queue takes next follows from when each of them comes: none may be later.
  bool by_priority(std::size_t index) const {
    const auto& queue = graph_.op(index).queue;
    return queue && graph_.schedule().queues[queue->index()].by_priority;
  }

  void pass(std::size_t index) {
    const Span& span = graph_.span(index);
    const Seconds start = latest_[index] - (span.end - span.start);
    if (std::holds_alternative<Collective>(graph_.op(index).work)) {
      for (const std::size_t member : graph_.members(index)) {
        bound(member, latest_[index]);
        bound_before(member, start);
      }
    } else if (by_priority(index)) {
      bound_before(index, span.ready);
    } else if (graph_.op(index).queue) {
      if (const auto before = graph_.served_before(index)) bound(*before, start);
      const auto after = graph_.arrives_after(index);
      bound_before(index, after ? std::min(start, *after) : start);
    } else {
      bound_before(index, start - (span.start - span.ready));  // it may have slept
    }
  }

  void bound_before(std::size_t index, Seconds ready) {
    for (const std::size_t before : graph_.before(index)) bound(before, ready);
  }

  void bound(std::size_t index, Seconds latest) {
    if (latest >= latest_[index]) return;
    latest_[index] = latest;
    if (waiting_[index]) return;
    waiting_[index] = true;
    due_.push({graph_.span(index).end, index});
  }

  const WaitGraph& graph_;
  Seconds end_;
  std::vector<Seconds> latest_;  // end, by span
  std::vector<bool> waiting_;
  std::priority_queue<std::pair<Seconds, std::size_t>> due_;  // the last one first
};

}  // namespace

std::vector<Seconds> slack_of(const WaitGraph& graph) { return BackwardPass(graph).slack(); }

}  // namespace rehearse::inline explanation
