// The report on training steps, from made-up times.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "train/step_report.hpp"

BOOST_AUTO_TEST_SUITE(ps_step_report_test)

using namespace rehearse;

namespace {

RankSteps rank_of(int rank, const std::vector<double>& seconds) {
  RankSteps result;
  result.rank = rank;
  for (const double time : seconds) result.steps.emplace_back(time);
  result.allocated_peaks = {Bytes(70), Bytes(90), Bytes(80)};
  result.memory = {.at_rest = Bytes(50),
                   .allocated_peak = Bytes(80),
                   .reserved_peak = std::nullopt,
                   .parts = {{"forward", "fc1", Bytes(60), Bytes(55)},
                             {"backward", "fc1", Bytes(80), Bytes(50)},
                             {"push", "", Bytes(80), Bytes(50)}}};
  return result;
}

nlohmann::json report_of(const std::string& strategy, const std::vector<RankSteps>& ranks,
                         const std::vector<ServerResult>& servers = {}) {
  StepRequest request;
  request.strategy = strategy;
  request.ranks = 2;
  return nlohmann::json::parse(step_report(request, ranks, servers));
}

const std::vector<RankSteps> kTwo = {rank_of(0, {1, 5, 3}), rank_of(1, {2, 4, 9})};

}  // namespace

BOOST_AUTO_TEST_CASE(a_step_of_ranks_that_wait_for_each_other_is_as_long_as_the_slowest_one_s) {
  // The slowest: 2, 5, 9; a tenth of the way to a neighbour is a twentieth of all.
  for (const char* strategy : {"ddp", "fsdp", "ps-sync"}) {
    const auto time = report_of(strategy, kTwo).at("step_time_s");
    BOOST_TEST(time.at("median") == 5);
    BOOST_TEST(time.at("p5") == 2.3);
    BOOST_TEST(time.at("p95") == 8.6);
    BOOST_TEST(time.at("samples") == 3);
  }
}

/// What one server applied: worker and staleness of each update, in order.
ServerResult applied(const std::vector<std::pair<std::uint32_t, std::uint64_t>>& updates) {
  ServerResult server;
  std::map<std::uint32_t, std::uint64_t> iterations;
  for (const auto& [worker, staleness] : updates) {
    const std::uint64_t version = server.log.size();
    server.log.push_back({worker, iterations[worker]++, version - staleness, version, Seconds(0)});
  }
  return server;
}

BOOST_AUTO_TEST_CASE(steps_of_workers_on_their_own_count_while_all_train) {
  // Worker 1 ends first: worker 0's third step had the server to itself.
  const ServerResult server = applied({{1, 0}, {0, 1}, {1, 1}, {0, 1}, {1, 1}, {0, 1}});
  const auto report = report_of("ps-async", kTwo, {server});
  // 1, 5 and 2, 4, 9.
  BOOST_TEST(report.at("step_time_s").at("samples") == 5);
  BOOST_TEST(report.at("step_time_s").at("median") == 4);
  BOOST_TEST(report.at("per_rank").at(0).at("step_times_s") == nlohmann::json({1, 5}));
  // Rounds end for all at once: there, the same log cuts nothing off.
  BOOST_TEST(report_of("ps-sync", kTwo, {server}).at("step_time_s").at("samples") == 3);
}

BOOST_AUTO_TEST_CASE(a_worker_whose_updates_all_came_late_keeps_one_step) {
  const ServerResult server = applied({{1, 0}, {1, 0}, {1, 0}, {0, 3}, {0, 0}, {0, 0}});
  const auto report = report_of("ps-async", kTwo, {server});
  BOOST_TEST(report.at("per_rank").at(0).at("step_times_s").size() == 1u);
  BOOST_TEST(report.at("per_rank").at(1).at("step_times_s").size() == 3u);
}

BOOST_AUTO_TEST_CASE(a_report_says_how_stale_updates_were) {
  const ServerResult server =
      server_result_from_json(to_json(applied({{0, 0}, {1, 1}, {1, 2}, {0, 1}})));
  const auto report = report_of("ps-async", kTwo, {server});
  // Worker 1 ends with the third update: 0, 1 and 2.
  BOOST_TEST(report.at("staleness").at("mean") == 1);
  BOOST_TEST(report.at("staleness").at("max") == 2);
  BOOST_TEST(report.at("staleness").at("updates") == 3);
  BOOST_TEST(report.at("staleness").at("warmup_updates") == 0);
  BOOST_TEST(report.at("staleness").at("later_updates") == 1);
  BOOST_TEST(report.at("per_rank").at(0).at("staleness_by_iteration") == nlohmann::json({0, 1}));
  BOOST_TEST(!report_of("ddp", kTwo).contains("staleness"));
}

BOOST_AUTO_TEST_CASE(updates_of_the_warm_up_do_not_count) {
  StepRequest request;
  request.strategy = "ps-async";
  request.warmup = 1;
  request.dedicated_server = true;
  // The first two are the workers' first iterations; 3 and 1 are left.
  const ServerResult server = applied({{0, 0}, {1, 1}, {1, 1}, {0, 3}, {1, 1}});
  const std::vector<RankSteps> ranks = {rank_of(0, {1}), rank_of(1, {2, 4})};
  const auto report = nlohmann::json::parse(step_report(request, ranks, {server}));
  const nlohmann::json& staleness = report.at("staleness");
  BOOST_TEST(staleness.at("histogram") == nlohmann::json({{"1", 1}, {"3", 1}}));
  BOOST_TEST(staleness.at("mean") == 2);
  BOOST_TEST(staleness.at("warmup_updates") == 2);
  BOOST_TEST(staleness.at("later_updates") == 1);
  // All of them, so that another choice can be made later.
  BOOST_TEST(report.at("per_rank").at(1).at("staleness_by_iteration") == nlohmann::json({1, 1, 1}));
  BOOST_TEST(report.at("server_host") == "own_node");
}

BOOST_AUTO_TEST_CASE(a_report_is_short_enough_to_keep) {
  std::vector<RankSteps> ranks;
  for (int rank = 0; rank < 8; ++rank) {
    ranks.push_back(rank_of(rank, std::vector<double>(60, 1.0 / 7)));
  }
  StepRequest request;
  request.strategy = "ddp";
  const std::string text = step_report(request, ranks, {});
  BOOST_TEST(text.size() < 10'000u);
  // A line for each rank, and times to a tenth of a microsecond.
  BOOST_TEST(std::count(text.begin(), text.end(), '\n') < 40);
  BOOST_TEST(nlohmann::json::parse(text).at("per_rank").at(7).at("step_times_s").at(0) ==
             0.1428571);
}

BOOST_AUTO_TEST_CASE(what_a_rank_measured_survives_the_way_between_processes) {
  RankSteps rank = kTwo[1];
  rank.sent = Bytes(12);
  rank.last_loss = std::nan("");
  rank.detail.phases["pull"] = Seconds(0.5);
  rank.detail.collectives = {
      {CollectiveKind::all_reduce, "bucket 0", Bytes(64), Seconds(0.25), Seconds(0.75)}};
  rank.detail.gradient_ready = {Seconds(0.125), Seconds(1)};
  rank.memory.reserved_peak = Bytes(128);
  const RankSteps back = rank_steps_from_json(to_json(rank));
  BOOST_TEST(back.rank == 1);
  BOOST_TEST(back.steps.size() == 3u);
  BOOST_TEST(back.sent.value() == 12);
  BOOST_TEST(std::isnan(back.last_loss));
  BOOST_TEST(back.detail.phases.at("pull").value() == 0.5);
  BOOST_TEST(back.detail.collectives.at(0).what == "bucket 0");
  BOOST_TEST(back.detail.collectives.at(0).done.value() == 0.75);
  BOOST_TEST(back.detail.gradient_ready.at(1).value() == 1);
  BOOST_TEST(back.allocated_peaks.at(1).value() == 90);
  BOOST_TEST(back.memory.at_rest.value() == 50);
  BOOST_TEST(back.memory.reserved_peak.value().value() == 128);
  BOOST_TEST(back.memory.parts.at(1).unit == "fc1");
  BOOST_TEST(back.memory.parts.at(1).peak.value() == 80);
}

BOOST_AUTO_TEST_CASE(a_report_says_what_was_held_and_where) {
  const auto rank = report_of("ddp", kTwo).at("per_rank").at(0);
  BOOST_TEST(rank.at("allocated_peak_bytes") == 90);  // of any step
  const auto& memory = rank.at("memory");             // of the last one
  BOOST_TEST(memory.at("allocated_peak_bytes") == 80);
  BOOST_TEST(memory.at("allocated_peaks_bytes") == nlohmann::json({70, 90, 80}));
  BOOST_TEST(memory.at("at_rest_bytes") == 50);
  BOOST_TEST(memory.at("reserved_peak_bytes").is_null());
  // The first part that reaches the peak.
  BOOST_TEST(memory.at("peak_in").at("phase") == "backward");
  BOOST_TEST(memory.at("peak_in").at("unit") == "fc1");
  BOOST_TEST(memory.at("parts").size() == 3u);
  BOOST_TEST(!report_of("ddp", kTwo).at("per_rank").at(1).at("memory").contains("parts"));
}

BOOST_AUTO_TEST_CASE(details_are_medians_of_the_steps_with_the_last_one_s_buckets) {
  const auto step = [](double backward, const std::vector<double>& done) {
    StepRecord record;
    record.backward = Seconds(backward);
    for (const double time : done) {
      record.collectives.push_back(
          {CollectiveKind::all_reduce, "bucket", Bytes(8), {}, Seconds(time)});
    }
    return record;
  };
  // The first step has one bucket, as DDP's has: it does not count.
  const StepDetail detail =
      detail_of({step(100, {100}), step(3, {1, 5}), step(1, {3, 4}), step(2, {2, 9})});
  BOOST_TEST(detail.phases.at("backward").value() == 2);
  BOOST_REQUIRE(detail.collectives.size() == 2u);
  BOOST_TEST(detail.collectives[0].done.value() == 2);
  BOOST_TEST(detail.collectives[1].done.value() == 5);
}

BOOST_AUTO_TEST_SUITE_END()
