#include "study/conclusion.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "../scratch.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(conclusion_test)
namespace {

using Json = nlohmann::json;

struct Figures {
  double ranks, samples_per_s;
  std::optional<double> usd{};
  const char* verdict = "fits";
  double global_batch = 64;
};

Outcome report_of(const Figures& figures) {
  const Json cost =
      figures.usd ? Json{{"usd", *figures.usd}} : Json{{"usd", nullptr}, {"gpu_hours", 1}};
  return {ExitCode::success, Json{{"step_time_s", 1},
                                  {"samples_per_s", figures.samples_per_s},
                                  {"ranks", figures.ranks},
                                  {"global_batch", figures.global_batch},
                                  {"cluster", "pair"},
                                  {"cost", cost},
                                  {"memory", {{"verdict", figures.verdict}}}}
                                 .dump()};
}

/// A study over nodes and links.
Conclusion concluded(const std::vector<std::pair<std::vector<std::string>, Figures>>& points) {
  const Scratch scratch;
  ResultStore store(scratch / "r");
  std::vector<StudyPoint> all;
  for (const auto& [labels, figures] : points)
    all.push_back({labels, "k" + std::to_string(all.size())});
  store.describe({"p", "study", "", "base.yaml", {"nodes", "link"}}, all);
  for (std::size_t i = 0; i < points.size(); ++i)
    store.store("k" + std::to_string(i), report_of(points[i].second));
  return conclude(store);
}

bool says(const Conclusion& told, const std::string& words) {
  return std::ranges::any_of(told.words, [&](const std::string& one) { return one == words; });
}

BOOST_AUTO_TEST_CASE(the_fastest_fits_and_the_cheapest_is_another) {
  const Conclusion told = concluded({{{"1", "25"}, {8, 100, 50.0}},
                                     {{"1", "400"}, {8, 110, 40.0}},
                                     {{"2", "25"}, {16, 120, 80.0}},
                                     {{"2", "400"}, {16, 300, 60.0, "does_not_fit"}},
                                     {{"4", "400"}, {32, 200, 90.0}}});
  BOOST_TEST(*told.fastest == 4u);
  BOOST_TEST(*told.cheapest == 1u);
  BOOST_TEST(told.answer() ==
             "Fastest that fits: nodes 4, link 400 (1.00 s a step, 200 samples/s, 90.0 USD). "
             "Cheapest: nodes 1, link 400 (1.00 s a step, 110 samples/s, 40.0 USD).");
  BOOST_TEST(says(told, "Of 5 points 1 do not fit."));
}

BOOST_AUTO_TEST_CASE(the_knee_is_the_largest_machine_whose_gpus_still_do_their_work) {
  const Conclusion told = concluded({{{"1", "25"}, {8, 100}},
                                     {{"2", "25"}, {16, 190}},
                                     {{"4", "25"}, {32, 340}},
                                     {{"8", "25"}, {64, 400}}});
  BOOST_TEST(*told.knee == 2u);
  BOOST_TEST(says(
      told,
      "Knee: 32 GPUs, each at 85 % of the throughput per GPU of 8 GPUs; 64 GPUs are at 50 %."));
}

BOOST_AUTO_TEST_CASE(an_axis_costs_what_it_costs_in_the_geometric_mean) {
  // 25 costs 2 and 8 times as much as 400: 4 times in the mean.
  const Conclusion told = concluded({{{"1", "25"}, {8, 100, 20.0}},
                                     {{"1", "400"}, {8, 100, 10.0}},
                                     {{"2", "25"}, {16, 100, 80.0}},
                                     {{"2", "400"}, {16, 100, 10.0}}});
  BOOST_TEST(says(told, "link: 25 costs 4 times as much as 400 in the mean, at most 8 times."));
}

BOOST_AUTO_TEST_CASE(why_there_is_no_price_is_said) {
  const Conclusion told = concluded({{{"1", "25"}, {8, 100}}, {{"2", "25"}, {16, 200}}});
  BOOST_TEST(!told.cheapest.has_value());
  BOOST_TEST(says(told, "No price for pair: cluster.usd_per_hour gives one."));
  BOOST_TEST(says(told, "nodes: 1 takes 2 times as long as 2."));
}

BOOST_AUTO_TEST_CASE(unlike_global_batches_are_not_compared_without_a_word) {
  const std::string words =
      "Global batches of 64 to 128 samples are compared as if every sample trained as much.";
  const Figures small{8, 100, 20.0}, large{16, 200, 20.0, "fits", 128};
  BOOST_TEST(says(concluded({{{"1", "25"}, small}, {{"2", "25"}, large}}), words));
  BOOST_TEST(!says(concluded({{{"1", "25"}, small}, {{"2", "25"}, {16, 200, 20.0}}}), words));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
