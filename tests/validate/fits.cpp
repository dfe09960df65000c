// Whether memory suffices, as runs did and as predictions say.
#include <boost/test/unit_test.hpp>

#include "fixtures.hpp"
#include "validation/summary.hpp"

using namespace fixtures;

BOOST_AUTO_TEST_SUITE(fits_test)
namespace {

void add_fit(ComparedFile& file, const std::string& name, bool fits, bool said) {
  ComparedMetric one{.metric = kFits, .group = "", .interval = std::nullopt};
  one.measured = fits ? 1 : 0;
  one.predicted = said ? 1 : 0;
  one.error = fits == said ? 0 : 1;
  add(file, name, "ddp", {one});
}

BOOST_AUTO_TEST_CASE(f1_of_either_side_counts_what_was_said_wrongly_and_what_was_missed) {
  ComparedFile file;
  for (int i = 0; i < 6; ++i) add_fit(file, "fits " + std::to_string(i), true, i > 0);
  for (int i = 0; i < 3; ++i) add_fit(file, "oom " + std::to_string(i), false, i == 0);
  const auto found = summarize_fits({file});
  BOOST_REQUIRE(found.size() == 1u);
  BOOST_TEST(found[0].fit_right == 5u);
  BOOST_TEST(found[0].fit_wrong == 1u);
  BOOST_TEST(found[0].oom_right == 2u);
  BOOST_TEST(found[0].oom_wrong == 1u);
  BOOST_TEST(found[0].f1_fits() == 10.0 / 12);
  BOOST_TEST(found[0].f1_oom() == 4.0 / 6);
}

BOOST_AUTO_TEST_CASE(a_set_that_says_nothing_of_fits_has_no_line) {
  ComparedFile file;
  add(file, "a", "ddp", {number("step_time_s", 0.1)});
  BOOST_TEST(summarize_fits({file}).empty());
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
