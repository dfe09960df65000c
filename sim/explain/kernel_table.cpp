#include "explain/kernel_table.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "explain/recorded_kernels.hpp"
#include "model/captured/played.hpp"

namespace rehearse::inline explanation {
namespace {

using Key = std::tuple<KernelPass, std::string, std::vector<std::string>, std::vector<std::string>>;

std::vector<std::string> texts(const std::vector<captured::Tensor>& tensors, double batch) {
  std::vector<std::string> all;
  all.reserve(tensors.size());
  for (const captured::Tensor& one : tensors) all.push_back(captured::to_string(one, batch));
  return all;
}

/// A time depends on these, and a row does not show them: how operands lie, and options.
std::vector<double> hidden(const captured::Kernel& kernel) {
  std::vector<double> all{kernel.backward ? 1.0 : 0.0};
  for (const auto* side : {&kernel.reads, &kernel.writes})
    for (const captured::Tensor& one : *side)
      all.push_back((one.strided ? 1 : 0) + (one.channels_last ? 2 : 0));
  for (const auto& [name, values] : kernel.options)
    all.insert(all.end(), values.begin(), values.end());
  return all;
}

/// Gathers calls that are alike: in rows, and of a row those that take as long as each other.
class Gatherer {
 public:
  explicit Gatherer(double batch) : batch_(batch) {}

  void add(const captured::Kernel& kernel, KernelPass pass,
           std::vector<std::pair<std::size_t, double>>& unit) {
    Key key{pass, kernel.name, texts(kernel.reads, batch_), texts(kernel.writes, batch_)};
    const auto [entry, is_new] = places_.try_emplace(std::move(key), rows_.size());
    const std::size_t place = entry->second;
    if (is_new)
      rows_.push_back({.op = kernel.name,
                       .pass = pass,
                       .reads = std::get<2>(entry->first),
                       .writes = std::get<3>(entry->first)});
    const auto [like, differs] = alike_.try_emplace({place, hidden(kernel)}, kernels_.size());
    if (differs) {
      kernels_.push_back(kernel);
      kernels_.back().calls = 0;
      row_of_.push_back(place);
    }
    kernels_[like->second].calls += kernel.calls;
    rows_[place].calls += kernel.calls;
    if (!unit.empty() && unit.back().first == place) {
      unit.back().second += kernel.calls;
    } else {
      unit.emplace_back(place, kernel.calls);
    }
  }

  const std::vector<captured::Kernel>& kernels() const { return kernels_; }
  /// The row of each kernel.
  const std::vector<std::size_t>& rows_of_kernels() const { return row_of_; }
  std::vector<KernelRow> take_rows() { return std::move(rows_); }

 private:
  double batch_;
  std::map<Key, std::size_t> places_;
  std::map<std::pair<std::size_t, std::vector<double>>, std::size_t> alike_;
  std::vector<captured::Kernel> kernels_;
  std::vector<std::size_t> row_of_;
  std::vector<KernelRow> rows_;
};

/// The longest first; units refer to rows by their new places.
void sort_rows(KernelTable& table) {
  std::vector<std::size_t> order(table.rows.size()), place(table.rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return table.rows[a].cost.time > table.rows[b].cost.time;
  });
  std::vector<KernelRow> rows;
  rows.reserve(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    place[order[i]] = i;
    rows.push_back(std::move(table.rows[order[i]]));
  }
  table.rows = std::move(rows);
  for (KernelUnit& unit : table.units)
    for (auto* pass : {&unit.forward, &unit.backward})
      for (auto& [row, calls] : *pass) row = place[row];
}

}  // namespace

std::string to_string(KernelPass pass) {
  switch (pass) {
    case KernelPass::forward:
      return "forward";
    case KernelPass::recomputed:
      return "recomputed";
    case KernelPass::backward:
      return "backward";
  }
  return "";
}

KernelTable kernel_table(const Scenario& scenario) {
  const Model& model = computed_model(scenario);
  const Node& node = scenario.cluster.groups.front().node;
  const Precision precision = compute_precision(scenario);
  const auto batch = static_cast<double>(scenario.batch_per_gpu);
  const auto units = captured::calls_of(model, {.precision = computed_in(precision),
                                                .batch = scenario.batch_per_gpu,
                                                .device = device_of(scenario)});
  const StepCosts costs = group_costs(scenario).front();
  const auto has_kernels = [](const captured::UnitCalls& unit) { return !unit.forward.empty(); };
  if (std::ranges::none_of(units, has_kernels)) {
    if (auto recorded = recorded_kernel_table(scenario)) return *std::move(recorded);
    throw InputError(
        scenario.file +
        ": error: --kernels: the model's units are given as times and sizes, which "
        "say nothing of their kernels; name a network (`use`, `hf`) or a captured one");
  }
  KernelTable table{.scenario = scenario.file,
                    .model = model.name,
                    .gpu = node.gpu.name,
                    .precision = to_string(scenario.precision),
                    .batch = scenario.batch_per_gpu};
  Gatherer gatherer(batch);
  for (std::size_t i = 0; i < units.size(); ++i) {
    KernelUnit& unit = table.units.emplace_back(KernelUnit{units[i].name});
    for (const captured::Kernel& one : units[i].forward)
      gatherer.add(one, KernelPass::forward, unit.forward);
    if (i < scenario.checkpointed.size() && scenario.checkpointed[i])
      for (const captured::Kernel& one : captured::run_again(units[i].forward))
        gatherer.add(one, KernelPass::recomputed, unit.backward);
    for (const captured::Kernel& one : units[i].backward)
      gatherer.add(one, KernelPass::backward, unit.backward);
  }
  std::vector<captured::Kernel> kernels = gatherer.kernels();
  const std::vector<std::size_t> row_of = gatherer.rows_of_kernels();
  table.rows = gatherer.take_rows();
  // What runs again takes as long as forward does.
  for (std::size_t i = 0; i < kernels.size(); ++i)
    kernels[i].backward = table.rows[row_of[i]].pass == KernelPass::backward;
  const auto timed = cost::kernel_costs(kernels, batch, node.gpu, computed_in(precision),
                                        scenario.run.efficiency, costs.grounds);
  for (std::size_t i = 0; i < timed.size(); ++i) {
    cost::KernelCost& row = table.rows[row_of[i]].cost;
    const cost::KernelCost before = std::exchange(row, timed[i]);
    row.time += before.time;
    row.bytes += before.bytes;
    row.flops += before.flops;
    table.calls += kernels[i].calls;
    table.flops += timed[i].flops;
    table.bytes += timed[i].bytes;
    table.time += timed[i].time;
  }
  for (KernelRow& row : table.rows)
    row.share = table.time > Seconds(0) ? row.cost.time / table.time : 0;
  for (std::size_t i = 0; i < costs.units.size(); ++i) {
    table.units_time += costs.units[i].forward + costs.units[i].backward;
    if (i < scenario.checkpointed.size() && scenario.checkpointed[i])
      table.units_time += costs.units[i].forward;
  }
  sort_rows(table);
  return table;
}

}  // namespace rehearse::inline explanation
