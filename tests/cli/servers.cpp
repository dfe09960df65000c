// Parameter servers whose rate nobody gives: what reports say of them, and that `run` and `explain`
// say the same. The first two scenarios are of public questions: ResNet-50 on the eight P100s of a
// DGX-1, where TensorFlow's servers on the CPU cost little, and VGG-16 on two nodes of eight V100s.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "base/child_process.hpp"
#include "engine/engine.hpp"
#include "explain/explanation.hpp"
#include "predict/predict.hpp"
#include "report/anatomy.hpp"
#include "report/measures.hpp"
#include "report/run_facts.hpp"
#include "view/views.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(servers_test)
namespace {

namespace data = boost::unit_test::data;
using Json = nlohmann::json;

const std::string kOnCpu = R"(
model: {use: resnet50, batch_per_gpu: 32, precision: fp32, measured: {samples_per_s: 200, gpus: 1}}
cluster:
  nodes: 1
  node:
    gpus: 8
    gpu: {name: P100, fp32: 10.6TFLOPs, memory: 15.9GiB, memory_bandwidth: 732GBps}
    nvlink: 80GBps
    pcie: 12GBps
strategy: {ps: {servers: 1, server_host: worker, staleness: 0, layerwise: true}}
optimizer: {sgd: {}}
)";

const std::string kEveryGpu = R"(
model: {use: vgg16, batch_per_gpu: 32, precision: fp32, measured: {samples_per_s: 100, gpus: 1}}
cluster:
  nodes: 2
  node: {gpus: 8, gpu: V100-SXM2-32, nvlink: 150GBps, pcie: 12GBps, nic: 100Gbps, nic_latency: 3us}
strategy: {ps: {servers: 2, server_host: worker, staleness: 0, layerwise: true}}
optimizer: {sgd: {}}
)";

const std::string kTcp = R"(
model: {use: vgg16, batch_per_gpu: 64, precision: fp32, measured: {samples_per_s: 130.9, gpus: 1}}
cluster:
  nodes: 4
  node:
    gpus: 4
    gpu: {name: P100, fp32: 9.3TFLOPs, memory: 15.9GiB, memory_bandwidth: 732GBps}
    pcie: 12GBps
    nic: 25Gbps
    nic_latency: 25us
strategy: {ps: {staleness: 0}}
optimizer: {sgd_momentum: {}}
)";

Scenario read(const std::string& text, const std::vector<std::string>& overrides) {
  const auto document = Document::parse(text, "servers.yaml");
  return read_scenario(overrides.empty() ? *document : *document->with_overrides(overrides));
}

Json report_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return Json::parse(
      in_child_process([&] { return to_json(predict(read(text, overrides)).report); }));
}

double rate_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return report_of(text, overrides).at("samples_per_s").get<double>();
}

bool mentions(const Json& lines, const std::string& what) {
  return std::ranges::any_of(lines, [&](const Json& line) {
    return line.get<std::string>().find(what) != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(a_rate_that_follows_from_the_host_is_named_and_in_the_interval) {
  const Json report = report_of(kOnCpu);
  const std::string rate =
      "24.0 GB/s (4.00 GB/s to 52.0 GB/s) of gradients, by 4 threads in its host's memory";
  BOOST_TEST(mentions(report.at("outside_calibration"),
                      "server: apply rate from its host alone, " + rate));
  BOOST_TEST(mentions(report.at("assumptions"), "strategy.ps.apply_rate = " + rate));
  const Json bounds = report.at("intervals").at("samples_per_s");
  // With 2 GB/s, a tenth of what the host does, the run took three times as long.
  BOOST_TEST(report.at("samples_per_s").get<double>() > 1400);
  BOOST_TEST(bounds.at(0).get<double>() < 1000);
  BOOST_TEST(bounds.at(1).get<double>() > 1500);
  const Json given = report_of(kOnCpu, {"strategy.ps.apply_rate=24GBps"});
  BOOST_TEST(!mentions(given.at("outside_calibration"), "server"));
  BOOST_TEST(given.at("intervals").at("samples_per_s").at(0).get<double>() >
             1.3 * bounds.at(0).get<double>());
}

BOOST_AUTO_TEST_CASE(a_slower_host_gives_no_faster_run) {
  double before = 0;
  for (const char* memory : {"1GBps", "5GBps", "20GBps", "100GBps", "400GBps"}) {
    const double rate = rate_of(kOnCpu, {std::string("cluster.node.host_bandwidth=") + memory});
    BOOST_TEST(rate >= before * 0.999);
    before = rate;
  }
  BOOST_TEST(rate_of(kOnCpu, {"cluster.node.cores=1"}) <= 1.001 * rate_of(kOnCpu));
}

BOOST_AUTO_TEST_CASE(nodes_that_sum_before_they_push_need_less_of_the_server) {
  const std::string sum = "strategy.ps.aggregate=node";
  // One machine alone does about 750 images/s.
  BOOST_TEST(rate_of(kEveryGpu, {sum, "cluster.nodes=1"}) > 700);
  const Json by_gpu = report_of(kEveryGpu), by_node = report_of(kEveryGpu, {sum});
  BOOST_TEST(by_node.at("samples_per_s").get<double>() >
             1.2 * by_gpu.at("samples_per_s").get<double>());
  BOOST_TEST(by_node.at("strategy") == "ps bsp, by node");
}

BOOST_AUTO_TEST_CASE(what_messages_cost_a_cpu_can_be_said) {
  // Sixteen workers' gradients, and as many parameters, go through the server at 1.3 GB/s.
  const double bytes = 2.0 * 16 * 138357544 * 4;
  BOOST_TEST(rate_of(kTcp, {"strategy.ps.server_cpu_rate=1.3GBps"}) < 1024 / (bytes / 1.3e9));
  BOOST_TEST(rate_of(kTcp, {"strategy.ps.worker_cpu_rate=0.05GBps"}) < rate_of(kTcp));
}

BOOST_AUTO_TEST_CASE(messages_between_nodes_take_their_cpus_by_default) {
  const Json usual = report_of(kEveryGpu, {"strategy.ps.aggregate=node"});
  const std::string rates = " = 2.80 GB/s (1.12 GB/s to 7.03 GB/s), as of servers between nodes";
  for (const char* key : {"strategy.ps.worker_cpu_rate", "strategy.ps.server_cpu_rate"})
    BOOST_TEST(mentions(usual.at("assumptions"), key + rates));
  BOOST_TEST(
      mentions(report_of(kTcp).at("assumptions"), "strategy.ps.server_cpu_rate = 1.40 GB/s"));
  const Json given =
      report_of(kEveryGpu, {"strategy.ps.aggregate=node", "strategy.ps.worker_cpu_rate=2.8GBps",
                            "strategy.ps.server_cpu_rate=2.8GBps"});
  BOOST_TEST(given.at("samples_per_s").get<double>() == usual.at("samples_per_s").get<double>(),
             boost::test_tools::tolerance(1e-9));
  BOOST_TEST(given.at("intervals").at("samples_per_s").at(0).get<double>() >
             usual.at("intervals").at("samples_per_s").at(0).get<double>());
  // Inside a node messages go through its memory.
  BOOST_TEST(!mentions(report_of(kOnCpu).at("assumptions"), "as of servers between nodes"));
}

const std::string kServersApart = R"(
model: {use: vgg16, batch_per_gpu: 32, precision: fp32, measured: {samples_per_s: 133, gpus: 1}}
cluster:
  groups:
    - {name: workers, nodes: 6, node: {gpus: 1, gpu: V100-SXM2-32, nic: 100Gbps}}
    - {name: servers, nodes: 4, node: {gpus: 0, nic: 100Gbps, cores: 16}}
strategy: {ps: {servers: 4, server_host: servers, staleness: 0, layerwise: true}}
optimizer: {sgd: {}}
)";

BOOST_AUTO_TEST_CASE(like_servers_on_nodes_of_their_own_are_played_as_one) {
  for (const char* staleness : {"0", "2", "unbounded"}) {
    for (const char* layerwise : {"true", "false"}) {
      const std::vector<std::string> both = {std::string("strategy.ps.staleness=") + staleness,
                                             std::string("strategy.ps.layerwise=") + layerwise,
                                             "run.stops=none"};  // each rank's own
      const auto rate = [&](const std::string& more) {
        std::vector<std::string> all = both;
        all.push_back(more);
        return rate_of(kServersApart, all);
      };
      const double flow = rate("run.fidelity=flow");
      BOOST_TEST_CONTEXT(staleness << " " << layerwise)
      BOOST_TEST(rate("run.fidelity=folded") == flow, boost::test_tools::tolerance(1e-6));
    }
  }
  const Json folded = report_of(kServersApart, {"run.fidelity=folded"});
  BOOST_TEST(folded.at("fidelity") == "folded (1 of 4 servers simulated)");
}

BOOST_AUTO_TEST_CASE(like_servers_beside_workers_are_nearly_played_as_one) {
  for (const char* staleness : {"0", "unbounded"}) {
    const std::vector<std::string> set = {"strategy.ps.aggregate=node", "cluster.nodes=6",
                                          "strategy.ps.servers=6",
                                          std::string("strategy.ps.staleness=") + staleness};
    const auto rate = [&](const std::string& more) {
      std::vector<std::string> all = set;
      all.push_back(more);
      return rate_of(kEveryGpu, all);
    };
    BOOST_TEST(rate("run.fidelity=folded") == rate("run.fidelity=flow"),
               boost::test_tools::tolerance(0.05));
  }
}

/// How long a worker waits for servers in a step, over the step, as either command has it.
std::pair<double, double> waits_for_server(const std::string& text,
                                           const std::vector<std::string>& overrides) {
  const Json both = Json::parse(in_child_process([&] {
    const Scenario scenario = read(text, overrides);
    Machine machine = machine_of(scenario);
    const Trace trace =
        run(machine, {.span_limit = 1'000'000, .enough = until_steady(scenario, machine.schedule)});
    const RunFacts facts{.scenario = scenario,
                         .schedule = machine.schedule,
                         .trace = trace,
                         .fidelity = "",
                         .provenance = "",
                         .assumptions = {},
                         .outside_calibration = {}};
    machine.comm.reset();
    const Explanation explanation = explain(facts, machine, headline(facts), {});
    const Anatomy anatomy =
        dissect(machine.schedule, trace, scenario.run.warmup_steps, machine.schedule.iterations);
    Seconds waits, steps;
    for (const RankSplit& rank : explanation.ranks) waits += rank.server, steps += rank.step;
    return Json{anatomy.waiting_for_server / anatomy.step, waits / steps}.dump();
  }));
  return {both.at(0).get<double>(), both.at(1).get<double>()};
}

BOOST_AUTO_TEST_CASE(run_and_explain_agree_on_how_long_a_server_is_waited_for) {
  const std::string slow = "strategy.ps.apply_rate=2GBps";
  // Messages that take no CPU, so that the queue holds the server's own work alone.
  const std::string worker = "strategy.ps.worker_cpu_rate=none";
  const std::string server = "strategy.ps.server_cpu_rate=none";
  for (const auto& [text, overrides] :
       std::vector<std::pair<std::string, std::vector<std::string>>>{{kOnCpu, {slow}},
                                                                     {kEveryGpu, {slow}},
                                                                     {kTcp, {slow, worker, server}},
                                                                     {kTcp, {worker, server}}}) {
    const auto [run, explained] = waits_for_server(text, overrides);
    BOOST_TEST(std::abs(run - explained) < 0.06);
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
