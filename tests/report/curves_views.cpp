// How runs end that differ by chance alone, as people and programs read it.
#include "view/curves_views.hpp"

#include <boost/test/unit_test.hpp>

#include "base/error.hpp"

using namespace rehearse;

BOOST_AUTO_TEST_SUITE(curves_views_test)
namespace {

/// From an accuracy of 10 % to this one.
NamedCurve run_to(double accuracy, std::uint64_t seed, bool diverged = false) {
  Curve curve;
  curve.source = "replay";
  curve.model = "small_cnn";
  curve.dataset = "cifar10";
  curve.workers = 4;
  curve.seed = seed;
  curve.diverged = diverged;
  curve.points.resize(2);
  curve.points[0].test_accuracy = 0.1;
  curve.points[1].test_accuracy = accuracy;
  return {"c" + std::to_string(seed) + ".json", curve};
}

std::string error_of(NamedCurve one) {
  try {
    report_of({run_to(0.4, 1), std::move(one)});
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

// CIFAR-10 in two epochs: 40 % is as good as it gets, and 12 % is not halfway there (error 0.75).
BOOST_AUTO_TEST_CASE(runs_fail_by_what_the_best_of_them_ends_with) {
  const CurvesReport report = report_of({run_to(0.40, 1), run_to(0.38, 2), run_to(0.12, 3)});
  BOOST_TEST(report.failed.some == 1u);
  BOOST_TEST(report.failed.all == 3u);
  BOOST_TEST(report.runs[2].end.failed);
  BOOST_TEST(report.median == 0.38);
  BOOST_TEST(json_view(report)["verdict"] == "at the edge: 1 of 3 replays fail");
  BOOST_TEST(to_csv(report).ends_with("c3.json,replay,3,0,0.12,true\n"), to_csv(report));
  BOOST_TEST((to_table(report, 80, false).find("c3.json  fails") != std::string::npos));
}

BOOST_AUTO_TEST_CASE(one_that_diverged_is_not_the_best) {
  const CurvesReport report = report_of({run_to(0.8, 1, true), run_to(0.4, 2)});
  BOOST_TEST(report.failed.some == 1u);
  BOOST_TEST(!report.runs[1].end.failed);
}

BOOST_AUTO_TEST_CASE(runs_of_other_training_are_refused) {
  NamedCurve other = run_to(0.4, 2);
  BOOST_TEST(error_of(other) == "no error");
  other.curve.weight_decay = 0.001;
  BOOST_TEST(error_of(other) ==
             "c2.json: error: its weight decay is 0.001, that of c1.json 0\n"
             "remedy: name runs that differ by seed or by the order of updates alone");
  other = run_to(0.4, 2);
  other.curve.mitigation.staleness_aware = true;
  BOOST_TEST(error_of(other).starts_with("c2.json: error: its staleness-aware rate is true"));
}

BOOST_AUTO_TEST_SUITE_END()
