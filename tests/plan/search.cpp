#include "planner/search.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "fixtures.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(search_test)
namespace {

namespace data = boost::unit_test::data;

using Stage = Candidate::Stage;

BOOST_DATA_TEST_CASE(pruning_changes_neither_the_winner_nor_the_tied, data::xrange(200), seed) {
  for (const Metric metric : {Metric::train_time, Metric::usd, Metric::samples_per_s}) {
    const Space space = random_space(static_cast<std::uint64_t>(seed), {metric});
    const Searched all = searched(space, false), pruned = searched(space, true);
    BOOST_TEST((choose(pruned.candidates, pruned.ranking, space.objective) ==
                choose(all.candidates, all.ranking, space.objective)));
    if (!all.ranking.empty()) {
      BOOST_TEST((tied(pruned, space.objective) == tied(all, space.objective)));
    }
  }
}

BOOST_DATA_TEST_CASE(pruning_changes_neither_a_front_nor_what_may_be_on_it, data::xrange(200),
                     seed) {
  const Space space =
      random_space(static_cast<std::uint64_t>(seed), {Metric::train_time, Metric::usd});
  const Searched all = searched(space, false), pruned = searched(space, true);
  const auto front = [&](const Searched& one) {
    std::set<std::size_t> on;
    for (const std::size_t i : one.ranking) {
      if (on_front(one.candidates[i], one.candidates, space.objective)) on.insert(i);
    }
    return on;
  };
  BOOST_TEST((front(pruned) == front(all)));
  BOOST_TEST((tied(pruned, space.objective) == tied(all, space.objective)));
  BOOST_TEST((choose(pruned.candidates, pruned.ranking, space.objective) ==
              choose(all.candidates, all.ranking, space.objective)));
}

BOOST_AUTO_TEST_CASE(bounds_dismiss_most_of_the_random_spaces) {
  std::size_t all = 0, simulated = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Space space = random_space(seed, {Metric::train_time});
    all += space.candidates.size();
    simulated += searched(space, true).simulated.size();
  }
  BOOST_TEST(simulated * 2 < all);
}

/// A candidate of one metric, bounded by itself.
Candidate bounded(double least) {
  Candidate candidate;
  candidate.bound.best[Metric::train_time] = {least, least, least};
  return candidate;
}

BOOST_AUTO_TEST_CASE(what_the_best_s_interval_does_not_reach_is_not_simulated) {
  const Space space{.candidates = {bounded(1), bounded(1.9), bounded(2.1)},
                    .truth = {{{Metric::train_time, {1, 0.5, 2}}},
                              {{Metric::train_time, {3, 2.5, 4}}},
                              {{Metric::train_time, {3, 2.5, 4}}}},
                    .constraints = {},
                    .objective = {{Metric::train_time}}};
  const Searched result = searched(space, true, 1);
  BOOST_TEST((result.simulated == std::set<std::size_t>{0, 1}));
  BOOST_TEST((result.candidates[2].stage == Stage::bound));
  BOOST_TEST(result.candidates[2].misses.at(0).constraint == "objective");
  BOOST_TEST(result.candidates[2].misses.at(0).words ==
             "time to train at least 2.10 s; 1.00 s is reached");
}

BOOST_AUTO_TEST_CASE(a_constraint_that_is_not_known_is_not_kept_to) {
  Space space{.candidates = {bounded(1)},
              .truth = {{{Metric::train_time, {1, 1, 1}}}},
              .constraints = {{"accuracy", Metric::accuracy, Constraint::Sense::at_least, 0.9}},
              .objective = {{Metric::train_time}}};
  Searched result = searched(space, true);
  BOOST_TEST((result.candidates[0].stage == Stage::simulated));
  BOOST_TEST(result.candidates[0].misses.at(0).words ==
             "accuracy is not known: the report has none");
  space.candidates[0].bound.unknown[Metric::accuracy] = "the scenario has no convergence";
  result = searched(space, true);
  BOOST_TEST((result.candidates[0].stage == Stage::bound));
  BOOST_TEST(result.simulated.empty());
  BOOST_TEST(result.candidates[0].misses.at(0).words ==
             "accuracy is not known: the scenario has no convergence");
}

BOOST_AUTO_TEST_CASE(a_constraint_that_the_interval_straddles_is_at_risk) {
  const Space space{.candidates = {bounded(1)},
                    .truth = {{{Metric::train_time, {3600, 3000, 4200}}}},
                    .constraints = {{"deadline", Metric::train_time, {}, 4000}},
                    .objective = {{Metric::train_time}}};
  const Searched result = searched(space, true);
  BOOST_TEST((result.candidates[0].stage == Stage::feasible));
  BOOST_TEST(result.candidates[0].at_risk.at(0) ==
             "time to train may be 1 h 10 min (90 % interval); the limit is 1 h 07 min");
}

BOOST_AUTO_TEST_CASE(of_equal_candidates_the_one_with_fewer_options_is_first) {
  Space space{.candidates = {bounded(1), bounded(1)},
              .truth = {{{Metric::train_time, {1, 1, 1}}}, {{Metric::train_time, {1, 1, 1}}}},
              .constraints = {},
              .objective = {{Metric::train_time}}};
  space.candidates[0].options = 2;
  BOOST_TEST(searched(space, true).ranking == (std::vector<std::size_t>{1, 0}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_excess_is_a_ratio_either_way) {
  const Miss late{.constraint = "deadline", .value = 15, .limit = 12, .words = ""};
  const Miss slow{.constraint = "samples_per_s",
                  .metric = Metric::samples_per_s,
                  .value = 80,
                  .limit = 100,
                  .words = ""};
  BOOST_TEST(late.excess() == 1.25);
  BOOST_TEST(slow.excess() == 1.25);
}

BOOST_AUTO_TEST_CASE(a_chance_of_fitting_is_asked_for_where_the_interval_tells_it) {
  Figures figures = {{Metric::memory, {72, 64.8, 80}}};
  figures.chance_of_fitting = 0.95;
  Bound bound;
  bound.capacity = 80;
  const auto misses = [&](double chance) {
    const Constraint asked{.name = "memory",
                           .metric = Metric::memory,
                           .sense = Constraint::Sense::fits,
                           .chance = chance};
    return misses_of(figures, bound, {asked}, false);
  };
  BOOST_TEST(misses(0).empty());
  BOOST_TEST(misses(0.9499).empty());
  BOOST_REQUIRE(misses(0.9501).size() == 1u);
  BOOST_TEST(misses(0.99)[0].words == "fits with 95 %; the plan asks for 99 %");
  bound.capacity = 70;
  BOOST_TEST(misses(0.9)[0].words.starts_with("needs "));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
