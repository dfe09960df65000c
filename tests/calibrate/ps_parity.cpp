// Real training with a parameter server: worker and server processes, a network, float64.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <iterator>
#include <sstream>

#include "launch/run_ranks.hpp"
#include "server/parameter_server.hpp"
#include "train/ps_worker.hpp"

BOOST_AUTO_TEST_SUITE(ps_parity_test)

using namespace rehearse;

namespace {

constexpr std::uint64_t kSteps = 12;
constexpr std::int64_t kBatch = 12;
constexpr SgdOptions kSgd{.learning_rate = 0.05, .momentum = 0.9};

/// Two layers in float64 and one batch per iteration, the same in every process.
struct Network {
  torch::nn::Sequential layers;

  Network() {
    torch::set_num_threads(1);
    torch::manual_seed(1);
    layers = torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::Tanh(),
                                   torch::nn::Linear(16, 3));
    layers->to(torch::kFloat64);
  }

  /// Mean loss over samples [first, last) of an iteration's batch.
  torch::Tensor loss(std::uint64_t iteration, std::int64_t first, std::int64_t last) {
    torch::manual_seed(100 + iteration);
    const auto input = torch::randn({kBatch, 6}, torch::kFloat64);
    const auto target = torch::randn({kBatch, 3}, torch::kFloat64);
    return torch::mse_loss(layers->forward(input.slice(0, first, last)),
                           target.slice(0, first, last));
  }

  std::string text() const {
    std::string result;
    for (const torch::Tensor& one : layers->parameters()) {
      const auto flat = one.detach().contiguous();
      for (std::int64_t i = 0; i < flat.numel(); ++i)
        fmt::format_to(std::back_inserter(result), "{:.17g} ", flat.data_ptr<double>()[i]);
    }
    return result;
  }
};

std::vector<double> numbers(const std::string& text) {
  std::istringstream stream(text);
  std::vector<double> result;
  for (double value = 0; stream >> value;) result.push_back(value);
  return result;
}

/// The same training in one process, with torch's own optimizer on the whole batch.
std::vector<double> train_alone(double momentum) {
  return numbers(collect_from_ranks(1, [momentum](const RankEnvironment&) {
                   Network network;
                   torch::optim::SGD optimizer(
                       network.layers->parameters(),
                       torch::optim::SGDOptions(kSgd.learning_rate).momentum(momentum));
                   for (std::uint64_t k = 0; k < kSteps; ++k) {
                     optimizer.zero_grad();
                     network.loss(k, 0, kBatch).backward();
                     optimizer.step();
                   }
                   return network.text();
                 }).front());
}

/// Workers and servers, each a process; what each worker saw last.
std::vector<std::vector<double>> train_served(int workers, int servers,
                                              const UpdateRuleOptions& rule) {
  std::vector<Socket> listening;
  std::vector<Endpoint> endpoints;
  for (int s = 0; s < servers; ++s) {
    listening.push_back(listen_on({"127.0.0.1", 0}));
    endpoints.push_back({"127.0.0.1", port_of(listening.back())});
  }
  const auto texts =
      collect_from_ranks(workers + servers, [&](const RankEnvironment& self) -> std::string {
        if (self.rank >= workers) {
          Socket own = std::move(listening[static_cast<std::size_t>(self.rank - workers)]);
          listening.clear();
          serve_parameters(std::move(own), {rule, Seconds(60), Seconds(60)});
          return {};
        }
        listening.clear();
        Network network;
        if (self.rank != 0) {  // the initial parameters are those of worker 0
          const torch::NoGradGuard no_gradient;
          for (torch::Tensor& one : network.layers->parameters()) one.fill_(7);
        }
        const std::int64_t part = kBatch / workers, first = part * self.rank;
        train_with_server(network.layers->parameters(),
                          [&](std::uint64_t k) {
                            const torch::Tensor loss = network.loss(k, first, first + part);
                            loss.backward();
                            return loss.item<double>();
                          },
                          {endpoints, static_cast<std::uint32_t>(self.rank), kSteps, Seconds(0)});
        return network.text();
      });
  std::vector<std::vector<double>> results;
  for (int w = 0; w < workers; ++w) results.push_back(numbers(texts[static_cast<std::size_t>(w)]));
  return results;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  BOOST_REQUIRE(a.size() == b.size() && a.size() == 6 * 16 + 16 + 16 * 3 + 3);
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

}  // namespace

BOOST_AUTO_TEST_CASE(synchronous_workers_train_as_one_process_with_the_whole_batch) {
  const auto alone = train_alone(kSgd.momentum);
  for (const int workers : {2, 3}) {
    for (const int servers : {1, 2}) {
      for (const auto& seen : train_served(workers, servers, {.workers = workers, .sgd = kSgd}))
        BOOST_TEST(largest_difference(seen, alone) < 1e-9);
    }
  }
}

BOOST_AUTO_TEST_CASE(with_another_momentum_they_do_not) {
  const auto seen = train_served(2, 1, {.workers = 2, .sgd = kSgd}).front();
  BOOST_TEST(largest_difference(seen, train_alone(0.8)) > 1e-6);
}

BOOST_AUTO_TEST_CASE(one_after_the_other_instead_of_the_mean_does_not) {
  const UpdateRuleOptions bounded{
      .workers = 2, .mode = ServerMode::bounded, .staleness = 0, .sgd = kSgd};
  BOOST_TEST(largest_difference(train_served(2, 1, bounded).front(), train_alone(kSgd.momentum)) >
             1e-6);
}

BOOST_AUTO_TEST_SUITE_END()
