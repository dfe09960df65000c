// Replay against plain loops that keep every version of the parameters.
#include <sys/resource.h>
#include <unistd.h>

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <fstream>

#include "base/error.hpp"
#include "base/random.hpp"
#include "config/whole_file.hpp"
#include "data/shard_order.hpp"
#include "launch/run_ranks.hpp"
#include "measure/host_threads.hpp"
#include "models/networks.hpp"
#include "replay/replay.hpp"
#include "synthetic_digits.hpp"

BOOST_AUTO_TEST_SUITE(replay_updates_test)

using namespace rehearse;
namespace data = boost::unit_test::data;

namespace {

constexpr std::uint32_t kWorkers = 4;

const Dataset& digits() {
  static const Dataset kSet = synthetic_dataset(200, 100);
  return kSet;
}

TrainingOptions training(const std::string& model = "small_mlp") {
  return {.model = model, .batch = 8, .learning_rate = 0.01, .momentum = 0.9, .seed = 5};
}

RunUpdates synchronous(std::uint64_t rounds) {
  RunUpdates run{.workers = kWorkers, .warmup = 0, .mitigation = {}, .updates = {}};
  for (std::uint64_t k = 0; k < rounds; ++k)
    for (std::uint32_t w = 0; w < kWorkers; ++w)
      run.updates.push_back({w, k, k, k, Seconds(0.1 * static_cast<double>(k + 1))});
  return run;
}

/// A random worker's gradient each time; it then reads what came of it.
RunUpdates asynchronous(std::uint64_t updates, std::uint64_t seed = 1) {
  RunUpdates run{.workers = kWorkers, .warmup = 0, .mitigation = {}, .updates = {}};
  std::vector<std::uint64_t> iteration(kWorkers, 0), read(kWorkers, 0);
  RandomStream stream = random_stream(seed, "order of updates");
  for (std::uint64_t v = 0; v < updates; ++v) {
    const auto w = static_cast<std::uint32_t>(uniform01(stream) * kWorkers);
    run.updates.push_back({w, iteration[w]++, read[w], v, Seconds(static_cast<double>(v))});
    read[w] = v + 1;
  }
  return run;
}

using Values = std::vector<torch::Tensor>;

/// A plain loop: all versions are kept, gradients are computed one after the other as the log
/// applies them, and every update is written out in torch's own operations.
class Plain {
 public:
  explicit Plain(const TrainingOptions& options) : options_(options) {
    set_host_threads(1);
    torch::manual_seed(options.seed);
    chain_ = build_chain(options.model, shape_for(digits()));
    versions_.push_back(copy());
    for (const auto& one : versions_[0]) velocity_.push_back(torch::zeros_like(one));
  }

  /// The test loss after every update.
  std::vector<double> play(const RunUpdates& run) {
    std::vector<double> losses = {test_loss()};
    for (std::size_t row = 0; row < run.updates.size();) {
      std::vector<AppliedUpdate> group;
      const std::uint64_t version = run.updates[row].version_applied;
      while (row < run.updates.size() && run.updates[row].version_applied == version)
        group.push_back(run.updates[row++]);
      apply(group);
      losses.push_back(test_loss());
    }
    return losses;
  }

 private:
  Values copy() const {
    Values values;
    for (const auto& one : parameters(chain_)) values.push_back(one.detach().clone());
    return values;
  }
  void load(const Values& values) {
    const torch::NoGradGuard no_gradient;
    const auto all = parameters(chain_);
    for (std::size_t i = 0; i < all.size(); ++i) torch::Tensor(all[i]).copy_(values[i]);
  }
  Values gradient(const AppliedUpdate& update) {
    load(versions_[update.version_read]);
    zero_gradients(chain_);
    ShardOrder order(
        {digits().train.count(), kWorkers, update.worker, options_.batch, options_.seed});
    forward_loss(chain_, sample_batch(digits().train, order.batch(update.iteration), digits().name))
        .backward();
    Values values;
    for (const auto& one : parameters(chain_)) values.push_back(one.grad().clone());
    return values;
  }
  void apply(const std::vector<AppliedUpdate>& group) {
    const Mitigation& by = options_.mitigation;
    Values sum;
    for (const AppliedUpdate& update : group) {
      const Values one = gradient(update);
      for (std::size_t i = 0; i < one.size(); ++i) {
        torch::Tensor g = one[i];
        if (by.delay_compensation != 0) {
          g = g + (g * by.delay_compensation) * g *
                      (versions_.back()[i] - versions_[update.version_read][i]);
        }
        if (sum.size() <= i) {
          sum.push_back(g);
        } else {
          sum[i] = sum[i] + g;
        }
      }
    }
    double rate = options_.learning_rate;
    if (by.staleness_aware && group[0].staleness() > 1)
      rate /= static_cast<double>(group[0].staleness());
    Values next = versions_.back();
    for (std::size_t i = 0; i < next.size(); ++i) {
      velocity_[i] = velocity_[i] * options_.momentum + sum[i] / static_cast<double>(group.size());
      next[i] = next[i] - velocity_[i] * rate;
    }
    versions_.push_back(next);
  }
  double test_loss() {
    const torch::NoGradGuard no_gradient;
    load(versions_.back());
    std::vector<std::uint32_t> all(digits().test.count());
    for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = i;
    const auto count = static_cast<double>(all.size());
    const auto mean =
        forward_loss(chain_, sample_batch(digits().test, all, digits().name)).item<double>();
    return mean * count / count;
  }

  TrainingOptions options_;
  Chain chain_;
  std::vector<Values> versions_;
  Values velocity_;
};

std::vector<double> replayed(const RunUpdates& run, const TrainingOptions& options) {
  const auto curve = replay(run, digits(), {.training = options, .eval_every = 1, .threads = 2});
  std::vector<double> losses;
  for (const CurvePoint& point : curve->points) losses.push_back(*point.test_loss);
  return losses;
}

const auto kFile =
    std::filesystem::temp_directory_path() / ("replay_" + std::to_string(getpid()) + ".state");

}  // namespace

// --- which gradients

BOOST_DATA_TEST_CASE(without_staleness_it_is_synchronous_sgd_bit_by_bit,
                     data::make({"small_mlp", "small_cnn"}), model) {
  const RunUpdates run = synchronous(10);
  const auto expected = Plain(training(model)).play(run);
  BOOST_TEST(replayed(run, training(model)) == expected, boost::test_tools::per_element());
  BOOST_TEST(expected.back() < expected.front());
}

BOOST_AUTO_TEST_CASE(a_stale_gradient_is_that_of_the_version_that_was_read) {
  const RunUpdates run = asynchronous(40);
  TrainingOptions options = training();
  options.momentum = 0.5;
  const auto expected = Plain(options).play(run);
  BOOST_TEST(replayed(run, options) == expected, boost::test_tools::per_element());
  // The same gradients in another order of reading lead elsewhere.
  RunUpdates fresh = run;
  for (AppliedUpdate& update : fresh.updates) update.version_read = update.version_applied;
  BOOST_TEST(replayed(fresh, options).back() != expected.back());
}

// --- mitigations

BOOST_AUTO_TEST_CASE(staleness_aware_updates_have_the_learning_rate_over_their_staleness) {
  TrainingOptions options = training();
  options.momentum = 0;
  options.mitigation.staleness_aware = true;
  const RunUpdates run = asynchronous(40);
  const auto expected = Plain(options).play(run);
  const auto got = replayed(run, options);
  for (std::size_t i = 0; i < got.size(); ++i) BOOST_TEST(std::abs(got[i] - expected[i]) < 1e-6);
}

BOOST_AUTO_TEST_CASE(delay_compensation_adds_the_estimated_change_of_the_gradient) {
  TrainingOptions options = training();
  options.momentum = 0;
  options.learning_rate = 0.05;
  options.mitigation.delay_compensation = 2;
  const RunUpdates run = asynchronous(40);
  const auto got = replayed(run, options);
  const auto expected = Plain(options).play(run);
  for (std::size_t i = 0; i < got.size(); ++i) BOOST_TEST(std::abs(got[i] - expected[i]) < 1e-6);
  options.mitigation.delay_compensation = 0;
  BOOST_TEST(std::abs(replayed(run, options).back() - expected.back()) > 1e-5);
}

BOOST_AUTO_TEST_CASE(one_worker_s_local_steps_are_plain_steps) {
  // One worker: where its H steps led is where H plain steps lead, up to the rounding of sums.
  RunUpdates local{.workers = 1, .warmup = 0, .mitigation = {}, .updates = {}};
  RunUpdates plain = local;
  for (std::uint64_t k = 0; k < 4; ++k) local.updates.push_back({0, k, k, k, Seconds(1)});
  for (std::uint64_t k = 0; k < 12; ++k) plain.updates.push_back({0, k, k, k, Seconds(1)});
  TrainingOptions options = training();
  options.momentum = 0;
  const double expected = replayed(plain, options).back();
  options.mitigation.local_steps = 3;
  BOOST_TEST(std::abs(replayed(local, options).back() - expected) < 1e-5);
}

// --- going on, threads, memory

BOOST_AUTO_TEST_CASE(the_number_of_threads_changes_no_bit) {
  const RunUpdates run = asynchronous(60);
  const auto text = [&](int threads) {
    return to_json(*replay(run, digits(), {.training = training("small_cnn"), .threads = threads}));
  };
  const std::string one = text(1);
  BOOST_TEST(text(2) == one);
  BOOST_TEST(text(5) == one);
}

BOOST_DATA_TEST_CASE(a_stopped_replay_goes_on_to_the_same_curve, data::make({0.0, 0.5}), lambda) {
  const RunUpdates run = asynchronous(60);
  ReplayOptions options{.training = training(), .eval_every = 7, .threads = 2};
  options.training.mitigation.delay_compensation = lambda;
  const std::string whole = to_json(*replay(run, digits(), options));
  options.state = kFile;
  for (const int updates : {1, 20, 8}) {
    options.stop = [left = updates]() mutable { return left-- == 0; };
    BOOST_TEST(!replay(run, digits(), options));
  }
  options.stop = [] { return false; };
  BOOST_TEST(to_json(*replay(run, digits(), options)) == whole);
  BOOST_TEST(to_json(*replay(run, digits(), options)) == whole);  // it is done by now
  std::filesystem::remove(kFile);
}

BOOST_AUTO_TEST_CASE(a_state_that_is_damaged_or_another_s_is_refused) {
  ReplayOptions options{.training = training(), .state = kFile};
  replay(asynchronous(10), digits(), options);
  ReplayOptions other = options;
  other.training.learning_rate = 0.06;
  BOOST_CHECK_THROW(replay(asynchronous(10), digits(), other), InputError);
  BOOST_CHECK_THROW(replay(asynchronous(10, 2), digits(), options), InputError);
  Dataset another = digits();
  std::get<Images>(another.train.of).pixels[0] ^= 1;
  BOOST_CHECK_THROW(replay(asynchronous(10), another, options), InputError);
  std::string text = read_whole_file(kFile);
  text[text.size() / 2] ^= 1;
  write_whole_file(kFile, text);
  BOOST_CHECK_THROW(replay(asynchronous(10), digits(), options), InputError);
  write_whole_file(kFile, "");
  BOOST_CHECK_THROW(replay(asynchronous(10), digits(), options), InputError);
  std::filesystem::remove(kFile);
}

BOOST_AUTO_TEST_CASE(memory_does_not_grow_with_the_number_of_updates) {
  // The parameters of small_mlp are 1.2 MB: 900 more versions of them would be 1 GB.
  const auto peak_kib = [](std::uint64_t updates) {
    return std::stol(collect_from_ranks(1, [=](const RankEnvironment&) {
                       TrainingOptions options = training();
                       options.batch = 1;
                       replay(asynchronous(updates), digits(),
                              {.training = options, .eval_every = 1000});
                       rusage usage{};
                       getrusage(RUSAGE_SELF, &usage);
                       return std::to_string(usage.ru_maxrss);
                     }).front());
  };
  BOOST_TEST(peak_kib(1000) < peak_kib(100) + 60 * 1024);
}

// --- verdicts and wrong inputs

BOOST_AUTO_TEST_CASE(a_learning_rate_that_is_too_high_diverges_and_stops) {
  TrainingOptions options = training();
  options.learning_rate = 100;
  const auto curve = replay(asynchronous(60), digits(), {.training = options, .eval_every = 5});
  BOOST_TEST(curve->diverged);
  BOOST_TEST(curve->points.back().update < 60u);
  options.learning_rate = 0.01;
  BOOST_TEST(!replay(asynchronous(60), digits(), {.training = options})->diverged);
}

BOOST_AUTO_TEST_CASE(epochs_end_a_log_where_its_samples_are_full) {
  // 200 samples are 25 gradients of 8.
  const auto curve =
      replay(asynchronous(60), digits(), {.training = training(), .epochs = 2, .eval_every = 10});
  BOOST_TEST(curve->updates == 50u);
  BOOST_TEST(curve->points.back().samples == 400u);
  BOOST_CHECK_THROW(replay(asynchronous(49), digits(), {.training = training(), .epochs = 2}),
                    InputError);
}

BOOST_AUTO_TEST_CASE(networks_that_a_server_does_not_hold_whole_are_refused) {
  TrainingOptions options = training("resnet50");
  Dataset large = digits();
  large.train = {synthetic_digits(40, 1, 32)};
  large.test = {synthetic_digits(10, 1, 32)};
  const auto says = [](const std::string& text) {
    return [text](const InputError& error) {
      return std::string(error.what()).find(text) != std::string::npos;
    };
  };
  BOOST_CHECK_EXCEPTION(replay(asynchronous(4), large, {.training = options}), InputError,
                        says("batch norms"));
  options.model = "vgg16";
  BOOST_CHECK_EXCEPTION(replay(asynchronous(4), large, {.training = options}), InputError,
                        says("draws random numbers"));
  options.model = "gpt2";
  BOOST_CHECK_THROW(replay(asynchronous(4), large, {.training = options}), InputError);
  options.model = "no_such";
  BOOST_CHECK_THROW(replay(asynchronous(4), large, {.training = options}), InputError);
}

BOOST_AUTO_TEST_SUITE_END()
