#include "rollout/lag.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>

#include "base/data_folder.hpp"

#include "rollout/serving.hpp"

namespace rehearse {
namespace {

BOOST_AUTO_TEST_SUITE(lag)

LagRun by_batches(std::int64_t limit, double generation, double training, double refit) {
  return lag_by_batches(
      limit, [=](std::int64_t) { return Seconds(generation); }, Seconds(training), Seconds(refit));
}

BOOST_AUTO_TEST_CASE(in_turn_all_parts_add_up) {
  const LagRun run = by_batches(0, 10, 4, 1);
  BOOST_TEST(run.step.value() == 15, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(run.mean_age == 0);
  BOOST_TEST(run.trainer_waits.value() == 10, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(one_update_late_the_longer_part_decides) {
  // Where generation is longer, each batch waits for its own refit.
  BOOST_TEST(by_batches(1, 10, 4, 1).step.value() == 11, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(by_batches(1, 10, 4, 600).step.value() == 610, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(by_batches(1, 3, 8, 1).step.value() == 8, boost::test_tools::tolerance(1e-9));
  // Where training is longer, batch k begins with the weights of update k - 1.
  BOOST_TEST(by_batches(1, 3, 8, 1).mean_age == 1, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(by_batches(2, 3, 8, 1).mean_age == 2, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(by_batches(3, 10, 4, 1).most_age <= 3);
}

BOOST_AUTO_TEST_CASE(sequences_that_go_on_hide_the_tail_within_the_limit) {
  const DecodeModel model = served_llama();
  const auto requests = [](std::int64_t step) {
    std::vector<Request> all;
    for (std::size_t i = 0; i < 64; ++i)
      all.push_back({.prompt = 100,
                     .response = i % 16 == 0 ? 2000.0 : 200.0,
                     .group = static_cast<std::size_t>(step) * 64 + i});
    return all;
  };
  const Seconds training(2), refit(0.2);
  const LagRun whole = lag_by_batches(
      1, [&](std::int64_t k) { return generate(model, requests(k), 1, 1e6, 64).time; }, training,
      refit);
  for (const TakeOrder take : {TakeOrder::ended, TakeOrder::begun})
    for (const double limit : {0.5, 1.0, 2.0, 4.0}) {
      const LagRun run =
          lag_in_flight({model, 1, 1e6, 64}, {.limit = limit, .in_flight = true, .take = take}, 1,
                        requests, training, refit);
      if (limit >= 1) BOOST_TEST(run.step.value() < whole.step.value());
      BOOST_TEST(run.step.value() >= training.value() - 1e-9);
      if (take == TakeOrder::begun) BOOST_TEST(run.most_age <= std::ceil(limit));
      BOOST_TEST(run.mean_age <= limit + 1e-9);
      BOOST_TEST(std::accumulate(run.ages.begin(), run.ages.end(), 0.0) == 1,
                 boost::test_tools::tolerance(1e-9));
    }
}

/// Updates that begin with their own responses hide generation without any stale ones.
BOOST_AUTO_TEST_CASE(a_stream_of_updates_hides_generation_behind_training) {
  const DecodeModel model = served_llama();
  const auto requests = [](std::int64_t step) {
    std::vector<Request> all;
    for (std::size_t i = 0; i < 64; ++i)
      all.push_back({.prompt = 100,
                     .response = 100.0 + 20.0 * static_cast<double>(i),
                     .group = static_cast<std::size_t>(step) * 64 + i});
    return all;
  };
  const auto run = [&](bool stream) {
    return lag_in_flight({model, 1, 1e6, 64}, {.limit = 0, .in_flight = true, .stream = stream}, 8,
                         requests, Seconds(8), Seconds(0.2));
  };
  BOOST_TEST(run(false).mean_age == 0);
  BOOST_TEST(run(true).mean_age == 0);
  BOOST_TEST(run(true).step.value() < 0.9 * run(false).step.value());
}

/// However many steps are ahead: a slow trainer's responses are as old as the limit allows.
BOOST_AUTO_TEST_CASE(ages_at_large_limits_are_steady) {
  const LagRun run = by_batches(20, 3, 3.3, 0.1);
  BOOST_TEST(run.mean_age > 19.5);
  BOOST_TEST(run.most_age <= 20);
}

/// Steps of toy.csv after the first three, of one balance and lag.
struct Toy {
  double generation = 0, training = 0, refit = 0, age = 0, begun = 0, ended = 0, steps = 0;
};

std::map<std::pair<std::string, int>, Toy> recorded_toys() {
  std::map<std::pair<std::string, int>, Toy> toys;
  std::ifstream file(data_folder() / "tests" / "rollout" / "toy.csv");
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream text(line);
    std::vector<std::string> cells;
    for (std::string cell; std::getline(text, cell, ',');) cells.push_back(cell);
    Toy& toy = toys[{cells.at(0), std::stoi(cells.at(1))}];
    const int step = std::stoi(cells.at(2));
    toy.ended = std::stod(cells.at(7));
    if (step == 2) toy.begun = toy.ended;
    if (step < 3) continue;
    ++toy.steps;
    toy.age += std::stod(cells.at(3));
    toy.refit += std::stod(cells.at(4));
    toy.generation += std::stod(cells.at(5));
    toy.training += std::stod(cells.at(6));
  }
  return toys;
}

/// A policy on CPUs (toy.py), in turn and lagging by 1 and 2: its phases make its steps and ages.
BOOST_AUTO_TEST_CASE(a_real_policy_lags_as_its_phases_say) {
  const auto toys = recorded_toys();
  BOOST_TEST_REQUIRE(toys.size() == 6U);
  for (const auto& [of, toy] : toys) {
    const LagRun run = by_batches(of.second, toy.generation / toy.steps, toy.training / toy.steps,
                                  toy.refit / toy.steps);
    const double step = (toy.ended - toy.begun) / toy.steps, age = toy.age / toy.steps;
    BOOST_TEST_MESSAGE(of.first << " longer, lag " << of.second << ": step " << step << " s, "
                                << run.step.value() << " predicted; age " << age << ", "
                                << run.mean_age);
    BOOST_TEST(run.step.value() == step, boost::test_tools::tolerance(0.15));
    BOOST_TEST(std::abs(run.mean_age - age) <= 0.15);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace rehearse
