// Collectives between real processes over Gloo, and the profile that is fitted to their times.
#include <fmt/format.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/error.hpp"
#include "comm/receive_window.hpp"
#include "comm/sweep.hpp"
#include "comm/sweep_collective.hpp"
#include "config/document.hpp"
#include "launch/run_ranks.hpp"
#include "launch/run_team.hpp"
#include "profile/comm_profile.hpp"

using namespace rehearse;

namespace {

constexpr double kKiB = 1024;

/// What one collective leaves on every rank whose input is 1 on rank 0, 2 on rank 1, ...
std::vector<std::vector<double>> results_of(CollectiveKind kind, int ranks, Bytes size) {
  const auto texts = collect_from_ranks(ranks, [&](const RankEnvironment& self) {
    torch::set_num_threads(1);
    const ProcessGroup group = make_process_group(self);
    RepeatedCollective collective(group, kind, size, torch::kCPU);
    collective.input().fill_(self.rank + 1);
    collective.run();
    barrier(group);
    const torch::Tensor result = collective.result().to(torch::kFloat64).contiguous();
    return nlohmann::json(std::vector<double>(result.data_ptr<double>(),
                                              result.data_ptr<double>() + result.numel()))
        .dump();
  });
  std::vector<std::vector<double>> results;
  for (const std::string& text : texts) results.push_back(nlohmann::json::parse(text));
  return results;
}

/// The IPv4 and IPv6 addresses at which this process listens, as the kernel writes them.
std::set<std::string> listening_addresses() {
  std::set<std::string> own, addresses;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    const std::string target = std::filesystem::read_symlink(entry.path(), ignored).string();
    if (target.starts_with("socket:[")) own.insert(target.substr(8, target.size() - 9));
  }
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream lines(table);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string slot, local, remote, state, queues, timer, retransmits, user, timeout, inode;
      words >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> user >>
          timeout >> inode;
      if (state == "0A" && own.contains(inode)) addresses.insert(local.substr(0, local.find(':')));
    }
  }
  return addresses;
}

SweepResult sweep_over(int ranks, const SweepOptions& options) {
  const auto texts = collect_from_ranks(ranks, [&](const RankEnvironment& self) {
    torch::set_num_threads(1);
    const ProcessGroup group = make_process_group(self);
    SweepSamples samples;
    samples.ranks = ranks;
    sweep_collectives(
        group, torch::kCPU, options, samples,
        {[](double, const std::string&) {}, [](const SweepSamples&) {}, [] { return false; }});
    barrier(group);
    return to_json(samples);
  });
  return summarize(sweep_samples_from_json(texts.front(), "samples.json"));
}

CommProfile read_text(const std::string& text) {
  return read_comm_profile(Document::parse(text, "sweep.yaml")->root());
}

/// 20 us and 1 GB/s of busbw, to the last bit.
SweepResult made_up(int ranks) {
  SweepResult result;
  result.ranks = ranks;
  result.backend = "gloo";
  result.hardware = "made up";
  for (const Bytes size : default_sweep_sizes()) {
    const Seconds time(20e-6 + size.value() * bus_factor(CollectiveKind::all_reduce, ranks) / 1e9);
    result.points.push_back({CollectiveKind::all_reduce, size, time, time, time});
  }
  return result;
}

}  // namespace

// --- what the timed collectives do

BOOST_AUTO_TEST_CASE(ranks_of_one_node_listen_on_the_loopback_alone) {
  const TeamWork team{.work = [](const RankEnvironment& self, const std::string&) {
    torch::set_num_threads(1);
    const ProcessGroup group = make_process_group(self);
    std::set<std::string> others = listening_addresses();  // older Gloos listen no more by now
    others.erase("0100007F");
    barrier(group);
    return others.empty() ? std::string("none") : *others.begin();
  }};
  for (const std::string& text : collect_from_team(2, team)) BOOST_TEST(text == "none");
}

BOOST_AUTO_TEST_CASE(each_collective_leaves_what_its_name_says) {
  // 24 floats over 3 ranks that hold 1, 2 and 3.
  const Bytes size(24 * 4);
  using Kind = CollectiveKind;
  for (const auto& one : results_of(Kind::all_reduce, 3, size))
    BOOST_TEST(one == std::vector<double>(24, 6.0), boost::test_tools::per_element());
  for (const auto& one : results_of(Kind::broadcast, 3, size))
    BOOST_TEST(one == std::vector<double>(24, 1.0), boost::test_tools::per_element());
  for (const auto& one : results_of(Kind::reduce_scatter, 3, size))
    BOOST_TEST(one == std::vector<double>(8, 6.0), boost::test_tools::per_element());
  std::vector<double> gathered;
  for (std::size_t i = 0; i < 24; ++i) gathered.push_back(static_cast<double>(i / 8 + 1));
  for (const auto& one : results_of(Kind::all_gather, 3, size))
    BOOST_TEST(one == gathered, boost::test_tools::per_element());
  const auto received = results_of(Kind::send_recv, 3, size);
  const double from[] = {3, 1, 2};
  for (std::size_t rank = 0; rank < 3; ++rank)
    BOOST_TEST(received[rank] == std::vector<double>(24, from[rank]),
               boost::test_tools::per_element());
}

// --- the fit

BOOST_AUTO_TEST_CASE(a_known_curve_comes_back_from_its_profile_file) {
  const CommProfile profile =
      read_text(comm_profile_file(made_up(4), {"made_up", "rehearse-calibrate comm", "today"}));
  BOOST_REQUIRE(profile.curves.size() == 1u);
  BOOST_TEST(profile.hardware == "made up");
  BOOST_TEST(profile.curves[0].ranks == 4);
  const auto cost = profile.cost(CollectiveKind::all_reduce, Bytes(1e6), 4, 1);
  BOOST_TEST((cost->latency + cost->transfer).value() == 20e-6 + 1.5e6 / 1e9,
             boost::test_tools::tolerance(1e-4));
}

BOOST_AUTO_TEST_CASE(another_curve_does_not) {
  SweepResult twice = made_up(4);
  for (SweepPoint& point : twice.points) point.median *= 2;
  const CommProfile profile = read_text(comm_profile_file(twice, {"made_up", "", "today"}));
  const auto cost = profile.cost(CollectiveKind::all_reduce, Bytes(1e6), 4, 1);
  BOOST_TEST(std::abs((cost->latency + cost->transfer).value() / (20e-6 + 1.5e6 / 1e9) - 1) > 0.9);
}

BOOST_AUTO_TEST_CASE(two_processes_are_measured_and_their_profile_reads_back) {
  SweepOptions options;
  options.kinds = {CollectiveKind::all_reduce, CollectiveKind::send_recv};
  for (double size = kKiB; size <= 16 * kKiB * kKiB; size *= 4) options.sizes.emplace_back(size);
  options.sizes.emplace_back(8 * kKiB * kKiB);
  options.repetitions = 5;
  options.sample = Seconds(2e-3);
  options.overlapped = {Bytes(256 * kKiB)};
  options.overlap_repetitions = 2;
  const SweepResult result = sweep_over(2, options);
  BOOST_TEST(result.ranks == 2);
  BOOST_TEST(result.points.size() == 2 * options.sizes.size());
  for (const SweepPoint& point : result.points) {
    BOOST_TEST(point.median.value() > 0);
    BOOST_TEST((point.p5 <= point.median && point.median <= point.p95));
  }
  BOOST_TEST(result.overlaps.size() == 2u);
  for (const SweepOverlap& one : result.overlaps) BOOST_TEST(one.compute_beside.value() > 0);
  const CommProfile profile = read_text(comm_profile_file(result, {"gloo", "", "today"}));
  BOOST_REQUIRE(!profile.curves.empty());
  for (const CommCurve& curve : profile.curves) {
    BOOST_TEST(curve.ranks == 2);
    BOOST_TEST(curve.residual_max > 0);
    BOOST_TEST(curve.held_out_max > 0);
    BOOST_TEST(profile.cost(curve.kind, Bytes(1e6), 2, 1).has_value());
  }
}

BOOST_AUTO_TEST_CASE(a_collective_that_cannot_be_fitted_is_named_and_the_others_stay) {
  SweepResult result = made_up(2);
  for (const Bytes size : default_sweep_sizes()) {
    const Seconds falls(1 / size.value());
    result.points.push_back({CollectiveKind::broadcast, size, falls, falls, falls});
  }
  const std::string text = comm_profile_file(result, {"mixed", "", "today"});
  BOOST_TEST(text.find("# Not fitted: mixed: error: broadcast over 2 ranks on 1 node: ") !=
             std::string::npos);
  BOOST_TEST(read_text(text).curves.size() == 1u);
}

BOOST_AUTO_TEST_CASE(too_few_sizes_are_refused) {
  SweepResult result = made_up(2);
  result.points.resize(2);
  BOOST_CHECK_THROW(comm_profile_file(result, {"few", "", "today"}), InputError);
}

// --- what a sweep keeps

namespace {

SweepSamples some_samples() {
  SweepSamples samples;
  samples.ranks = 3;
  samples.backend = "gloo";
  samples.hardware = "made up";
  samples.at(CollectiveKind::broadcast, Bytes(1024)) = {
      CollectiveKind::broadcast,
      Bytes(1024),
      7,
      {Seconds(3e-6), Seconds(1e-6), Seconds(2e-6)},
      {Seconds(2e-6), Seconds(1e-6), Seconds(1e-6)}};
  samples.overlaps.push_back({CollectiveKind::all_reduce, Bytes(1024), Seconds(1e-3), Seconds(2e-3),
                              Seconds(1e-3), Seconds(1.5e-3)});
  samples.copies.push_back({false, true, Bytes(64), Seconds(1e-6)});
  return samples;
}

}  // namespace

BOOST_AUTO_TEST_CASE(samples_survive_their_file) {
  const SweepSamples back = sweep_samples_from_json(to_json(some_samples()), "samples.json");
  BOOST_TEST(to_json(back) == to_json(some_samples()));
  BOOST_TEST(summarize(back).points.front().median.value() == 2e-6);
  BOOST_TEST(back.has_overlap(CollectiveKind::all_reduce, Bytes(1024)));
  BOOST_TEST(!back.has_overlap(CollectiveKind::all_reduce, Bytes(2048)));
}

BOOST_AUTO_TEST_CASE(damaged_samples_are_refused_wherever_they_end) {
  const std::string text = to_json(some_samples());
  for (std::size_t length = 0; length + 2 < text.size(); length += 7) {
    BOOST_CHECK_THROW(sweep_samples_from_json(text.substr(0, length), "samples.json"), InputError);
  }
}

BOOST_AUTO_TEST_CASE(samples_of_another_subject_are_refused) {
  const SweepSamples old = some_samples();
  BOOST_CHECK_NO_THROW(check_same_subject(old, some_samples(), "samples.json"));
  SweepSamples now = old;
  now.host_threads = 2;
  BOOST_CHECK_THROW(check_same_subject(old, now, "samples.json"), InputError);
  now = old;
  now.hardware = "another";
  BOOST_CHECK_THROW(check_same_subject(old, now, "samples.json"), InputError);
}

BOOST_AUTO_TEST_CASE(the_profile_has_the_overlaps) {
  SweepResult result = made_up(2);
  result.overlaps = some_samples().overlaps;
  const CommProfile profile = read_text(comm_profile_file(result, {"made_up", "", "today"}));
  BOOST_REQUIRE(profile.overlap.size() == 1u);
  BOOST_TEST(profile.overlap[0].comm_slowdown == 2);
  BOOST_TEST(profile.overlap[0].compute_slowdown == 1.5);
}

BOOST_AUTO_TEST_CASE(a_connection_has_no_more_in_its_queue_than_its_window_lets_it) {
  SweepResult result = made_up(2);
  result.nodes = 2;
  for (SweepPoint& point : result.points) point.host = Seconds(5e-6 + point.size.value() / 5e9);
  const auto queued = [&](std::optional<Bytes> window) {
    const SweepProfileOptions options{"made_up",  "",    "today", BytesPerSecond(1.25e9),
                                      Seconds(0), window};
    return read_text(comm_profile_file(result, options)).transport.value().queued;
  };
  BOOST_TEST(queued(std::nullopt).value() == 200e3);
  BOOST_TEST(queued(Bytes(6e6)).value() == 200e3);
  BOOST_TEST(queued(Bytes(114688)).value() == 114688);

  const auto file = std::filesystem::temp_directory_path() / fmt::format("tcp_rmem.{}", getpid());
  std::ofstream(file) << "4096\t131072\t6291456\n";
  BOOST_TEST(largest_receive_window(file).value().value() == 5505024);
  std::ofstream(file) << "none\n";
  BOOST_TEST(!largest_receive_window(file));
  std::filesystem::remove(file);
  BOOST_TEST(!largest_receive_window(file));
}

BOOST_AUTO_TEST_CASE(a_sweep_goes_on_from_its_samples_and_stops_when_any_rank_is_told) {
  SweepOptions options;
  options.kinds = {CollectiveKind::all_reduce};
  options.sizes = {Bytes(kKiB), Bytes(4 * kKiB)};
  options.sample = Seconds(1e-4);
  options.repetitions = 6;
  const auto texts = collect_from_ranks(2, [&](const RankEnvironment& self) {
    torch::set_num_threads(1);
    const ProcessGroup group = make_process_group(self);
    SweepSamples samples;
    int kept = 0;
    SweepWatch watch{[](double, const std::string&) {}, [&](const SweepSamples&) { ++kept; },
                     [&] { return self.rank == 1 && kept == 3; }};
    sweep_collectives(group, torch::kCPU, options, samples, watch);
    const bool stopped = !samples.finished;
    const auto first = samples.series.front().times;
    watch.stop = [] { return false; };
    sweep_collectives(group, torch::kCPU, options, samples, watch);
    const auto& all = samples.series.front().times;
    const bool same = std::equal(first.begin(), first.end(), all.begin());
    return fmt::format("{} {} {} {} {}", stopped, first.size(), samples.finished, all.size(), same);
  });
  BOOST_TEST(texts[0] == "true 4 true 6 true");
  BOOST_TEST(texts[1] == texts[0]);
}
