// What the interval of a step consists of, beside simulations of the same step with a part of its
// times longer.
#include "predict/intervals/mechanisms.hpp"

#include <fmt/format.h>

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/child_process.hpp"
#include "base/data_folder.hpp"
#include "config/document.hpp"
#include "predict/headline_run.hpp"
#include "predict/predict.hpp"
#include "report/common_errors.hpp"
#include "scenario/scenario.hpp"

namespace rehearse {
namespace {
BOOST_AUTO_TEST_SUITE(interval_mechanisms)

namespace data = boost::unit_test::data;

constexpr double kMore = 1.02;  ///< so many times as long

Scenario scenario_named(const std::string& name) {
  const auto document = Document::load(data_folder() / "scenarios" / (name + ".yaml"));
  return solved(read_scenario(*document->with_overrides(
      {"run.jitter=none", "run.speed_spread=0", "run.steps=1", "run.warmup_steps=1"})));
}

struct Told {
  double step = 0, kernels = 0, exchanges = 0, host = 0, waiting = 0;
};

Told told_of(const Scenario& scenario) {
  const std::string text = in_child_process([&] {
    const Prediction prediction = predict(scenario, {.find_largest_batch = false});
    nlohmann::json json = {{"step", prediction.report.step_time.value()}};
    for (const Mechanism& one : prediction.report.mechanisms) {
      const bool beside = one.name == "machine and software" || one.name == kOwnError ||
                          one.name == "experts" || one.name == "adapters";
      const char* const part = one.name.starts_with("exchanges")            ? "exchanges"
                               : one.name == "waiting"                      ? "waiting"
                               : one.name.find("host") != std::string::npos ? "host"
                                                                            : "kernels";
      if (!beside) json[part] = json.value(part, 0.0) + one.share;
    }
    return json.dump();
  });
  const auto json = nlohmann::json::parse(text);
  return {json["step"], json.value("kernels", 0.0), json.value("exchanges", 0.0),
          json.value("host", 0.0), json.value("waiting", 0.0)};
}

/// d ln(step) / d ln(times) of what `change` makes kMore times as long.
template <class Change>
double derivative(const Scenario& scenario, double step, const Change& change) {
  const double longer = std::stod(in_child_process([&] {
    Machine machine = machine_of(scenario);
    change(machine);
    return std::to_string(1e6 * simulated_headline(scenario, machine).step_time.value());
  }));
  return std::log(longer / 1e6 / step) / std::log(kMore);
}

void slow_compute(Machine& machine) {
  for (Program& program : machine.schedule.programs)
    for (Op& op : program.ops)
      if (auto* compute = std::get_if<Compute>(&op.work); compute && op.phase != Phase::host)
        compute->duration *= kMore;
}

BOOST_DATA_TEST_CASE(shares_are_what_a_slower_part_costs,
                     data::make({"p5_llama7b_fsdp", "p5_llama3_70b_tp8_pp4", "qlora_one_gpu",
                                 "hopper_convnext_ddp", "dgx_gpt2_pipeline"}),
                     name) {
  const Scenario scenario = scenario_named(name);
  const Told told = told_of(scenario);
  BOOST_TEST(told.kernels + told.exchanges + told.host == 1, boost::test_tools::tolerance(1e-9));
  // A pipeline's idle time is not all waiting in proportion.
  const double exact = derivative(scenario, told.step, slow_compute);
  BOOST_TEST(std::abs(told.kernels - exact) < (told.waiting > 0.05 ? 0.04 : 0.003),
             told.kernels << " of " << exact);
}

std::vector<Mechanism> mechanisms_with(const std::vector<std::string>& changes) {
  const auto document = Document::load(data_folder() / "scenarios/p5_llama7b_fsdp.yaml");
  const Scenario scenario = solved(read_scenario(*document->with_overrides(changes)));
  const auto json = nlohmann::json::parse(in_child_process([&] {
    nlohmann::json all;
    for (const Mechanism& one : predict(scenario, {.find_largest_batch = false}).report.mechanisms)
      all.push_back({one.name, one.share, one.error});
    return all.dump();
  }));
  std::vector<Mechanism> mechanisms;
  for (const auto& one : json) mechanisms.push_back({one[0], one[1], one[2]});
  return mechanisms;
}

double squares_of(const std::vector<Mechanism>& mechanisms, bool own) {
  double sum = 0;
  for (const Mechanism& one : mechanisms)
    if ((one.name == kOwnError) == own) sum += one.width() * one.width();
  return sum;
}

// Of the same step, measured once, the shared variance S becomes S - S^2 / (S + own^2).
BOOST_AUTO_TEST_CASE(a_measured_step_takes_what_it_shares) {
  const std::string alike = "run.speed_spread=0";
  const std::vector<Mechanism> before = mechanisms_with({alike});
  std::string shares;
  for (const Mechanism& one : before)
    shares += fmt::format("{}\"{}\": {:.17g}", shares.empty() ? "" : ", ", one.name, one.share);
  const std::vector<Mechanism> after =
      mechanisms_with({alike, "cluster.measured_steps=[{" + shares + "}]"});
  const double shared = squares_of(before, false), own = squares_of(before, true);
  BOOST_TEST(squares_of(after, true) == own, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(squares_of(after, false) == shared - shared * shared / (shared + own),
             boost::test_tools::tolerance(1e-9));
}

// How fast its kind is said to be is no difference among GPUs.
BOOST_AUTO_TEST_CASE(a_slow_kind_of_gpu_is_no_unlike_one) {
  const auto widest = [](const std::vector<Mechanism>& all) {
    return std::ranges::find(all, std::string("unlike GPUs"), &Mechanism::name)->width();
  };
  BOOST_TEST(widest(mechanisms_with({"cluster.speed=0.5"})) ==
                 widest(mechanisms_with({"cluster.speed=1"})),
             boost::test_tools::tolerance(0.01));
}

// Each byte of a peak, and of all that is taken, belongs to one mechanism.
BOOST_DATA_TEST_CASE(shares_of_memory_are_whole,
                     data::make({"p5_llama7b_fsdp", "p5_llama3_70b_tp8_pp4", "qlora_one_gpu"}),
                     name) {
  const Scenario scenario = scenario_named(name);
  const std::string text = in_child_process([&] {
    const Report report = predict(scenario, {.find_largest_batch = false}).report;
    const auto whole = [](const std::vector<Mechanism>& mechanisms) {
      double shares = 0;
      for (const Mechanism& one : mechanisms)
        if (!one.name.starts_with("this ") && !one.name.starts_with("all ")) shares += one.share;
      return shares;
    };
    return nlohmann::json{whole(report.memory_mechanisms.allocated),
                          whole(report.memory_mechanisms.used)}
        .dump();
  });
  const auto json = nlohmann::json::parse(text);
  BOOST_TEST(json[0].get<double>() == 1, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(json[1].get<double>() == 1, boost::test_tools::tolerance(1e-9));
}

// A captured network's kernels that no curve is of are taken at the memory bandwidth.
BOOST_AUTO_TEST_CASE(kernels_beyond_measurements_widen_the_interval) {
  const auto document = Document::load(data_folder() / "scenarios/captured/dit_xl_2.yaml")
                            ->with_overrides({"run.efficiency={host_launch: 0us}"});
  const Scenario scenario = solved(read_scenario(*document));
  const StepCosts costs = group_costs(scenario).front();
  BOOST_REQUIRE(costs.outside_error > 0);
  const double found = std::stod(in_child_process([&] {
    for (const Mechanism& one : predict(scenario, {.find_largest_batch = false}).report.mechanisms)
      if (one.name == "kernels beyond measurements") return nlohmann::json(one.width()).dump();
    return std::string("0");
  }));
  BOOST_TEST(found == costs.outside_error, boost::test_tools::tolerance(0.05));
}

// GPT-2 has 76 modules with parameters: in each of 12 blocks two norms and four products, two
// embeddings, a norm and the head. Its host is launching all the time with hooks so slow.
BOOST_AUTO_TEST_CASE(hooks_of_zero_3_stand_at_each_module_with_parameters) {
  const auto step_with = [](int milliseconds) {
    const auto document = Document::parse(
        fmt::format("model: {{use: gpt2, batch_per_gpu: 1, precision: bf16_master}}\n"
                    "cluster: {{use: aws_p5, nodes: 1}}\n"
                    "framework: deepspeed\n"
                    "strategy: {{zero: {{stage: 3, module_hook: {}ms}}}}\n"
                    "run: {{jitter: none, speed_spread: 0, steps: 1, warmup_steps: 1}}\n",
                    milliseconds),
        "hooks");
    return told_of(solved(read_scenario(*document))).step;
  };
  constexpr double kPasses = 2, kModules = 76;
  BOOST_CHECK_CLOSE_FRACTION(step_with(3) - step_with(1), kPasses * kModules * 2e-3, 1e-6);
}

// As recorded 20 of 100 ms: 1.2 and 1/1.2 times the step. Three hosts on two cores have 1.5 times
// as many threads on each. Four ranks on two cores of a node's own compute twice as long, which is
// not played.
BOOST_AUTO_TEST_CASE(threads_that_stood_ready_as_recorded_widen_the_interval) {
  const Headline best{.step_time = Seconds(2), .samples_per_s = 8, .staleness = {}};
  Cluster cluster;
  cluster.groups.resize(1);
  cluster.groups.front().nodes = 2;
  cluster.groups.front().node.gpus = 1;
  BOOST_TEST(!run_queue_source(cluster, best, 0.5, 0.1));
  cluster.shared_cores = 2;
  cluster.run_queue = {.ready = Seconds(0.02), .step = Seconds(0.1), .ranks = 2, .cores = 2};
  const auto check = [&](double low, double high, double ready = 0) {
    const auto source = run_queue_source(cluster, best, 0.5, ready);
    BOOST_REQUIRE(source);
    BOOST_CHECK_CLOSE_FRACTION(source->low.step_time.value(), 2 * low, 1e-12);
    BOOST_CHECK_CLOSE_FRACTION(source->high.step_time.value(), 2 * high, 1e-12);
    BOOST_CHECK_CLOSE_FRACTION(source->high.samples_per_s, 8 / high, 1e-12);
  };
  check(1 / 1.2, 1.2);
  cluster.groups.front().nodes = 3;
  check(1 / 1.3, 1.3);
  const double both = 1 + std::hypot(0.3, kReadyError * 0.25);
  check(1 / both, both, 0.25);
  cluster.groups.front().nodes = 1;
  check(1 / 1.2, 1.2);
  cluster.shared_cores.reset();
  cluster.groups.front().node.gpus = 4;
  check(1 / 1.4, 1.4 + 0.5);
  cluster.run_queue->ready = Seconds(0);
  check(1, 1.5);
  cluster.groups.front().node.gpus = 2;
  BOOST_TEST(!run_queue_source(cluster, best, 0.5, 0));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace
}  // namespace rehearse
