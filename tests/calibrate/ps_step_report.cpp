// The report on training steps, from made-up times.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "train/step_report.hpp"

using namespace rehearse;

namespace {

RankSteps rank_of(int rank, const std::vector<double>& seconds) {
  RankSteps result;
  result.rank = rank;
  for (const double time : seconds) result.steps.emplace_back(time);
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
  // The slowest: 2, 5, 9.
  for (const char* strategy : {"ddp", "fsdp", "ps-sync"}) {
    const auto time = report_of(strategy, kTwo).at("step_time_s");
    BOOST_TEST(time.at("median") == 5);
    BOOST_TEST(time.at("p5") == 2);
    BOOST_TEST(time.at("p95") == 9);
    BOOST_TEST(time.at("samples") == 3);
  }
}

BOOST_AUTO_TEST_CASE(steps_of_workers_on_their_own_all_count) {
  // 1, 2, 3, 4, 5, 9: the third or the fourth.
  const auto time = report_of("ps-async", kTwo).at("step_time_s");
  BOOST_TEST(time.at("samples") == 6);
  BOOST_TEST(time.at("median") == 4);
}

BOOST_AUTO_TEST_CASE(a_report_says_how_stale_updates_were) {
  ServerResult server;
  server.log = {{0, 0, 0, 0, Seconds(0.1)}, {1, 0, 0, 1, Seconds(0.2)}};
  server.log.push_back({1, 1, 0, 2, Seconds(0.3)});
  server.log.push_back({0, 1, 2, 3, Seconds(0.4)});
  const auto report = report_of("ps-async", kTwo, {server_result_from_json(to_json(server))});
  // Worker 1 ends with the third update: 0, 1 and 2.
  BOOST_TEST(report.at("staleness").at("mean") == 1);
  BOOST_TEST(report.at("staleness").at("max") == 2);
  BOOST_TEST(report.at("staleness").at("updates") == 3);
  BOOST_TEST(!report_of("ddp", kTwo).contains("staleness"));
}

BOOST_AUTO_TEST_CASE(what_a_rank_measured_survives_the_way_between_processes) {
  RankSteps rank = kTwo[1];
  rank.sent = Bytes(12);
  rank.last_loss = std::nan("");
  rank.detail.phases["pull"] = Seconds(0.5);
  rank.detail.collectives = {
      {CollectiveKind::all_reduce, "bucket 0", Bytes(64), Seconds(0.25), Seconds(0.75)}};
  rank.detail.gradient_ready = {Seconds(0.125), Seconds(1)};
  const RankSteps back = rank_steps_from_json(to_json(rank));
  BOOST_TEST(back.rank == 1);
  BOOST_TEST(back.steps.size() == 3u);
  BOOST_TEST(back.sent.value() == 12);
  BOOST_TEST(std::isnan(back.last_loss));
  BOOST_TEST(back.detail.phases.at("pull").value() == 0.5);
  BOOST_TEST(back.detail.collectives.at(0).what == "bucket 0");
  BOOST_TEST(back.detail.collectives.at(0).done.value() == 0.75);
  BOOST_TEST(back.detail.gradient_ready.at(1).value() == 1);
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
