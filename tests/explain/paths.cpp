// Critical paths of random schedules, against the list scheduler, which knows nothing of paths.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>

#include "engine/clusters.hpp"
#include "engine/list_scheduler.hpp"
#include "engine/play.hpp"
#include "engine/random_schedules.hpp"
#include "explain/critical_path.hpp"
#include "explain/path_shares.hpp"
#include "explain/slack.hpp"
#include "schedule/jitter.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(paths_test)
namespace {

double last_end(const Timetable& times) {
  double last = 0;
  for (const auto& rank : times)
    for (const auto& op : rank)
      for (const When& when : op) last = std::max(last, when.end);
  return last;
}

/// The path of the whole run.
std::vector<PathSegment> whole_path(const WaitGraph& graph) {
  std::size_t last = 0;
  for (std::size_t s = 0; s < graph.trace().spans.size(); ++s)
    if (graph.span(s).end > graph.span(last).end) last = s;
  return path_back(graph, last, graph.span(last).end, Seconds(0));
}

BOOST_AUTO_TEST_CASE(a_path_is_contiguous_and_as_long_as_the_longest_chain) {
  std::map<WaitedFor, int> reasons;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const auto [schedule, cluster] = random_case(seed);
    const Trace trace = play(schedule, cluster);
    const WaitGraph graph(schedule, trace);
    const std::vector<PathSegment> path = whole_path(graph);
    BOOST_TEST_CONTEXT("schedule " << seed) {
      BOOST_REQUIRE(!path.empty());
      BOOST_CHECK(path.front().start == Seconds(0));
      for (std::size_t i = 0; i < path.size(); ++i) {
        BOOST_CHECK(path[i].start < path[i].end);
        if (i > 0) BOOST_CHECK(path[i].start == path[i - 1].end);
        ++reasons[path[i].waited_for];
      }
      const double longest = last_end(list_schedule(schedule, cluster));
      BOOST_CHECK_CLOSE(path.back().end.value(), longest, 1e-7);
    }
  }
  for (const WaitedFor reason : {WaitedFor::start, WaitedFor::lane, WaitedFor::dependency,
                                 WaitedFor::peer, WaitedFor::queue, WaitedFor::event})
    BOOST_CHECK_MESSAGE(reasons[reason] > 5, to_string(reason) << ": " << reasons[reason]);
}

BOOST_AUTO_TEST_CASE(what_operations_draw_above_their_medians_is_jitter) {
  const Cluster cluster = star_cluster(1);
  Program program{.name = "worker", .lanes = {{"compute", LaneKind::compute}}};
  for (const double spread : {0.1, 0.3})
    program.ops.push_back({.verb = Verb::forward,
                           .of = "x",
                           .lane = LaneId(0),
                           .work = Compute{.duration = Seconds(0.01), .spread = spread}});
  Schedule schedule = on_all_ranks(cluster, program, 20);
  schedule.jitter = {.distribution = Jitter::Distribution::measured};
  const Trace trace = play(schedule, cluster);
  const WaitGraph graph(schedule, trace);
  double expected = 0, found = 0;
  for (const Span& span : trace.spans) {
    const double factor = operation_factor(schedule, span.rank, span.op, span.iteration);
    expected += 0.01 * std::max(0.0, factor - 1);
  }
  for (const PathPiece& piece : pieces_of(schedule, whole_path(graph)))
    if (piece.kind == PathKind::jitter) found += piece.duration.value();
  BOOST_TEST(expected > 0.01);
  BOOST_CHECK_CLOSE(found, expected, 1e-7);
}

/// How much longer a run takes for each second that an operation of a program takes longer.
double delay_of_run(Schedule schedule, const Cluster& cluster, std::size_t program, std::size_t op,
                    double run) {
  constexpr double kLonger = 1e-9;
  std::get<Compute>(schedule.programs[program].ops[op].work).duration += Seconds(kLonger);
  return (last_end(list_schedule(schedule, cluster)) - run) / kLonger;
}

BOOST_AUTO_TEST_CASE(a_run_is_delayed_exactly_by_what_is_on_its_path) {
  int on_path = 0, beside = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const auto [schedule, cluster] = random_case(seed);
    const Trace trace = play(schedule, cluster);
    const WaitGraph graph(schedule, trace);
    std::map<std::pair<std::size_t, std::size_t>, double> expected;
    for (const PathSegment& segment : whole_path(graph)) {
      const std::size_t program = schedule.ranks[segment.rank.index()].program.index();
      const auto* compute =
          std::get_if<Compute>(&schedule.programs[program].ops[segment.op.index()].work);
      if (!compute) continue;
      expected[{program, segment.op.index()}] +=
          compute->jittered ? compute_factor(schedule, segment.rank, segment.iteration) : 1;
    }
    const double run = last_end(list_schedule(schedule, cluster));
    for (std::size_t p = 0; p < schedule.programs.size(); ++p) {
      for (std::size_t o = 0; o < schedule.programs[p].ops.size(); ++o) {
        if (!std::holds_alternative<Compute>(schedule.programs[p].ops[o].work)) continue;
        const double blamed = expected[std::pair(p, o)];
        const double delay = delay_of_run(schedule, cluster, p, o, run);
        BOOST_CHECK_MESSAGE(std::abs(delay - blamed) < 1e-5,
                            "schedule " << seed << ": program " << p << " op " << o << " delays "
                                        << delay << ", on the path " << blamed);
        ++(blamed > 0 ? on_path : beside);
      }
    }
  }
  BOOST_CHECK_GT(on_path, 100);
  BOOST_CHECK_GT(beside, 100);
}

/// The schedule with a program of its own for every rank, so that one operation of one rank can
/// change.
Schedule with_own_programs(const Schedule& schedule) {
  Schedule own = schedule;
  own.programs.clear();
  for (RankSpec& rank : own.ranks) {
    own.programs.push_back(schedule.programs[rank.program.index()]);
    rank.program = ProgramId(own.programs.size() - 1);
  }
  return own;
}

BOOST_AUTO_TEST_CASE(what_takes_longer_by_less_than_its_slack_delays_nothing) {
  int with_slack = 0, without = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    auto [made, cluster] = random_case(seed);
    made.iterations = 1;  // so that a longer operation is one longer span
    Schedule schedule = with_own_programs(made);
    const Trace trace = play(schedule, cluster);
    const WaitGraph graph(schedule, trace);
    const std::vector<Seconds> slack = slack_of(graph);
    const double run = last_end(list_schedule(schedule, cluster));
    for (const PathSegment& segment : whole_path(graph))
      BOOST_CHECK_SMALL(slack[*graph.find(segment.rank, segment.op, segment.iteration)].value(),
                        1e-12);
    for (std::size_t s = 0; s < trace.spans.size(); s += 3) {
      const auto [rank, op] = std::pair(graph.span(s).rank.index(), graph.span(s).op.index());
      auto* compute = std::get_if<Compute>(&schedule.programs[rank].ops[op].work);
      if (!compute) continue;
      ++(slack[s] > Seconds(1e-9) ? with_slack : without);
      const Seconds before = compute->duration;
      const double factor = compute->jittered ? compute_factor(schedule, graph.span(s).rank, 0) : 1;
      compute->duration += slack[s] * 0.999 / factor;
      BOOST_CHECK_CLOSE(last_end(list_schedule(schedule, cluster)), run, 1e-7);
      compute->duration = before;
    }
  }
  BOOST_CHECK_GT(with_slack, 100);
  BOOST_CHECK_GT(without, 50);
}

BOOST_AUTO_TEST_CASE(a_path_from_the_middle_of_a_run_ends_where_it_is_told_to) {
  const auto [schedule, cluster] = random_case(7);
  const Trace trace = play(schedule, cluster);
  const WaitGraph graph(schedule, trace);
  const std::vector<PathSegment> whole = whole_path(graph);
  const Seconds end = whole.back().end;
  std::size_t last = 0;
  while (graph.span(last).end != end) ++last;
  const std::vector<PathSegment> half = path_back(graph, last, end, end * 0.5);
  BOOST_CHECK(half.front().start == end * 0.5);
  BOOST_CHECK(half.back().end == end);
  BOOST_CHECK_LT(half.size(), whole.size());
}

BOOST_AUTO_TEST_CASE(pieces_of_a_path_add_up_to_it) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const auto [schedule, cluster] = random_case(seed);
    const Trace trace = play(schedule, cluster);
    const WaitGraph graph(schedule, trace);
    const std::vector<PathSegment> path = whole_path(graph);
    const std::vector<PathPiece> pieces = pieces_of(schedule, path);
    Seconds sum;
    for (const PathPiece& piece : pieces) sum += piece.duration;
    BOOST_CHECK_CLOSE(sum.value(), path.back().end.value(), 1e-7);
    const Machine machine{.schedule = schedule, .cluster = cluster};
    LinkCosts links(machine);
    const PathShares shares = shares_of(schedule, pieces, 2, links);
    Seconds kinds, units, ranks;
    for (const Seconds time : shares.by_kind) kinds += time;
    for (const NamedTime& unit : shares.by_unit) units += unit.time;
    for (const auto& [rank, time] : shares.by_rank) ranks += time;
    for (const Seconds total : {kinds, units, ranks})
      BOOST_CHECK_CLOSE(total.value(), sum.value() / 2, 1e-7);
    Seconds travelling;
    for (const LinkTime& link : shares.by_link) {
      travelling += link.time();
      // Nothing is shared in these schedules.
      BOOST_CHECK_SMALL(link.contention.value(), 1e-9 * sum.value());
    }
    const auto of = [&](PathKind kind) { return shares.by_kind[static_cast<std::size_t>(kind)]; };
    BOOST_CHECK_SMALL((travelling - of(PathKind::collective) - of(PathKind::transfer)).value(),
                      1e-12);
  }
}

}  // namespace
BOOST_AUTO_TEST_CASE(a_unit_has_one_name_whatever_its_pass) {
  for (const Verb pass : {Verb::forward, Verb::backward, Verb::backward_input,
                          Verb::backward_weight, Verb::recompute})
    BOOST_TEST(unit_of({.verb = pass, .of = "layer3"}) == "layer3");
  BOOST_TEST(unit_of({.verb = Verb::optimizer}) == "optimizer");
  BOOST_TEST(unit_of({.verb = Verb::all_reduce, .pass = Verb::backward, .of = "layer3"}) ==
             "backward layer3");
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
