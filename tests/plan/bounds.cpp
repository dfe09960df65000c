// Bounds of real scenarios hold for what their simulations say.
#include "planner/scenario_bounds.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/child_process.hpp"
#include "base/data_folder.hpp"
#include "study/simulator.hpp"

namespace data = boost::unit_test::data;

namespace rehearse {
namespace {

using Json = nlohmann::json;

constexpr double kRounding = 1e-9;

std::vector<std::string> shipped_scenarios() {
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(data_folder() / "scenarios")) {
    if (file.path().extension() == ".yaml") files.push_back(file.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

BOOST_DATA_TEST_CASE(a_bound_holds_for_the_simulation, data::make(shipped_scenarios()), file) {
  const auto document = Document::load(file)->with_overrides(
      {"run.steps=2", "run.warmup_steps=1", "train={samples_per_epoch: 1000000, epochs: 1}"});
  const Bound bound = bound_of(*document, "p 1");
  BOOST_TEST_REQUIRE(bound.error == "");
  const Json report =
      Json::parse(in_child_process([&] { return quick_simulator().predict(*document); }));
  const Figures figures = figures_of(report);
  for (const auto& [metric, best] : bound.best) {
    if (!figures.contains(metric)) continue;
    const Estimate<double>& figure = figures.at(metric);
    BOOST_TEST_CONTEXT(info(metric).key) {
      if (metric == Metric::memory) {
        BOOST_TEST(figure.value == best.value);
        // Its interval is that of `run`'s verdict.
        const Json& needed = report.at("memory").at("needed_interval_bytes");
        if (needed.is_array()) BOOST_TEST(figure.high == needed.at(1).get<double>());
        continue;
      }
      const double slack = kRounding * std::abs(best.value);
      BOOST_TEST(badness(metric, best.value) <= badness(metric, figure.value) + slack);
      BOOST_TEST(best_end(metric, best) <= best_end(metric, figure) + slack);
    }
  }
  BOOST_TEST(report.at("global_batch").get<double>() == bound.best.at(Metric::global_batch).value);
}

BOOST_AUTO_TEST_CASE(one_gpu_that_sends_nothing_is_bounded_by_its_own_time) {
  const auto document =
      Document::load(data_folder() / "scenarios/toy_ddp.yaml")->with_overrides({"cluster.nodes=1"});
  const Bound bound = bound_of(*document, "p 1");
  const Json report =
      Json::parse(in_child_process([&] { return quick_simulator().predict(*document); }));
  BOOST_TEST(bound.best.at(Metric::step_time).value == report.at("step_time_s").get<double>(),
             boost::test_tools::tolerance(kRounding));
}

}  // namespace
}  // namespace rehearse
