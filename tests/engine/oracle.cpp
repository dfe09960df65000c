// The engine against an independent list scheduler, on random schedules in which nothing is shared.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "engine/list_scheduler.hpp"
#include "engine/play.hpp"
#include "engine/random_schedules.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(oracle_test)
namespace {

constexpr std::uint64_t kSchedules = 400;
constexpr double kTolerance = 1e-9;

bool close(double a, double b) {
  return std::abs(a - b) <= kTolerance * std::max(std::abs(a), std::abs(b));
}

// The first operation that the two put at different times, or nothing.
std::string difference(const Trace& trace, const Timetable& expected) {
  for (const Span& span : trace.spans) {
    const When& when = expected[span.rank.index()][span.op.index()][span.iteration];
    if (close(span.ready.value(), when.ready) && close(span.start.value(), when.start) &&
        close(span.end.value(), when.end))
      continue;
    return fmt::format("rank {} op {} iteration {}: engine {} {} {}, list scheduler {} {} {}",
                       span.rank.index(), span.op.index(), span.iteration, span.ready.value(),
                       span.start.value(), span.end.value(), when.ready, when.start, when.end);
  }
  for (std::size_t r = 0; r < expected.size(); ++r)
    for (std::size_t k = 0; k < trace.iteration_end[r].size(); ++k) {
      double last = 0;
      for (const auto& op : expected[r]) last = std::max(last, op[k].end);
      if (!close(trace.iteration_end[r][k].value(), last))
        return fmt::format("rank {}: iteration {} ends at {}, not at {}", r, k,
                           trace.iteration_end[r][k].value(), last);
    }
  return {};
}

std::size_t instances(const Timetable& times) {
  std::size_t count = 0;
  for (const auto& rank : times)
    for (const auto& op : rank) count += op.size();
  return count;
}

BOOST_AUTO_TEST_CASE(random_schedules_run_as_the_list_scheduler_says) {
  std::size_t operations = 0, waited_for_a_server = 0, waited_for_peers = 0, transfers = 0;
  for (std::uint64_t seed = 1; seed <= kSchedules; ++seed) {
    const auto [schedule, cluster] = random_case(seed);
    BOOST_REQUIRE_NO_THROW(validate(schedule));
    const Timetable expected = list_schedule(schedule, cluster);
    const Trace trace = play(schedule, cluster);
    BOOST_REQUIRE_EQUAL(trace.spans.size(), instances(expected));
    const std::string wrong = difference(trace, expected);
    BOOST_REQUIRE_MESSAGE(wrong.empty(), "schedule " << seed << ": " << wrong);
    operations += trace.spans.size();
    for (const Span& span : trace.spans) {
      const Op& op = schedule.program_of(span.rank).ops[span.op.index()];
      const bool waited = span.start > span.ready;
      if (op.queue)
        waited_for_a_server += waited;
      else
        waited_for_peers += waited;
      transfers += std::holds_alternative<Transfer>(op.work);
    }
  }
  // The schedules are not trivial.
  BOOST_TEST_MESSAGE(operations << " operations, " << waited_for_a_server
                                << " waited for a server, " << waited_for_peers << " for peers, "
                                << transfers << " transfers");
  BOOST_CHECK_GT(operations, 30000);
  BOOST_CHECK_GT(waited_for_a_server, 1000);
  BOOST_CHECK_GT(waited_for_peers, 1000);
  BOOST_CHECK_GT(transfers, 500);
}

BOOST_AUTO_TEST_CASE(
    random_schedules_take_the_same_time_at_hop_fidelity_where_all_edges_are_alike) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    auto [schedule, cluster] = random_case(seed);
    const bool broadcasts =
        std::any_of(schedule.programs.begin(), schedule.programs.end(), [](const Program& program) {
          return std::any_of(program.ops.begin(), program.ops.end(), [](const Op& op) {
            const auto* collective = std::get_if<Collective>(&op.work);
            return collective && collective->kind == CollectiveKind::broadcast;
          });
        });
    if (broadcasts || cluster.groups[0].node.gpus > 1) continue;
    const std::string wrong =
        difference(play(schedule, cluster, Fidelity::hop), list_schedule(schedule, cluster));
    BOOST_CHECK_MESSAGE(wrong.empty(), "schedule " << seed << ": " << wrong);
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
