// Replay with an outer optimizer against torch.optim.SGD on pseudo-gradients, and on text.
#include <unistd.h>

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "base/error.hpp"
#include "base/random.hpp"
#include "data/shard_order.hpp"
#include "measure/host_threads.hpp"
#include "models/networks.hpp"
#include "replay/replay.hpp"
#include "synthetic_digits.hpp"

BOOST_AUTO_TEST_SUITE(replay_outer_test)

using namespace rehearse;
namespace data = boost::unit_test::data;

namespace {

const Dataset& digits() {
  static const Dataset kSet = synthetic_dataset(200, 100);
  return kSet;
}

const Dataset& text() {
  static const Dataset kSet =
      read_dataset({.format = "markov", .train_samples = 1000, .test_samples = 100, .window = 32});
  return kSet;
}

TrainingOptions training(const Dataset& set, std::uint32_t local, OuterSgd outer) {
  const bool is_text = set.name == "markov";
  TrainingOptions options{.model = is_text ? "small_gpt2" : "small_mlp",
                          .batch = 8,
                          .learning_rate = is_text ? 0.3 : 0.01,
                          .weight_decay = 1e-3,
                          .seed = 5};
  options.mitigation.local_steps = local;
  options.mitigation.outer = outer;
  return options;
}

/// Each round averages all workers, as local_sgd does; or random workers push one by one.
RunUpdates updates_of(bool in_rounds, std::uint32_t workers, std::uint64_t versions) {
  RunUpdates run{.workers = workers, .warmup = 0, .mitigation = {}, .updates = {}};
  std::vector<std::uint64_t> iteration(workers, 0), read(workers, 0);
  RandomStream stream = random_stream(1, "order of updates");
  for (std::uint64_t v = 0; v < versions; ++v) {
    const Seconds when(static_cast<double>(v + 1));
    for (std::uint32_t w = 0; in_rounds && w < workers; ++w)
      run.updates.push_back({w, v, v, v, when});
    if (in_rounds) continue;
    const auto w = static_cast<std::uint32_t>(uniform01(stream) * workers);
    run.updates.push_back({w, iteration[w]++, read[w], v, when});
    read[w] = v + 1;
  }
  return run;
}

std::vector<double> replayed(const RunUpdates& run, const Dataset& set,
                             const TrainingOptions& options) {
  const auto curve = replay(run, set, {.training = options, .eval_every = 1, .threads = 2});
  std::vector<double> losses;
  for (const CurvePoint& point : curve->points) losses.push_back(*point.test_loss);
  return losses;
}

using Values = std::vector<torch::Tensor>;

/// The server's parameters and the worker's with an optimizer of torch each; every version is kept.
class Plain {
 public:
  Plain(const Dataset& set, const TrainingOptions& options)
      : set_(set), options_(options), outer_(*options.mitigation.outer) {
    set_host_threads(1);
    torch::manual_seed(options.seed);
    chain_ = build_chain(options.model, shape_for(set));
    server_ = copy();
    for (torch::Tensor& one : server_) one.requires_grad_();
    sgd_ =
        std::make_unique<torch::optim::SGD>(server_, torch::optim::SGDOptions(outer_.learning_rate)
                                                         .momentum(outer_.momentum)
                                                         .nesterov(outer_.nesterov));
    versions_.push_back(copy());
  }

  std::vector<double> play(const RunUpdates& run) {
    std::vector<double> losses = {test_loss()};
    for (std::size_t row = 0; row < run.updates.size();) {
      Values sum;
      double count = 0;
      const std::uint64_t version = run.updates[row].version_applied;
      for (; row < run.updates.size() && run.updates[row].version_applied == version; ++row) {
        const Values one = pseudo_gradient(run.updates[row], run.workers);
        for (std::size_t i = 0; i < one.size(); ++i)
          sum.size() <= i ? sum.push_back(one[i]) : void(sum[i] = sum[i] + one[i]);
        ++count;
      }
      for (std::size_t i = 0; i < sum.size(); ++i) server_[i].mutable_grad() = sum[i] / count;
      sgd_->step();
      Values now;
      for (const torch::Tensor& one : server_) now.push_back(one.detach().clone());
      versions_.push_back(now);
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
  Values pseudo_gradient(const AppliedUpdate& update, std::uint32_t workers) {
    const Values& read = versions_[update.version_read];
    load(read);
    ShardOrder order({set_.train.count(), workers, update.worker, options_.batch, options_.seed});
    torch::optim::SGD inner(
        parameters(chain_),
        torch::optim::SGDOptions(options_.learning_rate).weight_decay(options_.weight_decay));
    const std::uint64_t steps = options_.mitigation.local_steps;
    for (std::uint64_t step = 0; step < steps; ++step) {
      inner.zero_grad();
      const auto batch = order.batch(update.iteration * steps + step);
      forward_loss(chain_, sample_batch(set_.train, batch, set_.name)).backward();
      inner.step();
    }
    Values led = copy();
    for (std::size_t i = 0; i < led.size(); ++i) led[i] = read[i] - led[i];
    return led;
  }
  double test_loss() {
    const torch::NoGradGuard no_gradient;
    load(versions_.back());
    std::vector<std::uint32_t> all(set_.test.count());
    for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = i;
    return forward_loss(chain_, sample_batch(set_.test, all, set_.name)).item<double>();
  }

  const Dataset& set_;
  TrainingOptions options_;
  OuterSgd outer_;
  Chain chain_;
  Values server_;
  std::unique_ptr<torch::optim::SGD> sgd_;
  std::vector<Values> versions_;
};

const std::vector<OuterSgd> kOuter = {{0.7, 0.9, true}, {0.5, 0.8, false}, {0.9, 0, false}};

void check_close(const std::vector<double>& got, const std::vector<double>& expected) {
  BOOST_REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    BOOST_TEST(std::abs(got[i] - expected[i]) < 2e-5 * expected[i]);
}

}  // namespace

BOOST_DATA_TEST_CASE(an_outer_step_is_torch_s_sgd_on_pseudo_gradients,
                     data::make({true, false}) * data::make({1U, 3U}) * data::xrange(kOuter.size()),
                     in_rounds, local, which) {
  const TrainingOptions options = training(digits(), local, kOuter[which]);
  const RunUpdates run = updates_of(in_rounds, 3, 15);
  const auto expected = Plain(digits(), options).play(run);
  check_close(replayed(run, digits(), options), expected);
  BOOST_TEST(expected.back() < expected.front());
}

BOOST_DATA_TEST_CASE(a_transformer_takes_the_same_outer_steps, data::make({true, false}),
                     in_rounds) {
  const TrainingOptions options = training(text(), 2, kOuter[0]);
  const RunUpdates run = updates_of(in_rounds, 2, 6);
  check_close(replayed(run, text(), options), Plain(text(), options).play(run));
}

BOOST_DATA_TEST_CASE(two_replicas_of_period_1_and_rate_1_average, data::make({1U, 4U}), local) {
  // Parameters less the mean of (parameters less where a worker came) are the mean of where.
  TrainingOptions options = training(digits(), local, {1, 0, false});
  const RunUpdates run = updates_of(true, 2, 12);
  const auto outer = replayed(run, digits(), options);
  options.mitigation.outer.reset();
  const auto averaged = replayed(run, digits(), options);
  BOOST_REQUIRE(outer.size() == averaged.size());
  for (std::size_t i = 0; i < outer.size(); ++i)
    BOOST_TEST(std::abs(outer[i] - averaged[i]) < 1e-6 * averaged[i]);
}

BOOST_AUTO_TEST_CASE(a_stopped_replay_goes_on_with_its_outer_momentum) {
  const auto file =
      std::filesystem::temp_directory_path() / ("outer_" + std::to_string(getpid()) + ".state");
  const RunUpdates run = updates_of(false, 3, 30);
  ReplayOptions options{.training = training(digits(), 2, {}), .eval_every = 7, .threads = 2};
  const std::string whole = to_json(*replay(run, digits(), options));
  BOOST_TEST(whole.find("\"outer_optimizer\":{\"learning_rate\":0.7,\"momentum\":0.9") !=
             std::string::npos);
  options.state = file;
  options.stop = [left = 11]() mutable { return left-- == 0; };
  BOOST_TEST(!replay(run, digits(), options));
  ReplayOptions other = options;
  other.training.mitigation.outer->nesterov = false;
  BOOST_CHECK_THROW(replay(run, digits(), other), InputError);
  options.stop = [] { return false; };
  BOOST_TEST(to_json(*replay(run, digits(), options)) == whole);
  std::filesystem::remove(file);
}

// Text is learned where a byte costs less than its frequency alone says.
BOOST_DATA_TEST_CASE(a_small_transformer_learns_what_follows_what, data::make({true, false}),
                     in_rounds) {
  TrainingOptions options = training(text(), 10, {0.7, in_rounds ? 0.9 : 0.5, true});
  const RunUpdates run = updates_of(in_rounds, 2, in_rounds ? 20 : 40);
  const auto curve = replay(run, text(), {.training = options, .threads = 2});
  const double entropy = unigram_entropy(std::get<Text>(text().test.of).bytes);
  BOOST_TEST_CONTEXT("unigram " << entropy) {
    BOOST_TEST(*curve->points.front().test_loss > entropy);
    BOOST_TEST(*curve->points.back().test_loss < entropy);
  }
  BOOST_TEST(!curve->diverged);
  BOOST_TEST(curve->points.back().test_accuracy > untaught_accuracy(text()));
  BOOST_TEST(curve->points.back().samples == 2u * 20 * 10 * 8);
}

BOOST_AUTO_TEST_CASE(what_has_no_meaning_beside_an_outer_optimizer_is_refused) {
  const RunUpdates run = updates_of(false, 2, 4);
  const auto refuses = [&](const char* what, auto change) {
    TrainingOptions options = training(digits(), 2, {});
    change(options);
    BOOST_CHECK_EXCEPTION(replay(run, digits(), {.training = options}), InputError,
                          [&](const InputError& error) {
                            return std::string(error.what()).find(what) != std::string::npos;
                          });
  };
  refuses("without --momentum", [](TrainingOptions& one) { one.momentum = 0.9; });
  refuses("--delay-compensation",
          [](TrainingOptions& one) { one.mitigation.delay_compensation = 0.1; });
  refuses("--momentum-correction",
          [](TrainingOptions& one) { one.mitigation.momentum_correction = true; });
  const auto says = [](const char* text) {
    return [text](const InputError& error) {
      return std::string(error.what()).find(text) != std::string::npos;
    };
  };
  TrainingOptions options = training(text(), 2, {});
  options.model = "gpt2";
  BOOST_CHECK_EXCEPTION(replay(run, text(), {.training = options}), InputError,
                        says("draws random numbers"));
  options.model = "small_mlp";
  BOOST_CHECK_THROW(replay(run, text(), {.training = options}), InputError);
  options.model = "small_gpt2";
  BOOST_CHECK_THROW(replay(run, digits(), {.training = options}), InputError);
}

BOOST_AUTO_TEST_SUITE_END()
