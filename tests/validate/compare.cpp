#include "validation/compare.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <thread>

#include "fixtures.hpp"
#include "report/work.hpp"
#include "validation/facets.hpp"
#include "validation/views.hpp"

using namespace fixtures;
namespace data = boost::unit_test::data;

BOOST_AUTO_TEST_SUITE(compare_test)
namespace {

/// Cases of the same recorded run, by their names.
CaseFile recorded_cases(const std::vector<std::string>& names) {
  const Scratch folder;
  folder.write("run.json", step_report().dump());
  std::string text = "source: somewhere\ncases:\n";
  for (const std::string& name : names) {
    text += "  - {name: " + name + ", scenario: s.yaml, recorded: run.json}\n";
  }
  return read_case_file(folder.write("cases.yaml", text));
}

const ComparedMetric& find(const ComparedCase& compared, const std::string& metric) {
  for (const ComparedMetric& one : compared.metrics) {
    if (one.metric == metric) return one;
  }
  throw std::runtime_error("no " + metric);
}

BOOST_AUTO_TEST_CASE(errors_are_relative_for_times_and_absolute_for_staleness) {
  const ComparedCase one = compare(recorded_cases({"a"}).cases[0], toy_report().dump());
  BOOST_TEST(one.strategy == "ps asp");
  BOOST_TEST(find(one, "step_time_s").error == -0.2, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(find(one, "staleness.mean").error == 0.25);  // 1.25 where 1 was measured
  BOOST_TEST(find(one, "staleness.ks").error == 0.25);    // at most 1: 0.5 and 0.75
  BOOST_TEST(find(one, "memory.allocated_peak_bytes").error == 0);
  BOOST_TEST(find(one, "memory.allocated_peak_bytes").group == "cases, memory");
}

BOOST_AUTO_TEST_CASE(intervals_are_those_of_the_report_where_it_has_them) {
  nlohmann::json with = toy_report();
  with["step_time_interval_s"] = {0.1, 0.9};  // the spread of steps is no interval
  with["intervals"] = {{"step_time_s", {0.25, 0.35}}, {"staleness.mean", {1.1, 1.5}}};
  const ComparedCase one = compare(recorded_cases({"a"}).cases[0], with.dump());
  BOOST_TEST(*find(one, "step_time_s").inside());  // 0.35: the end belongs to it
  BOOST_TEST(!*find(one, "staleness.mean").inside());
  BOOST_TEST(!find(one, "memory.allocated_peak_bytes").inside().has_value());
  with.erase("intervals");
  const ComparedCase without = compare(recorded_cases({"a"}).cases[0], with.dump());
  BOOST_TEST(!find(without, "step_time_s").interval.has_value());
}

struct Other {
  const char* key;
  nlohmann::json value;
  const char* said;
};
std::ostream& operator<<(std::ostream& stream, const Other& other) { return stream << other.key; }

const std::vector<Other> kOthers = {
    {"strategy", "ddp", "the scenario's strategy is ddp, that of the recorded run ps-async"},
    {"strategy", "ps ssp 2", "the scenario's strategy is ps-ssp"},
    {"model", "resnet50", "model is resnet50, that of the recorded run toy"},
    {"precision", "bf16", "precision is bf16"},
    {"batch_per_gpu", 4, "batch per GPU is 4, that of the recorded run 8"},
    {"ranks", 3, "number of ranks is 3, that of the recorded run 2"},
};

BOOST_DATA_TEST_CASE(runs_of_different_things_are_not_compared, data::make(kOthers), other) {
  nlohmann::json changed = toy_report();
  changed[other.key] = other.value;
  BOOST_CHECK_EXCEPTION(compare(recorded_cases({"a"}).cases[0], changed.dump()), InputError,
                        [&](const InputError& error) {
                          const std::string text = error.what();
                          return text.find(other.said) != std::string::npos &&
                                 text.find("cases.yaml:3:") != std::string::npos;
                        });
}

struct Faceted {
  const char* what;
  nlohmann::json changes;
  Facets facets;
};
std::ostream& operator<<(std::ostream& stream, const Faceted& one) { return stream << one.what; }

const nlohmann::json kOnA100 = {{{"gpu", "A100-SXM-80"}}};
const nlohmann::json kTorch = {{"title", "PyTorch"}};

const std::vector<Faceted> kFaceted = {
    {"servers", {{"work", "servers"}}, {"CPUs", "", "servers"}},
    {"one", {{"work", "one GPU"}, {"compute", kOnA100}}, {"A100", "", "one GPU"}},
    {"card",
     {{"work", "one GPU"}, {"compute", {{{"gpu", "RTX-4090"}}}}},
     {"RTX-4090", "", "one GPU"}},
    {"unknown",
     {{"work", "layouts"}, {"compute", {{{"gpu", "AMD EPYC"}}}}},
     {"CPUs", "", "layouts"}},
    {"nodes",
     {{"work", "replicas on nodes"}, {"framework", kTorch}},
     {"CPUs", "PyTorch", "replicas on nodes"}},
};

BOOST_DATA_TEST_CASE(a_report_tells_what_a_scoreboard_sums_it_up_by, data::make(kFaceted), one) {
  nlohmann::json report = toy_report("ddp");
  report.update(one.changes);
  BOOST_TEST((facets_of(report) == one.facets));
}

struct Sorted {
  const char* scenario;
  WorkKind work;
};
std::ostream& operator<<(std::ostream& stream, const Sorted& one) { return stream << one.scenario; }

const std::vector<Sorted> kSorted = {
    {"cluster: {use: dgx_a100, nodes: 1, gpus_per_node: 1}\nstrategy: {ddp: {}}\n"
     "model: {use: gpt2, batch_per_gpu: 1}\n",
     WorkKind::one_gpu},
    {"cluster: {use: dgx_a100, nodes: 1}\nstrategy: {ddp: {}}\n"
     "model: {use: gpt2, batch_per_gpu: 1}\n",
     WorkKind::replicas_in_node},
    {"cluster: {use: dgx_a100, nodes: 2}\nstrategy: {fsdp: {}}\n"
     "model: {use: gpt2, batch_per_gpu: 1}\n",
     WorkKind::replicas_on_nodes},
    {"cluster: {use: dgx_a100, nodes: 2}\nstrategy: {ps: {servers: 1}}\n"
     "model: {use: gpt2, batch_per_gpu: 1}\n",
     WorkKind::servers},
    {"cluster: {use: dgx_a100, nodes: 1}\nstrategy: {ddp: {}, tensor_parallel: 2}\n"
     "model: {use: gpt2, batch_per_gpu: 1}\n",
     WorkKind::layouts},
    {"cluster: {use: dgx_h100, nodes: 1}\nstrategy: {fsdp: {}}\n"
     "model: {use: qwen3_30b_a3b, sequence: 512, batch_per_gpu: 1}\n",
     WorkKind::experts},
    {"cluster: {use: dgx_h100, nodes: 1}\nstrategy: {fsdp: {}}\n"
     "model: {use: llama_3_8b, sequence: 512, batch_per_gpu: 1, precision: bf16_pure,\n"
     "        lora: {rank: 16, alpha: 32, targets: [all_linear]}}\n",
     WorkKind::adapters},
};

BOOST_DATA_TEST_CASE(a_training_is_of_the_first_sort_that_it_is, data::make(kSorted), one) {
  const Scenario scenario = read_scenario(*Document::parse(one.scenario, "s.yaml"));
  BOOST_TEST(to_string(work_of(scenario)) == std::string(to_string(one.work)));
}

BOOST_AUTO_TEST_CASE(a_report_without_the_metric_is_an_error) {
  nlohmann::json changed = toy_report();
  changed.erase("memory");
  BOOST_CHECK_THROW(compare(recorded_cases({"a"}).cases[0], changed.dump()), InputError);
}

/// Predictions that end in another order than they began, one of which fails.
std::string predict(const ValidationCase& one) {
  std::this_thread::sleep_for(std::chrono::milliseconds(one.name == "a" ? 20 : 1));
  if (one.name == "b") throw StuckError("s.yaml: error: it waits\nfor what never comes");
  return toy_report().dump();
}

BOOST_AUTO_TEST_CASE(a_case_that_fails_leaves_the_others_alone) {
  const Validation validation = compare({recorded_cases({"a", "b", "c"})}, predict, 2, nullptr);
  const std::vector<ComparedCase>& cases = validation.at(0).cases;
  BOOST_TEST(cases[0].failure.empty());
  BOOST_TEST(cases[1].metrics.empty());
  BOOST_TEST(cases[2].metrics.size() == 4u);
  BOOST_CHECK_EXCEPTION(throw_failures(validation), Error, [](const Error& error) {
    return error.code() == ExitCode::stuck &&
           error.what() == std::string("case \"b\": s.yaml: error: it waits\nfor what never comes");
  });
}

BOOST_DATA_TEST_CASE(the_table_is_the_same_whatever_the_jobs, data::make({2, 3, 8}), jobs) {
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  const std::vector<CaseFile> files = {recorded_cases(names), recorded_cases({"a"})};
  const std::string one_by_one = to_json(compare(files, predict, 1, nullptr));
  BOOST_TEST(to_json(compare(files, predict, static_cast<std::size_t>(jobs), nullptr)) ==
             one_by_one);
}

BOOST_AUTO_TEST_CASE(progress_counts_all_cases_of_all_files) {
  std::vector<std::string> told;
  compare({recorded_cases({"a"}), recorded_cases({"c", "d"})}, predict, 2,
          [&](std::size_t done, std::size_t all) {
            told.push_back(std::to_string(done) + "/" + std::to_string(all));
          });
  BOOST_TEST(told == (std::vector<std::string>{"1/3", "2/3", "3/3"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(nothing_fails_where_nothing_failed) {
  throw_failures(compare({recorded_cases({"a"})}, predict, 1, nullptr));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
