#include "explain/recorded_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>

#include "base/error.hpp"
#include "config/document.hpp"
#include "measured/measured.hpp"

namespace rehearse::inline explanation {
namespace {

namespace fs = std::filesystem;

/// PyTorch's names of types, as traces have them, by ours.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kTypes = {
    {{"float", "fp32"},
     {"Float", "fp32"},
     {"double", "fp64"},
     {"c10::BFloat16", "bf16"},
     {"BFloat16", "bf16"},
     {"c10::Half", "fp16"},
     {"Half", "fp16"}}};

std::string type_of(const std::string& word) {
  const auto* const found = std::ranges::find(kTypes, word, &decltype(kTypes)::value_type::first);
  return found == kTypes.end() ? word : std::string(found->second);
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream words(text);
  std::vector<std::string> all;
  for (std::string word; words >> word;) all.push_back(word);
  return all;
}

/// "fp32[16,64]" for each input whose shape is known.
std::vector<std::string> reads_of(const RecordedKernel& kernel) {
  std::vector<std::string> shapes = words_of(kernel.shapes);
  const std::vector<std::string> types = words_of(kernel.types);
  for (std::size_t i = 0; i < std::min(shapes.size(), types.size()); ++i)
    shapes[i] = type_of(types[i]) + shapes[i];
  return shapes;
}

std::string without_space(std::string name) {
  constexpr std::string_view kSpace = "aten::";
  return name.starts_with(kSpace) ? name.substr(kSpace.size()) : name;
}

/// The batch that `record.yaml` says; 0 where it is unknown.
std::int64_t recorded_batch(const fs::path& file) {
  if (!fs::exists(file)) return 0;
  Map record = Document::load(file)->root().as_map();
  const auto run = record.optional("run");
  if (!run) return 0;
  const Value batch = run->as_map().require("batch_per_rank");
  return batch.as_string() == "unknown" ? 0 : batch.as_integer(1, 1LL << 40);
}

}  // namespace

std::optional<KernelTable> recorded_kernel_table(const Scenario& scenario) {
  if (scenario.cost_sources.empty() || !scenario.cost_sources.front()) return std::nullopt;
  const fs::path folder = fs::path(scenario.cost_sources.front()->file).parent_path();
  if (!fs::exists(folder / "kernels.csv")) return std::nullopt;
  const std::int64_t batch = recorded_batch(folder / "record.yaml");
  if (batch != 0 && batch != scenario.batch_per_gpu)
    throw InputError(
        fmt::format("{}: error: --kernels: kernels were recorded at a batch of {}; got {}\n"
                    "remedy: --set model.batch_per_gpu={}, or record that batch",
                    scenario.file, batch, scenario.batch_per_gpu, batch));
  const int parts = gradient_accumulation(scenario.strategy).value_or(1);
  KernelTable table{.scenario = scenario.file,
                    .model = scenario.model.name,
                    .gpu = scenario.cluster.groups.front().node.gpu.name,
                    .precision = to_string(scenario.precision),
                    .batch = scenario.batch_per_gpu,
                    .is_recorded = true};
  for (const RecordedKernel& one : read_recorded_kernels(folder / "kernels.csv")) {
    if (one.pass == "optimizer") continue;
    KernelRow row{
        .op = without_space(one.op.empty() ? one.name : one.op),
        .pass = one.pass == "backward" ? KernelPass::backward : KernelPass::forward,
        .reads = reads_of(one),
        .calls = one.calls / parts,
        .cost = {.time = one.time / parts, .ground = CostGround::measured, .from = "record"}};
    if (!one.op.empty()) row.cost.from = one.name;
    table.calls += row.calls;
    table.time += row.cost.time;
    table.rows.push_back(std::move(row));
  }
  for (KernelRow& row : table.rows)
    row.share = table.time > Seconds(0) ? row.cost.time / table.time : 0;
  const std::vector<StepCosts> costs = group_costs(scenario);
  for (const UnitCost& unit : costs.front().units) table.units_time += unit.forward + unit.backward;
  std::ranges::stable_sort(table.rows, std::ranges::greater{},
                           [](const KernelRow& row) { return row.cost.time; });
  return table;
}

}  // namespace rehearse::inline explanation
