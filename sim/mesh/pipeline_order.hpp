#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rehearse::inline mesh {

/// Pipeline schedules by their names in papers and frameworks.
enum class PipelineSchedule {
  gpipe,        ///< all forwards, then all backwards (Huang et al., NeurIPS 2019)
  one_f_one_b,  ///< 1F1B (PipeDream-Flush; Narayanan et al., SC 2021)
  interleaved,  ///< 1F1B with several chunks of the model on each rank (the same paper)
  zero_bubble,  ///< ZB-H1: backward split in two (Qi et al., ICLR 2024)
  zbv,          ///< ZB-V: two chunks, the second back from the last rank (the same paper)
  dual_pipe_v   ///< DualPipe cut in half (DeepSeek-AI 2024, arXiv:2412.19437)
};
const std::vector<std::string>& pipeline_schedule_names();  ///< in the order of PipelineSchedule

/// A computation of one micro-batch on one chunk. `input` is the backward that makes gradients of
/// activations alone, `weight` the rest of it.
struct PipelineAction {
  enum What : std::uint8_t { forward, backward, input, weight };
  What what = forward;
  std::uint16_t chunk = 0, micro = 0;
  bool operator==(const PipelineAction&) const = default;
};

/// Passes that a rank of a pipeline computes in a step, in order. `chunks`: parts of the model on a
/// rank (virtual stages). Equal to what torch.distributed.pipelining computes; its waits come out
/// of the simulation. Nothing may be illegal().
std::vector<PipelineAction> order_of(PipelineSchedule schedule, int rank, int ranks,
                                     int micro_batches, int chunks);
/// Why a schedule cannot run so; empty: it can.
std::string illegal(PipelineSchedule schedule, int ranks, int micro_batches, int chunks);
/// Virtual stages where nobody says how many.
int usual_chunks(PipelineSchedule schedule);

/// Orders of all ranks, and which stage of the model each of their chunks is.
struct PipelineOrder {
  std::vector<std::vector<PipelineAction>> order;  ///< by rank
  std::vector<std::vector<int>> stages;            ///< by rank and chunk, ascending
  int micro_batches = 0;

  int stage_count() const;
  struct Place {
    int rank = 0, chunk = 0;
  };
  Place place_of(int stage) const;
};
PipelineOrder pipeline_order(PipelineSchedule schedule, int ranks, int micro_batches, int chunks);
/// So many rounds of an order, one after the other, each with micro-batches of its own.
PipelineOrder repeated(PipelineOrder once, int rounds);
/// PyTorch's CSV: a line for each rank, its cells "2F0", "3B1", "1I0", "1W0",
/// "(0F4;7B2)OVERLAP_F_B" or empty (a bubble); cells that communicate are read over, for what is
/// sent follows from what is computed. std::invalid_argument with a message for the user.
PipelineOrder read_pipeline_csv(const std::string& text);

/// Why the ranks cannot go through their orders: something is missing or twice, or all wait for one
/// another. Empty: they can.
std::string stuck(const PipelineOrder& pipeline);

/// A receive: of what a rank's action needs, asked for behind so many of its actions.
struct AskedInput {
  std::size_t action = 0, behind = 0;
  bool operator==(const AskedInput&) const = default;
};
/// By rank, receives in the order in which torch.distributed.pipelining's runtime asks for them
/// (_add_send_recv in schedules.py): ranks list their actions in turns, and a receive is listed as
/// soon as the action is that sends. InternalError where stuck() would say why.
std::vector<std::vector<AskedInput>> asked_behind(const PipelineOrder& pipeline);

/// The most micro-batches of a chunk that are between their forward and the end of their backward.
int most_in_flight(const std::vector<PipelineAction>& order, int chunk);

}  // namespace rehearse::inline mesh
