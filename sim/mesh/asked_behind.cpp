// Where torch.distributed.pipelining's runtime lists receives among a rank's actions.
#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "mesh/pipeline_order.hpp"

namespace rehearse::inline mesh {
namespace {

/// Goes through all ranks' actions in turns.
class Listing {
 public:
  explicit Listing(const PipelineOrder& pipeline)
      : pipeline_(pipeline),
        next_(pipeline.order.size()),
        asked_(pipeline.order.size()),
        has_input_(pipeline.order.size()) {
    for (std::size_t rank = 0; rank < next_.size(); ++rank)
      has_input_[rank].resize(pipeline.order[rank].size());
  }

  std::vector<std::vector<AskedInput>> list() {
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (std::size_t rank = 0; rank < next_.size(); ++rank) goes_on |= list_next(rank);
    }
    for (std::size_t rank = 0; rank < next_.size(); ++rank)
      check(next_[rank] == pipeline_.order[rank].size(),
            "ranks of a pipeline wait for one another");
    return std::move(asked_);
  }

 private:
  bool list_next(std::size_t rank) {
    const auto& order = pipeline_.order[rank];
    if (next_[rank] == order.size()) return false;
    const std::size_t own = next_[rank];
    if (needs_input(rank, order[own]) && !has_input_[rank][own]) return false;
    ++next_[rank];
    if (needs_input(rank, order[own]) == is_local(rank, order[own]))
      asked_[rank].push_back({own, own});
    tell_next(rank, order[own]);
    return true;
  }

  int stage_of(std::size_t rank, const PipelineAction& action) const {
    return pipeline_.stages[rank][action.chunk];
  }
  /// The stage that sends what an action needs; below 0 or past the last: nobody.
  int from(std::size_t rank, const PipelineAction& action) const {
    const int stage = stage_of(rank, action);
    return action.what == PipelineAction::forward ? stage - 1 : stage + 1;
  }
  bool needs_input(std::size_t rank, const PipelineAction& action) const {
    const int source = from(rank, action);
    return action.what != PipelineAction::weight && source >= 0 && source < pipeline_.stage_count();
  }
  bool is_local(std::size_t rank, const PipelineAction& action) const {
    return needs_input(rank, action) &&
           std::cmp_equal(pipeline_.place_of(from(rank, action)).rank, rank);
  }

  /// Whoever waits for what an action made is listed with its receive, behind its own actions so
  /// far.
  void tell_next(std::size_t rank, const PipelineAction& action) {
    if (action.what == PipelineAction::weight) return;
    const bool forward = action.what == PipelineAction::forward;
    const int target = stage_of(rank, action) + (forward ? 1 : -1);
    if (target < 0 || target >= pipeline_.stage_count()) return;
    const auto [to, chunk] = pipeline_.place_of(target);
    const auto peer = static_cast<std::size_t>(to);
    const auto& order = pipeline_.order[peer];
    const auto found = std::ranges::find_if(order, [&, chunk = chunk](const PipelineAction& other) {
      return other.chunk == chunk && other.micro == action.micro &&
             (forward
                  ? other.what == PipelineAction::forward
                  : other.what == PipelineAction::backward || other.what == PipelineAction::input);
    });
    check(found != order.end(), "a pipeline's action whose result nobody takes");
    const auto at = static_cast<std::size_t>(found - order.begin());
    has_input_[peer][at] = true;
    if (peer != rank) asked_[peer].push_back({at, next_[peer]});
  }

  const PipelineOrder& pipeline_;
  std::vector<std::size_t> next_;
  std::vector<std::vector<AskedInput>> asked_;
  std::vector<std::vector<bool>> has_input_;
};

}  // namespace

std::vector<std::vector<AskedInput>> asked_behind(const PipelineOrder& pipeline) {
  return Listing(pipeline).list();
}

}  // namespace rehearse::inline mesh
