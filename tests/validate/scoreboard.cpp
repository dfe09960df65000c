#include "validation/scoreboard.hpp"

#include <boost/test/unit_test.hpp>

#include "fixtures.hpp"
#include "validation/views.hpp"

using namespace fixtures;

BOOST_AUTO_TEST_SUITE(scoreboard_test)
namespace {

const auto kTolerance = boost::test_tools::tolerance(1e-12);

const Facets kLayouts{"H100", "Megatron-LM", "layouts"}, kOne{"A100", "PyTorch", "one GPU"};

void add_case(ComparedFile& file, const Facets& of, ComparedMetric metric, bool held_out = true) {
  add(file, "case " + std::to_string(file.cases.size()), "ddp", {std::move(metric)}, held_out);
  file.cases.back().facets = of;
}

/// Five layouts with errors of -10 to 10 %, one of them outside of its interval of +- 8 %; and one
/// GPU's two rates and peaks.
ComparedFile played() {
  ComparedFile file;
  file.file.name = "rows";
  file.file.relation = Relation::left_out;
  for (const double error : {-0.1, -0.05, 0.0, 0.05, 0.1}) {
    const double best = 1 + error;
    add_case(file, kLayouts, number("step_time_s", error, Ends<double>{best / 1.08, best * 1.08}));
  }
  add_case(file, kOne, number("samples_per_s", 1.0));
  add_case(file, kOne, number("memory.used_bytes", 0.5));
  return file;
}

BOOST_AUTO_TEST_CASE(a_line_tells_errors_bias_coverage_and_width) {
  const Scoreboard board = scoreboard_of({played()});
  BOOST_REQUIRE(board.time.lines.size() == 3u);
  const ScoreLine& layouts = board.time.lines[0];
  BOOST_TEST((layouts.of == kLayouts));
  BOOST_TEST(layouts.cases == 5u);
  BOOST_TEST(layouts.mean == 0.06, kTolerance);
  BOOST_TEST(layouts.median == 0.05, kTolerance);
  BOOST_TEST(layouts.p90 == 0.1, kTolerance);
  BOOST_TEST(layouts.most == 0.1, kTolerance);
  BOOST_TEST(layouts.bias + 1 == 1.0, kTolerance);
  BOOST_TEST(layouts.coverage.inside == 3u);
  BOOST_TEST(layouts.coverage.intervals == 5u);
  BOOST_TEST(layouts.half_width.value() == 0.08, kTolerance);
  // Every width is 2 ln 1.08; the first lies ln(1 / 0.972) above its end, the last ln(1.1 / 1.08)
  // below.
  const double beyond = std::log(1 / (0.9 * 1.08)) + std::log(1.1 / 1.08);
  BOOST_TEST(layouts.score.value() == 2 * std::log(1.08) + 20 * beyond / 5, kTolerance);
}

BOOST_AUTO_TEST_CASE(a_rate_that_is_too_high_is_a_time_that_is_too_short) {
  const ScoreLine few = scoreboard_of({played()}).time.lines[1];
  BOOST_TEST(few.of.gpu == "others");
  BOOST_TEST(few.bias == -0.5, kTolerance);
}

BOOST_AUTO_TEST_CASE(the_last_line_is_of_all_gpus_and_memory_has_its_own) {
  const Scoreboard board = scoreboard_of({played()});
  BOOST_TEST(board.time.lines.back().of.gpu == "all");
  BOOST_TEST(board.time.lines.back().cases == 6u);
  BOOST_TEST(board.memory.lines.back().cases == 1u);
  BOOST_TEST(board.memory.lines.back().mean == 0.5, kTolerance);
}

BOOST_AUTO_TEST_CASE(small_lines_of_a_gpu_are_one) {
  ComparedFile file;
  for (const char* work : {"one GPU", "layouts", "experts"})
    for (int i = 0; i < 2; ++i) add_case(file, {"H200", "PyTorch", work}, number("step_time_s", 0));
  const Scoreboard board = scoreboard_of({file});
  BOOST_REQUIRE(board.time.lines.size() == 2u);
  BOOST_TEST((board.time.lines[0].of == Facets{"H200", "others", "others"}));
  BOOST_TEST(board.time.lines[0].cases == 6u);
}

BOOST_AUTO_TEST_CASE(cpus_have_a_line_beside_those_of_gpus) {
  ComparedFile file = played();
  add_case(file, {"CPUs", "PyTorch", "servers"}, number("step_time_s", 0.2));
  const Scoreboard board = scoreboard_of({file});
  BOOST_TEST(board.time.cpus.value().mean == 0.2, kTolerance);
  BOOST_TEST(board.time.lines.back().cases == 6u);
}

BOOST_AUTO_TEST_CASE(inputs_do_not_count) {
  ComparedFile file = played();
  add_case(file, kLayouts, number("step_time_s", 9), false);
  BOOST_TEST(scoreboard_of({file}).time.lines[0].cases == 5u);
}

BOOST_AUTO_TEST_CASE(sets_are_summed_up_by_what_the_fits_know_of_them) {
  ComparedFile unseen = played();
  unseen.file.name = "new rows";
  unseen.file.relation = Relation::never_seen;
  const auto lines = scoreboard_of({played(), unseen}).relations;
  BOOST_REQUIRE(lines.size() == 2u);
  BOOST_TEST((lines[0].relation == Relation::never_seen));
  BOOST_TEST(lines[0].sets.front() == "new rows");
  BOOST_TEST(lines[0].time.cases == 6u);
  BOOST_TEST(lines[1].memory.cases == 1u);
}

BOOST_AUTO_TEST_CASE(outliers_are_outside_of_their_intervals_the_farthest_first) {
  const auto outliers = scoreboard_of({played()}).outliers;
  BOOST_REQUIRE(outliers.size() == 2u);
  BOOST_TEST(outliers[0].name == "case 0");  // ln 0.9 is farther than ln 1.1
  BOOST_TEST(outliers[0].error == -0.1, kTolerance);
}

BOOST_AUTO_TEST_CASE(the_page_has_a_line_for_each_and_says_what_the_fits_saw) {
  BOOST_TEST(
      to_scoreboard({played()}, false) ==
      R"(6 times are 13.3 % off on average, 7.5 % in the median; 60 % are inside their 90 % intervals, whose score is 0.34. 1
peak of memory is 50.0 % off on average, 50.0 % in the median.

time on  framework    strategy  cases    mean  median     p90    most     bias  inside  half-width  score
H100     Megatron-LM  layouts       5   6.0 %   5.0 %  10.0 %  10.0 %   +0.0 %    60 %     ± 8.0 %   0.34
others   others       others        1  50.0 %  50.0 %  50.0 %  50.0 %  -50.0 %       -           -      -
all      all          all           6  13.3 %   7.5 %  50.0 %  50.0 %   -8.3 %    60 %     ± 8.0 %   0.34

memory on  framework  strategy  cases    mean  median     p90    most     bias  inside  half-width  score
others     others     others        1  50.0 %  50.0 %  50.0 %  50.0 %  +50.0 %       -           -      -
all        all        all           1  50.0 %  50.0 %  50.0 %  50.0 %  +50.0 %       -           -      -

the fits and these rows  times    mean    bias  inside  half-width  memory of    mean     bias  inside  half-width
left out                     6  13.3 %  -8.3 %    60 %     ± 8.0 %          1  50.0 %  +50.0 %       -           -

Score: the mean of an interval's width in ln and 20 times what lies beyond its ends.
left out: rows.
`rehearse validate SET` shows a set's cases, groups and 90 % intervals.
)");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
