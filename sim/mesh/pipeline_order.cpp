#include "mesh/pipeline_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "mesh/v_orders.hpp"

namespace rehearse::inline mesh {
namespace {

/// Counts micro-batches by chunk as it writes actions down.
class Writer {
 public:
  explicit Writer(int chunks) : counts_(4, std::vector<int>(static_cast<std::size_t>(chunks), 0)) {}
  void add(PipelineAction::What what, int chunk) {
    int& count = counts_[what][static_cast<std::size_t>(chunk)];
    order.push_back({what, static_cast<std::uint16_t>(chunk), static_cast<std::uint16_t>(count++)});
  }
  std::vector<PipelineAction> order;

 private:
  std::vector<std::vector<int>> counts_;
};

std::vector<PipelineAction> gpipe(int micro_batches) {
  Writer writer(1);
  for (int i = 0; i < micro_batches; ++i) writer.add(PipelineAction::forward, 0);
  for (int i = 0; i < micro_batches; ++i) writer.add(PipelineAction::backward, 0);
  return std::move(writer.order);
}

/// Micro-batches that go through one chunk before the next chunk's turn.
int round_of(int ranks, int micro_batches) {
  return micro_batches / std::max(1, micro_batches / ranks);
}

/// All of 1F1B's kind: forwards until the first backward can come, then one of each, then the
/// backwards that are left. Weights' gradients come `weights_behind` backwards later where
/// backward is split.
struct OneFOneB {
  int warmup = 0, round = 1, chunks = 1, micro_batches = 1;
  bool splits = false;
  int weights_behind = 0;

  std::vector<PipelineAction> order() const {
    Writer writer(chunks);
    const int all = micro_batches * chunks;
    std::vector<int> owed;  // chunks of weights' gradients to come
    std::size_t paid = 0;
    for (int step = 0; step < warmup + all; ++step) {
      if (step < all) writer.add(PipelineAction::forward, step / round % chunks);
      if (step < warmup) continue;
      const int back = chunks - 1 - (step - warmup) / round % chunks;
      writer.add(splits ? PipelineAction::input : PipelineAction::backward, back);
      owed.push_back(back);
      if (splits && step - warmup >= weights_behind)
        writer.add(PipelineAction::weight, owed[paid++]);
    }
    while (splits && paid < owed.size()) writer.add(PipelineAction::weight, owed[paid++]);
    return std::move(writer.order);
  }
};

}  // namespace

const std::vector<std::string>& pipeline_schedule_names() {
  static const std::vector<std::string> names = {"gpipe",       "1f1b", "interleaved_1f1b",
                                                 "zero_bubble", "zbv",  "dual_pipe_v"};
  return names;
}

int usual_chunks(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::interleaved || schedule == PipelineSchedule::zbv ||
                 schedule == PipelineSchedule::dual_pipe_v
             ? 2
             : 1;
}

std::string illegal(PipelineSchedule schedule, int ranks, int micro_batches, int chunks) {
  using S = PipelineSchedule;
  const std::string& name = pipeline_schedule_names()[static_cast<std::size_t>(schedule)];
  if ((schedule == S::gpipe || schedule == S::one_f_one_b) && chunks != 1)
    return fmt::format("{} has one stage on each rank, not {}", name, chunks);
  if ((schedule == S::zbv || schedule == S::dual_pipe_v) && chunks != 2)
    return fmt::format("{} has two virtual stages on each rank, not {}", name, chunks);
  if (schedule == S::interleaved && chunks < 2)
    return fmt::format("{} needs two virtual stages or more on each rank", name);
  if (schedule == S::dual_pipe_v && micro_batches < 2 * ranks)
    return fmt::format("{} needs a micro-batch for each of its {} stages at the least, not {}",
                       name, 2 * ranks, micro_batches);
  const bool in_rounds = schedule == S::interleaved || schedule == S::zero_bubble;
  if (in_rounds && chunks > 1 && micro_batches % std::max(1, micro_batches / ranks) != 0)
    return fmt::format("{} micro-batches do not divide into {} rounds of {} ranks", micro_batches,
                       std::max(1, micro_batches / ranks), ranks);
  return "";
}

std::vector<PipelineAction> order_of(PipelineSchedule schedule, int rank, int ranks,
                                     int micro_batches, int chunks) {
  check(illegal(schedule, ranks, micro_batches, chunks).empty(), "an illegal pipeline schedule");
  const int all = micro_batches * chunks;
  const int after = ranks - 1 - rank;  // ranks
  OneFOneB walk{.warmup = std::min(all, after),
                .round = chunks == 1 ? micro_batches : round_of(ranks, micro_batches),
                .chunks = chunks,
                .micro_batches = micro_batches};
  switch (schedule) {
    case PipelineSchedule::gpipe:
      return gpipe(micro_batches);
    case PipelineSchedule::one_f_one_b:
      return walk.order();
    case PipelineSchedule::interleaved:
      walk.warmup = std::min(all, (chunks - 1) * walk.round + 2 * after);
      return walk.order();
    case PipelineSchedule::zero_bubble:
      walk.warmup = std::min(all, (chunks - 1) * walk.round + after);
      walk.splits = true;
      walk.weights_behind = rank;
      return walk.order();
    case PipelineSchedule::zbv:
      return zbv_order(rank, ranks, micro_batches);
    case PipelineSchedule::dual_pipe_v:
      return dual_pipe_v_order(rank, ranks, micro_batches);
  }
  throw InternalError("internal error: an unknown pipeline schedule");
}

int PipelineOrder::stage_count() const {
  int count = 0;
  for (const auto& own : stages) count += static_cast<int>(own.size());
  return count;
}

PipelineOrder::Place PipelineOrder::place_of(int stage) const {
  for (std::size_t rank = 0; rank < stages.size(); ++rank) {
    const auto found = std::ranges::find(stages[rank], stage);
    if (found != stages[rank].end())
      return {static_cast<int>(rank), static_cast<int>(found - stages[rank].begin())};
  }
  throw InternalError("internal error: a stage that is on no rank");
}

PipelineOrder pipeline_order(PipelineSchedule schedule, int ranks, int micro_batches, int chunks) {
  PipelineOrder all{.order = {}, .stages = {}, .micro_batches = micro_batches};
  const bool is_v = schedule == PipelineSchedule::zbv || schedule == PipelineSchedule::dual_pipe_v;
  for (int rank = 0; rank < ranks; ++rank) {
    all.order.push_back(order_of(schedule, rank, ranks, micro_batches, chunks));
    all.stages.emplace_back();
    for (int chunk = 0; chunk < chunks; ++chunk)
      all.stages.back().push_back(is_v && chunk == 1 ? 2 * ranks - 1 - rank : chunk * ranks + rank);
  }
  return all;
}

PipelineOrder repeated(PipelineOrder once, int rounds) {
  for (std::vector<PipelineAction>& own : once.order) {
    const std::vector<PipelineAction> round = own;
    for (int i = 1; i < rounds; ++i)
      for (PipelineAction action : round) {
        action.micro = static_cast<std::uint16_t>(action.micro + i * once.micro_batches);
        own.push_back(action);
      }
  }
  once.micro_batches *= rounds;
  return once;
}

int most_in_flight(const std::vector<PipelineAction>& order, int chunk) {
  int now = 0, most = 0;
  for (const PipelineAction& action : order) {
    if (action.chunk != chunk) continue;
    if (action.what == PipelineAction::forward) most = std::max(most, ++now);
    if (action.what == PipelineAction::backward || action.what == PipelineAction::weight) --now;
  }
  return most;
}

}  // namespace rehearse::inline mesh
