// Pipeline schedules: torch.distributed.pipelining's own orders, closed forms of bubbles and of
// micro-batches in flight, orders that cannot run.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <stdexcept>

#include "base/data_folder.hpp"
#include "mesh/pipeline_order.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(pipeline_orders_test)
namespace {

using S = PipelineSchedule;

/// A list scheduler, independent of the simulator: when all is over, where a forward, a backward of
/// activations and one of weights take so long on each chunk and nothing is sent.
struct Times {
  double forward = 1, input = 1, weight = 1;
};

double length(const PipelineOrder& pipeline, const Times& times) {
  const int stages = pipeline.stage_count();
  std::map<std::tuple<int, int, int>, double> end;  // stage, 0 forward 1 input, micro
  std::vector<std::size_t> next(pipeline.order.size(), 0);
  std::vector<double> free(pipeline.order.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      while (next[rank] < pipeline.order[rank].size()) {
        const PipelineAction& a = pipeline.order[rank][next[rank]];
        const int stage = pipeline.stages[rank][a.chunk];
        double ready = free[rank];
        if (a.what == PipelineAction::forward && stage > 0) {
          const auto before = end.find({stage - 1, 0, a.micro});
          if (before == end.end()) break;
          ready = std::max(ready, before->second);
        }
        if ((a.what == PipelineAction::backward || a.what == PipelineAction::input) &&
            stage + 1 < stages) {
          const auto before = end.find({stage + 1, 1, a.micro});
          if (before == end.end()) break;
          ready = std::max(ready, before->second);
        }
        const double took = a.what == PipelineAction::forward  ? times.forward
                            : a.what == PipelineAction::input  ? times.input
                            : a.what == PipelineAction::weight ? times.weight
                                                               : times.input + times.weight;
        free[rank] = ready + took;
        if (a.what != PipelineAction::weight)
          end[{stage, a.what != PipelineAction::forward, a.micro}] = free[rank];
        ++next[rank];
        moved = true;
      }
    }
  }
  return *std::ranges::max_element(free);
}

double bubble(S schedule, int ranks, int micro, int chunks, const Times& times) {
  const double ideal = micro * chunks * (times.forward + times.input + times.weight);
  return length(pipeline_order(schedule, ranks, micro, chunks), times) / ideal - 1;
}

BOOST_AUTO_TEST_CASE(orders_are_pytorchs) {
  std::ifstream file(data_folder() / "tests/mesh/torch_orders.txt");
  BOOST_REQUIRE(file.good());
  int compared = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream head(line);
    std::string name, csv;
    int ranks = 0, micro = 0, chunks = 0;
    head >> name >> ranks >> micro >> chunks;
    for (int rank = 0; rank < ranks; ++rank) {
      std::getline(file, line);
      csv += line + "\n";
    }
    const auto& names = pipeline_schedule_names();
    const auto schedule = static_cast<S>(std::ranges::find(names, name) - names.begin());
    const PipelineOrder theirs = read_pipeline_csv(csv);
    const PipelineOrder ours = pipeline_order(schedule, ranks, micro, chunks);
    for (std::size_t rank = 0; rank < ours.order.size(); ++rank) {
      std::vector<PipelineAction> order = ours.order[rank];
      std::vector<int> stages = ours.stages[rank];
      BOOST_TEST((theirs.order[rank] == order), name << " of " << ranks << " ranks and " << micro
                                                     << " micro-batches, rank " << rank);
      BOOST_TEST((theirs.stages[rank] == stages), name << ", rank " << rank);
      ++compared;
    }
    BOOST_TEST(stuck(ours) == "", name << ": " << stuck(ours));
  }
  BOOST_TEST(compared > 60);
}

BOOST_AUTO_TEST_CASE(bubbles_have_their_closed_forms) {
  const Times times{.forward = 1, .input = 1, .weight = 1};
  for (const int p : {1, 2, 4, 7}) {
    for (const int m : {p, 2 * p, 5 * p}) {
      const double expected = (p - 1.0) / m;
      BOOST_TEST(bubble(S::gpipe, p, m, 1, times) == expected, boost::test_tools::tolerance(1e-9));
      BOOST_TEST(bubble(S::one_f_one_b, p, m, 1, times) == expected,
                 boost::test_tools::tolerance(1e-9));
      for (const int v : {2, 3})
        BOOST_TEST(bubble(S::interleaved, p, m, v, times) == expected / v,
                   boost::test_tools::tolerance(1e-9));
    }
  }
}

BOOST_AUTO_TEST_CASE(zero_bubble_has_a_third_of_the_bubble) {
  // (p - 1)(F + B - W) of Qi et al., table 2; with equal parts a third of 1F1B's (p - 1)(F + B +
  // W).
  for (const int p : {2, 4, 8})
    for (const int m : {2 * p, 4 * p})
      BOOST_TEST(bubble(S::zero_bubble, p, m, 1, {}) == (p - 1.0) / (3 * m),
                 boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(zbv_waits_only_until_its_ranks_are_reached) {
  // With equal parts a rank waits for nothing but its first micro-batch: (p - 1) F.
  for (const int p : {2, 4, 8})
    BOOST_TEST(bubble(S::zbv, p, 4 * p, 2, {}) == (p - 1.0) / (6 * 4 * p),
               boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(micro_batches_in_flight) {
  const int p = 4, m = 12;
  for (int rank = 0; rank < p; ++rank) {
    BOOST_TEST(most_in_flight(order_of(S::gpipe, rank, p, m, 1), 0) == m);
    BOOST_TEST(most_in_flight(order_of(S::one_f_one_b, rank, p, m, 1), 0) == p - rank);
    BOOST_TEST(most_in_flight(order_of(S::zero_bubble, rank, p, m, 1), 0) == p);
    const auto interleaved = order_of(S::interleaved, rank, p, m, 2);
    BOOST_TEST(most_in_flight(interleaved, 0) + most_in_flight(interleaved, 1) >= p);
  }
}

BOOST_AUTO_TEST_CASE(every_order_runs) {
  for (const S schedule :
       {S::gpipe, S::one_f_one_b, S::interleaved, S::zero_bubble, S::zbv, S::dual_pipe_v}) {
    for (const int p : {1, 2, 3, 6}) {
      for (int m = 1; m < 20; ++m) {
        const int v = usual_chunks(schedule);
        if (!illegal(schedule, p, m, v).empty()) continue;
        const PipelineOrder order = pipeline_order(schedule, p, m, v);
        BOOST_TEST(stuck(order) == "");
        BOOST_TEST(stuck(repeated(order, 3)) == "");
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(what_communicates_is_read_over) {
  const auto read = read_pipeline_csv(
      "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,,0RECV_B0,0B0,0B1,0REDUCE_GRAD\n"
      "1RECV_F0,1F0,1B0,1SEND_B0,1F1,(1I1)OVERLAP_F_B,1W1\n");
  BOOST_TEST(stuck(read) == "");
  BOOST_TEST(read.order[0].size() == 4u);
  BOOST_TEST(read.order[1].size() == 5u);
}

/// As _PipelineScheduleRuntime lists actions and receives, "1F0 1RECV_F1 1F1", of a rank neither
/// first nor last.
std::string listed(const PipelineOrder& pipeline, std::size_t rank) {
  const auto& order = pipeline.order[rank];
  const auto name = [&](std::size_t action, const std::string& before) {
    const PipelineAction& one = order[action];
    return std::to_string(pipeline.stages[rank][one.chunk]) + before +
           (one.what == PipelineAction::forward ? "F" : "B") + std::to_string(one.micro) + " ";
  };
  const auto asked = asked_behind(pipeline)[rank];
  std::string text;
  std::size_t next = 0;
  for (std::size_t action = 0; action < order.size(); ++action) {
    for (; next < asked.size() && asked[next].behind <= action; ++next)
      text += name(asked[next].action, "RECV_");
    text += name(action, "");
  }
  return text;
}

BOOST_AUTO_TEST_CASE(receives_are_asked_for_where_torch_lists_them) {
  const PipelineOrder pipeline = pipeline_order(S::interleaved, 4, 4, 2);
  BOOST_TEST(listed(pipeline, 1)
                 .starts_with("1RECV_F0 1F0 1RECV_F1 1F1 1RECV_F2 1F2 1RECV_F3 1F3 "
                              "5RECV_F0 5F0 5RECV_F1 5F1 "));
  BOOST_TEST(listed(pipeline, 2)
                 .find("6F0 6RECV_F1 6F1 6RECV_B0 6RECV_F2 6F2 6RECV_F3 6B0 6RECV_B1 "
                       "6F3 6B1 6RECV_B2 6B2 6RECV_B3 6B3 2RECV_B0 2B0 ") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(orders_that_cannot_run_are_named) {
  BOOST_TEST(stuck(read_pipeline_csv("0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1\n")) ==
             "ranks wait for one another: rank 0 at 0B0, rank 1 at 1F1");
  BOOST_TEST(stuck(read_pipeline_csv("0F0,0F1,0B0\n1F0,1B0,1F1,1B1\n")) ==
             "rank 0: the backward of 0F1 is not there once");
  BOOST_TEST(stuck(read_pipeline_csv("0F0,0F0,0B0\n")) == "rank 0: 0F0 comes twice");
  BOOST_TEST(stuck(read_pipeline_csv("0F0,0B0\n1F0,1B0,1B1\n")) == "rank 0: 0F1 is missing");
}

BOOST_AUTO_TEST_CASE(texts_that_are_no_orders_are_refused) {
  const auto message = [](const std::string& text) {
    try {
      read_pipeline_csv(text);
    } catch (const std::invalid_argument& wrong) {
      return std::string(wrong.what());
    }
    return std::string();
  };
  BOOST_TEST(message("0F0,0X1\n") == "line 1: \"0X1\" is no action; such as 2F0, 2B0, 2I0 or 2W0");
  BOOST_TEST(message("0F0\n0B0\n") == "stage 0 is on two ranks");
  BOOST_TEST(message("0F0,0B0\n2F0,2B0\n") == "stages are not numbered 0, 1, 2, ... without a gap");
  BOOST_TEST(message("\n") == "no line with actions");
}

BOOST_AUTO_TEST_CASE(schedules_say_what_they_need) {
  BOOST_TEST(illegal(S::one_f_one_b, 4, 8, 2) == "1f1b has one stage on each rank, not 2");
  BOOST_TEST(illegal(S::interleaved, 4, 9, 2) ==
             "9 micro-batches do not divide into 2 rounds of 4 ranks");
  BOOST_TEST(illegal(S::dual_pipe_v, 4, 7, 2) ==
             "dual_pipe_v needs a micro-batch for each of its 8 stages at the least, not 7");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
