// A calibrated machine whose times are round: what goes in as measured unit times comes out as a
// step that can be worked out by hand.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/child_process.hpp"
#include "base/data_folder.hpp"
#include "predict/predict.hpp"
#include "schedule/jitter.hpp"
#include "view/views.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(calibrated_test)
namespace {

const std::filesystem::path kScenario = data_folder() / "tests/data/calibrated/scenario.yaml";

nlohmann::json report_of(const std::vector<std::string>& overrides) {
  return nlohmann::json::parse(in_child_process(
      [&] { return to_json(predict(read_scenario(kScenario, overrides)).report); }));
}

double step_of(const std::vector<std::string>& overrides) {
  return report_of(overrides).at("step_time_s").get<double>();
}

bool contains(const nlohmann::json& lines, const std::string& text) {
  return std::any_of(lines.begin(), lines.end(), [&](const nlohmann::json& line) {
    return line.get<std::string>().find(text) != std::string::npos;
  });
}

const auto kExact = boost::test_tools::tolerance(1e-9);

/// 4.5 ms forward, 9 ms backward and 0.25 ms for SGD, at a batch of 8.
constexpr double kForward = 4.5e-3, kBackward = 9e-3, kOptimizer = 0.25e-3;

/// 100 us, and 1 GB/s of busbw, which two ranks' all_reduce moves once.
double all_reduce(double parameters) { return 100e-6 + parameters * 4 / 1e9; }
constexpr double kHead = 1290 + 524416, kStem = 896 + 18496;
/// Reading and writing the gradients once, at 0.85 of 10 GB/s.
double copy(double parameters) { return 2 * parameters * 4 / 8.5e9; }
/// No bucket has to be emptied.
const std::string kViews = "strategy={ddp: {gradient_as_bucket_view: true}}";

BOOST_AUTO_TEST_CASE(one_gpu_takes_the_sum_of_its_units) {
  const std::string one = "cluster.gpus_per_node=1";
  BOOST_TEST(step_of({one}) == kForward + kBackward + kOptimizer, kExact);
  // Batch 12 lies halfway to 16: 8 ms forward and 16 ms backward.
  BOOST_TEST(step_of({one, "model.batch_per_gpu=12"}) ==
                 (kForward + 8e-3) / 2 + (kBackward + 16e-3) / 2 + kOptimizer,
             kExact);
  BOOST_TEST(step_of({one, "optimizer={adam: {}}"}) == kForward + kBackward + 1e-3, kExact);
  BOOST_TEST(step_of({one, "cluster.speed=0.5"}) == 2 * (kForward + kBackward + kOptimizer),
             kExact);
}

BOOST_AUTO_TEST_CASE(ddp_on_two_hides_all_but_the_last_bucket) {
  // The first bucket of 1 MiB holds both linear layers; its all_reduce ends before the rest of
  // backward does.
  const double filled = kForward + kBackward + copy(kHead) + copy(kStem);
  const std::string plain = "run.overlap_slowdown=1";
  BOOST_TEST(step_of({plain, kViews}) == filled + all_reduce(kStem) + kOptimizer, kExact);
  // Emptying it takes longer than the other one's all_reduce, beside which it begins.
  BOOST_REQUIRE_LT(all_reduce(kStem), copy(kHead));
  BOOST_TEST(step_of({plain}) == filled + copy(kHead) + copy(kStem) + kOptimizer, kExact);
}

BOOST_AUTO_TEST_CASE(compute_and_a_collective_slow_each_other_down_as_measured) {
  // All of the first bucket's all_reduce is beside compute and takes 1.5 times as long for it, and
  // compute 1.25 times as long meanwhile; nothing is beside the last.
  const double step =
      kForward + kBackward + copy(kHead) + copy(kStem) + all_reduce(kStem) + kOptimizer;
  const nlohmann::json report = report_of({kViews});
  BOOST_TEST(
      report.at("step_time_s").get<double>() == step + 1.5 * all_reduce(kHead) * (1 - 1 / 1.25),
      kExact);
  BOOST_TEST(
      report.at("breakdown").at("hidden_communication_s").get<double>() == 1.5 * all_reduce(kHead),
      kExact);
  BOOST_TEST(contains(report.at("assumptions"), "run.overlap_slowdown = measured (hand)"));
  // What the scenario says wins.
  const nlohmann::json said = report_of({kViews, "run.overlap_slowdown=2"});
  BOOST_TEST(said.at("step_time_s").get<double>() == step + all_reduce(kHead) / 2, kExact);
  BOOST_TEST(!contains(said.at("assumptions"), "run.overlap_slowdown"));
}

BOOST_AUTO_TEST_CASE(the_report_names_the_profile_and_what_lies_outside_it) {
  const nlohmann::json inside = report_of({});
  BOOST_TEST(inside.at("provenance").get<std::string>().find("compute: measured (") == 0U);
  BOOST_TEST(inside.at("provenance")
                 .get<std::string>()
                 .find("compute/small_cnn_fp32.yaml); "
                       "communication: measured (hand)") != std::string::npos);
  BOOST_TEST(inside.at("outside_calibration").empty());
  BOOST_TEST(!contains(inside.at("assumptions"), "roofline"));
  const nlohmann::json outside = report_of({"model.batch_per_gpu=32"});
  BOOST_TEST(contains(outside.at("outside_calibration"), "compute: batch 32 from batches 8 to 16"));
  const nlohmann::json computed = report_of({"model.costs=analytic"});
  BOOST_TEST(computed.at("provenance").get<std::string>().find("compute: datasheet") == 0U);
  BOOST_TEST(contains(computed.at("assumptions"), "compute: each operator takes "));
}

BOOST_AUTO_TEST_CASE(a_model_that_is_a_profiles_costs_what_it_measured) {
  const std::filesystem::path file = kScenario.parent_path() / "compute/small_cnn_fp32.yaml";
  const std::string model = "model={profile: " + file.string() + ", batch_per_gpu: 8}";
  const nlohmann::json report = report_of({model});
  BOOST_TEST(report.at("step_time_s").get<double>() == step_of({}), kExact);
  BOOST_TEST(report.at("model") == "small_cnn");
  BOOST_TEST(report.at("mfu").is_null());
  const auto largest = [](const nlohmann::json& of) {
    return of.at("memory").at("largest_batch_per_gpu").get<std::int64_t>();
  };
  BOOST_TEST(largest(report) > 1000);  // by the saved bytes that were measured: it has no tape
  // It was measured on a CPU.
  BOOST_TEST(report.at("memory").at("context_bytes") == 0);
  BOOST_TEST(!contains(report.at("assumptions"), "CUDA"));
}

/// ln of the upper end of the step time's interval over the step time.
double upper(const std::vector<std::string>& overrides) {
  const nlohmann::json report = report_of(overrides);
  return std::log(report.at("intervals").at("step_time_s").at(1).get<double>() /
                  report.at("step_time_s").get<double>());
}

BOOST_AUTO_TEST_CASE(each_reason_to_doubt_widens_the_interval) {
  const std::vector<std::string> one{"cluster.gpus_per_node=1"};
  const auto with = [&](const std::string& setting) {
    std::vector<std::string> settings = one;
    settings.push_back(setting);
    return upper(settings);
  };
  const double measured = upper(one);
  BOOST_TEST(measured > 0.1);                             // a CPU's drift between sessions
  BOOST_TEST(with("model.batch_per_gpu=12") > measured);  // between two batches
  BOOST_TEST(with("model.batch_per_gpu=32") > with("model.batch_per_gpu=12"));
  BOOST_TEST(with("model.batch_per_gpu=64") > with("model.batch_per_gpu=32"));
  BOOST_TEST(with("optimizer={sgd_momentum: {}}") > measured);
  BOOST_TEST(with("model.costs=analytic") > measured);
  BOOST_TEST(upper({"cluster.comm_profile=none"}) > upper({}));
  BOOST_TEST(contains(report_of({"cluster.comm_profile=none"}).at("outside_calibration"),
                      "communication: NCCL's model"));
}

BOOST_AUTO_TEST_CASE(measured_jitter_draws_what_the_profile_and_the_cores_say) {
  const auto made = [](std::vector<std::string> overrides) {
    overrides.emplace_back("run.jitter=measured");
    return make_schedule(read_scenario(kScenario, overrides));
  };
  const Schedule schedule = made({});
  BOOST_TEST((schedule.jitter.distribution == Jitter::Distribution::measured));
  BOOST_TEST(schedule.jitter.least_spread == 0);
  int units = 0;
  for (const Op& op : schedule.programs.front().ops) {
    const auto* compute = std::get_if<Compute>(&op.work);
    if (compute == nullptr || op.phase == Phase::optimizer || op.label().starts_with("copy"))
      continue;
    BOOST_TEST(compute->spread == 0.01);
    ++units;
  }
  BOOST_TEST(units == 8);
  const Jitter busy = made({"cluster.shared_cores=4",
                            "cluster.busy_cores={slowdown: 1.2, spread: 0.3, drift: 0.06}"})
                          .jitter;
  BOOST_TEST(busy.least_spread == 0.3);
  BOOST_TEST(busy.drift == 0.06);
  const std::string none = "jitter: no spread of any operation was measured";
  BOOST_TEST(!contains(report_of({"run.jitter=measured"}).at("outside_calibration"), none));
  BOOST_TEST(contains(
      report_of({"run.jitter=measured", "model.costs=analytic"}).at("outside_calibration"), none));
}

BOOST_AUTO_TEST_CASE(one_measured_step_is_as_much_in_doubt_as_its_jitter) {
  const auto doubt = [](const std::string& jitter) {
    const nlohmann::json report = report_of({"run.steps=1", "cluster.gpus_per_node=1", jitter});
    return std::log(report.at("intervals").at("step_time_s")[1].get<double>() /
                    report.at("step_time_s").get<double>());
  };
  const Scenario scenario =
      read_scenario(kScenario, {"run.jitter=measured", "cluster.gpus_per_node=1"});
  const double by_chance = 1.6449 * std::sqrt(2) * compute_variation(make_schedule(scenario));
  BOOST_TEST(by_chance > 0);
  BOOST_TEST(doubt("run.jitter=measured") == std::hypot(doubt("run.jitter=none"), by_chance),
             kExact);
}

BOOST_AUTO_TEST_CASE(on_one_gpu_compute_alone_is_in_doubt_both_ways_alike) {
  const nlohmann::json one = report_of({"cluster.gpus_per_node=1"});
  const double step = one.at("step_time_s").get<double>();
  const auto ends = one.at("intervals").at("step_time_s");
  BOOST_TEST(ends[0].get<double>() * ends[1].get<double>() == step * step, kExact);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
