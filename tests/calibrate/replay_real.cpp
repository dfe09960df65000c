// A real run, of processes that train over TCP, and the replay of its own log.
#include <unistd.h>

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "data/shard_order.hpp"
#include "launch/run_ranks.hpp"
#include "measure/host_threads.hpp"
#include "models/networks.hpp"
#include "replay/replay.hpp"
#include "server/snapshot_file.hpp"
#include "synthetic_digits.hpp"
#include "train/ps_worker.hpp"
#include "train/step_report.hpp"

BOOST_AUTO_TEST_SUITE(replay_real_test)

using namespace rehearse;
namespace data = boost::unit_test::data;

namespace {

constexpr int kWorkers = 3;
constexpr std::uint64_t kIterations = 12;

struct Case {
  std::string name;
  UpdateRuleOptions rule;
  TrainingOptions training;
};
std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.name; }

Case case_of(const std::string& name, ServerMode mode, const Mitigation& mitigation = {},
             double momentum = 0) {
  const TrainingOptions training{.model = "small_mlp",
                                 .batch = 8,
                                 .learning_rate = 0.01,
                                 .momentum = momentum,
                                 .weight_decay = 1e-3,
                                 .mitigation = mitigation,
                                 .seed = 3};
  return {name,
          {.workers = kWorkers,
           .mode = mode,
           .staleness = 1,
           .warmup_rounds = mitigation.warmup_rounds,
           .sgd = server_part(training, kWorkers)},
          training};
}

const std::vector<Case> kCases = {
    case_of("synchronous", ServerMode::synchronous, {}, 0.9),
    case_of("asynchronous", ServerMode::asynchronous),
    case_of("asynchronous with momentum", ServerMode::asynchronous, {}, 0.9),
    case_of("bounded", ServerMode::bounded),
    case_of("staleness-aware", ServerMode::asynchronous, {.staleness_aware = true}),
    case_of("delay compensation", ServerMode::asynchronous, {.delay_compensation = 0.5}),
    case_of("momentum correction", ServerMode::asynchronous, {.momentum_correction = true}, 0.9),
    case_of("warm-up", ServerMode::asynchronous, {.warmup_rounds = 4}),
    case_of("local steps", ServerMode::asynchronous, {.local_steps = 3}),
    case_of("outer optimizer", ServerMode::asynchronous,
            {.local_steps = 3, .outer = OuterSgd{0.5, 0.5, true}}),
    case_of("outer optimizer in rounds", ServerMode::synchronous, {.outer = OuterSgd{}}),
};

struct RealRun {
  RunUpdates updates;
  Curve curve;
};

std::string work(const RankEnvironment& self, const Case& one, const Dataset& set,
                 const Endpoint& server) {
  set_host_threads(1);
  torch::manual_seed(one.training.seed);
  const Chain chain = build_chain(one.training.model, shape_for(set));
  const auto worker = static_cast<std::uint32_t>(self.rank);
  ShardOrder order({set.train.count(), kWorkers, worker, one.training.batch, one.training.seed});
  const auto gradients = [&](std::uint64_t batch) {
    const torch::Tensor loss =
        forward_loss(chain, sample_batch(set.train, order.batch(batch), set.name));
    loss.backward();
    return loss.item<double>();
  };
  const PsWorkerResult run = train_with_server(parameters(chain), gradients,
                                               {.servers = {server},
                                                .worker = worker,
                                                .iterations = kIterations,
                                                .jitter = Seconds(0.002),
                                                .local = worker_part(one.training)});
  nlohmann::json losses;
  for (std::size_t i = 0; i < run.steps.size(); ++i)
    losses.push_back({run.steps[i].iteration, run.losses[i]});
  return losses.dump();
}

RealRun run_for_real(const Case& one, const Dataset& set) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("replay_real_" + std::to_string(getpid()) + ".snapshots");
  Socket listening = listen_on({"127.0.0.1", 0});
  const Endpoint server{"127.0.0.1", port_of(listening)};
  const auto texts = collect_from_ranks(kWorkers + 1, [&](const RankEnvironment& self) {
    if (self.rank < kWorkers) {
      listening = Socket();
      return work(self, one, set, server);
    }
    SnapshotWriter snapshots(file);
    ParameterServerOptions options{one.rule, Seconds(60), Seconds(60)};
    options.observe = [&](const ServerSnapshot& snapshot) { snapshots.append(snapshot); };
    options.observe_every = 5;
    return to_json(serve_parameters(std::move(listening), options));
  });
  RealRun run;
  run.updates.workers = kWorkers;
  run.updates.mitigation.warmup_rounds = one.training.mitigation.warmup_rounds;
  run.updates.updates = server_result_from_json(texts.back()).log;
  std::vector<std::map<std::uint64_t, double>> losses(kWorkers);
  for (std::size_t w = 0; w < kWorkers; ++w)
    for (const auto& row : nlohmann::json::parse(texts[w])) losses[w][row.at(0)] = row.at(1);
  run.curve = curve_of_run(run.updates, losses, file, set, one.training, 2);
  std::filesystem::remove(file);
  return run;
}

}  // namespace

BOOST_DATA_TEST_CASE(the_replay_of_a_real_run_s_log_is_that_run_bit_by_bit, data::make(kCases),
                     one) {
  const Dataset set = synthetic_dataset(300, 100);
  const RealRun real = run_for_real(one, set);
  const auto replayed =
      replay(real.updates, set, {.training = one.training, .eval_every = 5, .threads = 2});
  BOOST_REQUIRE(replayed);
  BOOST_REQUIRE(replayed->points.size() == real.curve.points.size());
  BOOST_TEST(real.curve.points.size() >= 3u);
  for (std::size_t i = 0; i < real.curve.points.size(); ++i) {
    const CurvePoint &was = real.curve.points[i], &is = replayed->points[i];
    BOOST_TEST(is.update == was.update);
    BOOST_TEST(is.time.value() == was.time.value());
    BOOST_TEST(is.samples == was.samples);
    BOOST_TEST((is.train_loss == was.train_loss));
    BOOST_TEST((is.test_loss == was.test_loss));
    BOOST_TEST(is.test_accuracy == was.test_accuracy);
    BOOST_REQUIRE(is.staleness.has_value() == (i > 0));
    BOOST_REQUIRE(was.staleness.has_value() == (i > 0));
    if (i > 0) BOOST_TEST(is.staleness->recent == was.staleness->recent);
  }
  BOOST_TEST(std::abs(replayed->points.back().staleness->mean - replayed->staleness.mean) < 1e-9);
  BOOST_TEST(*real.curve.points.back().test_loss < *real.curve.points.front().test_loss);
}

BOOST_AUTO_TEST_SUITE_END()
