#include "convergence/loss_law.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/error.hpp"
#include "rows.hpp"
#include "scratch.hpp"

using namespace rehearse;

BOOST_AUTO_TEST_SUITE(loss_law)
namespace {

double law(double n, double d) {
  return 1.8 + 400 * std::pow(n, -0.34) + 2000 * std::pow(d, -0.37);
}

std::map<std::string, std::vector<LossRun>> open_runs() {
  std::map<std::string, std::vector<LossRun>> sets;
  for (const char* source : {"mlfoundations", "formll"})
    for (const Row& row : rows_of(source))
      sets[row.at("task") + ", " + row.at("method")].push_back(
          {number(row, "parameters"), number(row, "tokens"), number(row, "value")});
  return sets;
}

}  // namespace

BOOST_AUTO_TEST_CASE(runs_of_such_a_law_give_it_back) {
  std::vector<LossRun> runs;
  for (const double n : {30e6, 100e6, 300e6, 1e9})
    for (const double each : {10.0, 20.0, 60.0}) runs.push_back({n, each * n, law(n, each * n)});
  const LossLaw fitted(runs);
  for (const double n : {50e6, 2e9})
    BOOST_TEST(fitted.loss(n, 20 * n).value == law(n, 20 * n), boost::test_tools::tolerance(0.01));
}

BOOST_AUTO_TEST_CASE(intervals_grow_with_compute) {
  std::vector<LossRun> runs;
  for (const double n : {30e6, 100e6, 300e6}) {
    runs.push_back({n, 20 * n, law(n, 20 * n)});
    runs.push_back({n, 60 * n, law(n, 60 * n)});
  }
  const LossLaw fitted(runs);
  const auto width = [&](double times) {
    const double most = 300e6 * 60 * 300e6, tokens = 20 * std::sqrt(times * most / 20);
    const Estimate<double> loss = fitted.loss(tokens / 20, tokens);
    return std::log(loss.high / loss.value);
  };
  BOOST_TEST(width(1) < width(10));
  BOOST_TEST(width(10) >= 0.03);
  BOOST_TEST(width(100) >= 0.06);
  BOOST_TEST(fitted.refusal_of(3e9, 600e9).value() ==
             "333 times the compute of the largest run: 100 times at most");
}

BOOST_AUTO_TEST_CASE(one_size_says_nothing_of_another) {
  std::vector<LossRun> runs;
  for (const double d : {2e9, 4e9, 8e9, 16e9}) runs.push_back({100e6, d, law(100e6, d)});
  const LossLaw fitted(runs);
  BOOST_TEST(!fitted.by_parameters());
  BOOST_TEST(!fitted.refusal_of(100e6, 30e9));
  BOOST_TEST(fitted.refusal_of(200e6, 16e9).value() ==
             "all runs have 100M parameters, which say nothing of 200M");
  BOOST_TEST(fitted.slope(8e9) > 0);
}

BOOST_AUTO_TEST_CASE(a_loss_that_rises_is_no_law) {
  const auto says = [](const char* what) {
    return [what](const InputError& wrong) { return std::string(wrong.what()).find(what) == 0; };
  };
  std::vector<LossRun> runs = {{1e8, 2e9, 3.2}, {2e8, 2e9, 3.1}, {1e8, 8e9, 3.4}, {2e8, 8e9, 3.3}};
  BOOST_CHECK_EXCEPTION(LossLaw{runs}, InputError, says("their loss rises with tokens, by 6.4 %"));
  runs = {{1e8, 2e9, 3.1}, {2e8, 2e9, 3.3}, {1e8, 8e9, 3.0}, {2e8, 8e9, 3.2}};
  BOOST_CHECK_EXCEPTION(LossLaw{runs}, InputError, says("their loss rises with parameters"));
  // Noise of a per cent is none.
  runs = {{1e8, 2e9, 3.1}, {2e8, 2e9, 3.0}, {1e8, 8e9, 3.11}, {2e8, 8e9, 3.01}};
  BOOST_CHECK_NO_THROW(LossLaw{runs});
}

BOOST_AUTO_TEST_CASE(seven_is_not_seven_billion) {
  std::vector<LossRun> runs;
  for (const double n : {30e6, 100e6})
    for (const double each : {10.0, 20.0}) runs.push_back({n, each * n, law(n, each * n)});
  const LossLaw fitted(runs);
  BOOST_TEST(fitted.refusal_of(7, 1e9).value() ==
             "7 parameters are less than a thousandth of the smallest run's 30M: did you mean 7M?");
  BOOST_TEST(fitted.refusal_of(1e8, 2).value() ==
             "2 tokens are less than a thousandth of the smallest run's 300M: did you mean 2B?");
  BOOST_TEST(!fitted.refusal_of(1e6, 1e9));
}

BOOST_AUTO_TEST_CASE(too_few_runs_are_refused) {
  const std::vector<LossRun> three(3, {1e8, 2e9, 3});
  BOOST_CHECK_EXCEPTION(LossLaw{three}, InputError, [](const auto& wrong) {
    return std::string(wrong.what()) == "3 runs say too little of a loss: four are the fewest";
  });
  const std::vector<LossRun> alike(4, {1e8, 2e9, 3});
  BOOST_CHECK_THROW(LossLaw{alike}, InputError);
}

// Public sets of runs, of which the smallest tenth or hundredth of compute is fitted.
BOOST_AUTO_TEST_CASE(larger_runs_lie_in_the_interval) {
  double held = 0, count = 0;
  for (auto& [name, runs] : open_runs()) {
    double most = 0;
    for (const LossRun& run : runs) most = std::max(most, run.parameters * run.tokens);
    for (const double part : {10.0, 30.0, 100.0}) {
      std::vector<LossRun> small;
      for (const LossRun& run : runs)
        if (run.parameters * run.tokens <= most / part) small.push_back(run);
      if (small.size() < 4) continue;
      const LossLaw fitted(small);
      double own = 0, all = 0, worst = 0;
      for (const LossRun& run : runs) {
        const double ratio = fitted.compute_ratio(run.parameters, run.tokens);
        if (ratio <= 1.01 || fitted.refusal_of(run.parameters, run.tokens)) continue;
        const Estimate<double> loss = fitted.loss(run.parameters, run.tokens);
        own += loss.low <= run.loss && run.loss <= loss.high ? 1 : 0;
        worst = std::max(worst, std::abs(std::log(loss.value / run.loss)));
        ++all;
      }
      BOOST_TEST_MESSAGE(
          fmt::format("{:<60} 1/{:<4} {:2} fitted: {:2.0f} of {:2.0f} held, worst "
                      "{:.1f} %",
                      name.substr(0, 60), part, small.size(), own, all, 100 * worst));
      held += own;
      count += all;
    }
  }
  BOOST_TEST_MESSAGE(fmt::format("held {:.0f} of {:.0f}", held, count));
  BOOST_TEST(held >= 0.85 * count);
}

BOOST_AUTO_TEST_CASE(runs_are_read_with_suffixes_and_refused_at_their_line) {
  const Scratch folder;
  const auto file = folder.path() / "runs.csv";
  std::ofstream(file) << "tokens,loss,parameters,note\n3B, 3.2 ,150M,a\n20000000000,2.5,1B,b\n";
  const std::vector<LossRun> runs = read_loss_runs(file);
  BOOST_TEST(runs.size() == 2);
  BOOST_TEST(runs[0].parameters == 150e6);
  BOOST_TEST(runs[0].tokens == 3e9);
  BOOST_TEST(runs[1].loss == 2.5);
  std::ofstream(file) << "tokens,loss,parameters\n3B,-1,150M\n";
  BOOST_CHECK_EXCEPTION(read_loss_runs(file), InputError, [&](const auto& wrong) {
    return std::string(wrong.what()) ==
           file.string() +
               ":2: error: loss: expected a number above 0\nremedy: columns "
               "parameters,tokens,loss; such as 150M,3B,3.21";
  });
}

BOOST_AUTO_TEST_SUITE_END()
