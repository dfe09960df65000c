#include "mesh/v_orders.hpp"

#include <algorithm>
#include <array>
#include <deque>

namespace rehearse::inline mesh {
namespace {

/// Writes down the actions of two chunks. A whole backward also counts as both of its parts; the
/// weights' part of a split one is owed, first come, first served.
class TwoChunks {
 public:
  void forward(int chunk) { add(PipelineAction::forward, chunk, forwards_[at(chunk)]++); }
  void backward(int chunk) { add(PipelineAction::backward, chunk, backwards_[at(chunk)]++); }
  void input(int chunk) {
    owed_.push_back({chunk, backwards_[at(chunk)]});
    add(PipelineAction::input, chunk, backwards_[at(chunk)]++);
  }
  /// The oldest of all that is owed, or of one chunk; nothing if nothing is.
  void weight() {
    if (!owed_.empty()) pay(owed_.begin());
  }
  void weight(int chunk) { pay(std::ranges::find(owed_, chunk, &Owed::chunk)); }
  void input_and_weight(int chunk) {
    input(chunk);
    weight(chunk);
  }
  int forwards(int chunk) const { return forwards_[at(chunk)]; }
  bool owes(int chunk) const {
    return std::ranges::find(owed_, chunk, &Owed::chunk) != owed_.end();
  }
  std::vector<PipelineAction> order;

 private:
  struct Owed {
    int chunk, micro;
  };
  static std::size_t at(int chunk) { return static_cast<std::size_t>(chunk); }
  void add(PipelineAction::What what, int chunk, int micro) {
    order.push_back({what, static_cast<std::uint16_t>(chunk), static_cast<std::uint16_t>(micro)});
  }
  void pay(std::deque<Owed>::iterator which) {
    add(PipelineAction::weight, which->chunk, which->micro);
    owed_.erase(which);
  }

  std::array<int, 2> forwards_{}, backwards_{};
  std::deque<Owed> owed_;
};

}  // namespace

// Qi et al., "Zero Bubble Pipeline Parallelism", section 6: made for enough micro-batches to fill
// the pipeline; of fewer, those that are there.
std::vector<PipelineAction> zbv_order(int rank, int ranks, int micro_batches) {
  const int micro = std::max(2 * ranks - 1, micro_batches);
  TwoChunks two;
  for (int i = 0; i < 2 * (ranks - rank) - 1; ++i) two.forward(0);
  for (int i = 0; i < rank; ++i) {
    two.forward(1);
    two.forward(0);
  }
  for (int i = rank; i < ranks; ++i) {
    two.forward(1);
    two.input_and_weight(1);
  }
  while (two.forwards(1) < two.forwards(0) || two.forwards(0) < micro) {
    if (two.forwards(0) < micro) two.forward(0);
    two.input_and_weight(0);
    two.forward(1);
    two.input_and_weight(1);
  }
  for (int i = 0; i < rank; ++i) {
    two.input(0);
    two.input(1);
  }
  for (int i = rank; i < ranks; ++i) {
    two.input(0);
    two.weight(0);
  }
  while (two.owes(1)) two.weight(1);
  while (two.owes(0)) two.weight(0);
  std::erase_if(two.order,
                [&](const PipelineAction& action) { return action.micro >= micro_batches; });
  return std::move(two.order);
}

// The steps of DeepSeek-AI's dualpipev.py. A forward and a backward that overlap there stand one
// after the other: a stream computes one kernel at a time.
std::vector<PipelineAction> dual_pipe_v_order(int rank, int ranks, int micro_batches) {
  const int after = ranks - rank - 1;  // ranks
  TwoChunks two;
  for (int i = 0; i < 2 * after; ++i) two.forward(0);
  for (int i = 0; i <= rank; ++i) {
    two.forward(0);
    two.forward(1);
  }
  for (int i = 0; i < after; ++i) {
    two.input(1);
    two.weight();
    two.forward(1);
  }
  for (int i = 0; i < micro_batches - 2 * ranks + rank + 1; ++i) {
    two.forward(0);
    two.backward(1);
    two.forward(1);
    two.backward(0);
  }
  for (int i = 0; i < after; ++i) {
    two.backward(1);
    two.forward(1);
    two.backward(0);
  }
  // The last ones are split: where half are through, at the chunk that makes neighbours alternate.
  bool split = false;
  const auto back = [&](int chunk) { split ? two.input(chunk) : two.backward(chunk); };
  for (int i = 0; i <= rank; ++i) {
    const bool middle = i == (rank + 1) / 2;
    split = split || (middle && rank % 2 == 1);
    back(1);
    split = split || (middle && rank % 2 == 0);
    back(0);
  }
  for (int i = 0; i < after; ++i) {
    two.weight();
    back(0);
  }
  for (int i = 0; i <= rank; ++i) two.weight();
  return std::move(two.order);
}

}  // namespace rehearse::inline mesh
