// Curves as files.
#include "convergence/curve.hpp"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "base/error.hpp"
#include "config/whole_file.hpp"

using namespace rehearse;

BOOST_AUTO_TEST_SUITE(curve_test)
namespace {

const std::filesystem::path kFile =
    std::filesystem::temp_directory_path() / ("curve_" + std::to_string(getpid()) + ".json");

Curve read_text(const std::string& text) {
  write_whole_file(kFile, text);
  return read_curve(kFile);
}

Curve some_curve() {
  Curve curve{
      .source = "replay",
      .model = "small_cnn",
      .dataset = "mnist",
      .train_samples = 8000,
      .test_samples = 2000,
      .workers = 4,
      .batch = 32,
      .learning_rate = 0.05,
      .momentum = 0.9,
      .weight_decay = 1e-4,
      .mitigation = {.staleness_aware = true, .staleness_bound = 3},
      .seed = 7,
      .staleness = {.mean = 2.5, .p50 = 2, .p99 = 5, .max = 6, .histogram = {{2, 1}, {6, 1}}},
      .updates = 2,
      .diverged = true,
      .points = {}};
  curve.points.push_back({0, Seconds(0), 0, std::nullopt, 2.31, 0.1});
  curve.points.push_back({2, Seconds(0.1), 64, 1e300, std::nullopt, 0.0625, PastStaleness{1, 2}});
  return curve;
}

std::string changed(const std::string& from, const std::string& to) {
  std::string text = to_json(some_curve());
  return text.replace(text.find(from), from.size(), to);
}

void check_refused(const std::string& text, const std::string& message) {
  const auto says = [&](const InputError& error) {
    const std::string what = error.what();
    BOOST_TEST(what.substr(kFile.string().size(), message.size()) == message);
    return true;
  };
  BOOST_CHECK_EXCEPTION(read_text(text), InputError, says);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_curve_that_is_written_is_read_again) {
  const std::string text = to_json(some_curve());
  const Curve curve = read_text(text);
  BOOST_TEST(to_json(curve) == text);
  BOOST_TEST(curve.staleness.histogram.at(6) == 1u);
  BOOST_TEST(!curve.points[0].train_loss);
  BOOST_TEST(*curve.points[0].test_loss == 2.31);
  BOOST_TEST(curve.points[1].time.value() == 0.1);
  BOOST_TEST(*curve.mitigation.staleness_bound == 3u);
  BOOST_TEST(!curve.points[0].staleness);
  BOOST_TEST(curve.points[1].staleness->mean == 1);
  BOOST_TEST(curve.points[1].staleness->recent == 2);
}

BOOST_AUTO_TEST_CASE(a_curve_of_an_outer_optimizer_differs_from_one_without) {
  Curve curve = some_curve();
  curve.mitigation.outer = OuterSgd{0.5, 0.8, false};
  const Curve again = read_text(to_json(curve));
  BOOST_TEST((again.mitigation.outer == curve.mitigation.outer));
  BOOST_TEST(!training_difference(again, curve));
  const auto difference = training_difference(some_curve(), curve);
  BOOST_REQUIRE(difference);
  BOOST_TEST(difference->what == "outer optimizer");
  BOOST_TEST(difference->one == "none");
  BOOST_TEST(difference->other == "SGD of 0.5, momentum 0.8");
}

// Of staleness 0, 1, 2 and 0; updates that are applied together share their version.
BOOST_AUTO_TEST_CASE(points_are_as_stale_as_the_updates_until_then) {
  const auto update = [](std::uint64_t read, std::uint64_t applied) {
    AppliedUpdate one;
    one.version_read = read;
    one.version_applied = applied;
    return one;
  };
  std::vector<CurvePoint> points(3);
  points[1].update = 1;
  points[2].update = 3;
  add_staleness({update(0, 0), update(0, 1), update(0, 2), update(2, 2)}, points);
  BOOST_TEST(!points[0].staleness);
  BOOST_TEST(points[1].staleness->mean == 0);
  BOOST_TEST(points[1].staleness->recent == 0);
  BOOST_TEST(points[2].staleness->mean == 0.75);
  const double kept = std::exp(-1.0 / 20);
  const double recent = kept * (kept + 2) / (1 + kept + kept * kept + kept * kept * kept);
  BOOST_TEST(std::abs(points[2].staleness->recent - recent) < 1e-12);
}

BOOST_AUTO_TEST_CASE(other_files_are_refused_with_their_place) {
  check_refused(changed("curve/1", "report/1"), ":2:13: error: schema: expected");
  check_refused(changed("\"batch\": 32", "\"batch\": -1"), ":9:12: error: batch: expected");
  check_refused(changed("\"seed\"", "\"sead\""), ":1:1: error: ");
  check_refused(changed("\"test_accuracy\":0.1", "\"test_accuracy\":1.5"), ":19:");
  check_refused(changed("{\"update\":2", "{\"update\":0"),
                ":20:5: error: points.1: expected points in the order of their updates");
  check_refused(changed("\"recent\":2.0", "\"recent\":-2.0"), ":20:");
  check_refused("{}", ":1:1: error: ");
  BOOST_CHECK_THROW(read_curve("no_such_folder/curve.json"), MissingError);
  std::filesystem::remove(kFile);
}

BOOST_AUTO_TEST_SUITE_END()
