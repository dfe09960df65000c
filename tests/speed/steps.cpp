// Wall time and peak memory of one simulated training step, beside the raw SimGrid flows that it
// consists of. Usage: bench_steps [repetitions]. Every measurement runs in a process of its own.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>

#include "base/child_process.hpp"
#include "base/error.hpp"
#include "engine/bond.hpp"
#include "engine/collective_table.hpp"
#include "engine/engine.hpp"
#include "predict/predict.hpp"
#include "raw_flows.hpp"

namespace rehearse::speed {
namespace {

struct Case {
  const char* name;
  const char* model;
  const char* strategy;
};

constexpr Case kCases[] = {
    {"DDP ResNet50", "{use: resnet50, batch_per_gpu: 64, precision: tf32}",
     "{ddp: {algorithm: ring}}"},
    {"DDP, 50 all-reduces", nullptr, "{ddp: {algorithm: ring}}"},
    {"FSDP Llama-7B", "{use: llama_7b, batch_per_gpu: 1, precision: bf16_pure, sequence: 2048}",
     "{fsdp: {algorithm: ring}}"},
};

// Fifty units whose gradients fill a bucket each.
std::string fifty_units() {
  std::string units;
  for (int i = 0; i < 50; ++i)
    units += fmt::format(
        "{{name: u{}, parameters: 6553600, forward: 1ms, backward: 2ms, activation: 1MiB}}, ", i);
  return fmt::format("{{name: fifty, batch_per_gpu: 1, optimizer_time: 1ms, units: [{}]}}", units);
}

Scenario scenario_of(const Case& which, int ranks, const std::string& fidelity) {
  const std::string text = fmt::format(
      "model: {}\nstrategy: {}\noptimizer: {{adamw: {{}}}}\n"
      "cluster: {{use: dgx_a100, nodes: {}, comm_profile: none}}\n"
      "run: {{steps: 1, warmup_steps: 0, fidelity: {}}}\n",
      which.model ? std::string(which.model) : fifty_units(), which.strategy, ranks / 8, fidelity);
  return read_scenario(*Document::parse(text, "bench"));
}

struct Measured {
  double seconds = 0, megabytes = 0;
  std::uint64_t flows = 0;
  std::size_t collectives = 0;
};

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// The scenario's step, from the scenario to the trace; and its flows without anything around them.
Measured measure(const Case& which, int ranks, const std::string& fidelity, bool raw) {
  const std::string text = in_child_process([&] {
    const Scenario scenario = scenario_of(which, ranks, fidelity);
    const auto begin = std::chrono::steady_clock::now();
    const auto elapsed = [&begin] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    const Machine machine = machine_of(scenario);
    if (!raw) {
      const Trace trace = run(machine);
      const double seconds = elapsed();
      return fmt::format("{} {} {} 0", seconds, peak_megabytes(), trace.traffic.flows);
    }
    const Cluster cluster = with_bonded_nics(machine.schedule, machine.cluster);
    Plans plans(machine.schedule, cluster, machine.cluster, machine);
    const CollectiveTable table(machine.schedule, plans);
    std::map<Port, std::uint32_t> ports;
    std::vector<std::vector<RawFlow>> batches;
    std::uint64_t flows = 0;
    for (std::uint32_t id = 0; id < table.size(); ++id) {
      const FlowPlan& played = table.planned(id).plan->plan;
      std::vector<std::size_t> level(played.flows.size(), 0);
      const std::size_t first = batches.size();
      for (std::size_t i = 0; i < played.flows.size(); ++i) {
        const auto& flow = played.flows[i];
        for (std::uint32_t k = flow.after_begin; k < flow.after_end; ++k)
          level[i] = std::max(level[i], level[played.after[k]] + 1);
        const auto index = [&ports](const Port& port) {
          return ports.emplace(port, static_cast<std::uint32_t>(ports.size())).first->second;
        };
        if (batches.size() < first + level[i] + 1) batches.resize(first + level[i] + 1);
        batches[first + level[i]].push_back(
            {index(flow.source), index(flow.target), table.planned(id).size.value() * flow.share});
        ++flows;
      }
    }
    const auto start = std::chrono::steady_clock::now();
    std::vector<double> rates(ports.size());
    for (const auto& [port, index] : ports) rates[index] = port_bandwidth(cluster, port).value();
    play_raw_flows(rates, batches);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return fmt::format("{} {} {} {}", seconds, peak_megabytes(), flows, table.size());
  });
  Measured result;
  std::sscanf(text.c_str(), "%lf %lf %lu %lu", &result.seconds, &result.megabytes, &result.flows,
              &result.collectives);
  return result;
}

Measured median_of(int repetitions, const Case& which, int ranks, const std::string& fidelity,
                   bool raw) {
  std::vector<Measured> all;
  all.reserve(static_cast<std::size_t>(repetitions));
  for (int i = 0; i < repetitions; ++i) all.push_back(measure(which, ranks, fidelity, raw));
  std::nth_element(all.begin(), all.begin() + repetitions / 2, all.end(),
                   [](const Measured& a, const Measured& b) { return a.seconds < b.seconds; });
  return all[static_cast<std::size_t>(repetitions / 2)];
}

void print_table(int repetitions) {
  fmt::print(
      "| step | ranks | fidelity | collectives | flows | wall s | peak MB | raw flows s | ratio |\n"
      "|---|---:|---|---:|---:|---:|---:|---:|---:|\n");
  for (const Case& which : kCases) {
    for (const int ranks : {8, 64, 256, 1024, 4096}) {
      for (const std::string fidelity : {"hop", "flow", "folded"}) {
        // Steps of a ring grow with the square of its ranks.
        if (fidelity == "hop" && ranks > 256) continue;
        const Measured ours = median_of(repetitions, which, ranks, fidelity, false);
        const Measured raw = median_of(repetitions, which, ranks, fidelity, true);
        fmt::print("| {} | {} | {} | {} | {} | {:.3f} | {:.0f} | {:.3f} | {:.2f} |\n", which.name,
                   ranks, fidelity, raw.collectives, ours.flows, ours.seconds, ours.megabytes,
                   raw.seconds, ours.seconds / raw.seconds);
        std::fflush(stdout);
      }
    }
  }
}

}  // namespace
}  // namespace rehearse::speed

int main(int argc, char** argv) {
  const int repetitions = argc > 1 ? std::atoi(argv[1]) : 3;
  if (repetitions < 1) {
    fmt::print(stderr, "usage: bench_steps [repetitions]\n");
    return 2;
  }
  try {
    rehearse::speed::print_table(repetitions);
  } catch (const rehearse::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.code());
  }
}
