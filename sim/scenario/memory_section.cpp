#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>

#include "config/fields.hpp"
#include "model/stages.hpp"
#include "scenario/adaptation_keys.hpp"
#include "scenario/section_keys.hpp"
#include "scenario/sections.hpp"

namespace rehearse::inline scenario {
namespace {

constexpr std::int64_t kMiB = 1024 * 1024;
constexpr std::int64_t kLargestSplitMb = 16 * kMiB;  ///< 16 TiB
/// PyTorch refuses less: its own large buffers have 20 MiB.
constexpr std::int64_t kLeastSplitMb = 21;

Fields<AllocatorSettings> allocator_fields() {
  using A = AllocatorSettings;
  const auto in_bytes = [](std::int64_t mebibytes) { return mebibytes * kMiB; };
  return {silent("max_split_size_mb", &A::max_split_size,
                 form::integer(kLeastSplitMb, kLargestSplitMb).in("MiB").as(in_bytes),
                 "Larger blocks are not split."),
          field("expandable_segments", &A::expandable_segments,
                "Segments that grow instead of new ones."),
          field("roundup_power2_divisions", &A::roundup_power2_divisions, form::integer(0, 64),
                "Steps between powers of two that sizes are rounded to; 0: none."),
          field("memory_fraction", &A::memory_fraction, form::within(0.001, 1),
                "Share of the GPU's memory that the process may take."),
          silent("garbage_collection_threshold", &A::garbage_collection_threshold,
                 form::within(0.001, 1), "Share of that, above which idle blocks are given back.")};
}

void check_allocator(Map& map, AllocatorSettings& settings) {
  const std::int64_t divisions = settings.roundup_power2_divisions;
  if ((divisions & (divisions - 1)) != 0) {
    map.require("roundup_power2_divisions")
        .fail(fmt::format("expected a power of two; got {}", divisions));
  }
  if (settings.garbage_collection_threshold > 0 && !settings.memory_fraction) {
    map.at_key("garbage_collection_threshold")
        .fail("PyTorch collects nothing unless the process has its share of the memory",
              "set memory_fraction (torch.cuda.set_per_process_memory_fraction), too");
  }
}

Fields<Scenario> memory_fields() {
  using S = Scenario;
  return {
      field("device", &S::device,
            form::choice<TapeDevice>({{"cuda", TapeDevice::cuda}, {"cpu", TapeDevice::cpu}}),
            "Whose kernels and allocator are played.", "Rehearse")
          .otherwise("(cpu with a profile of a CPU, else cuda)"),
      field("cuda_context", &S::cuda_context,
            "What the context and libraries take besides: 1.3 GiB before CUDA 11.7.", "nvidia-smi")
          .otherwise("500MiB"),
      silent("allocator", &S::allocator, form::map(allocator_fields(), check_allocator),
             "Options of the caching allocator.")};
}

}  // namespace

std::vector<Key> memory_keys() { return keys_of(memory_fields()); }

void read_memory_section(const Value& value, Scenario& scenario) {
  Map map = value.as_map();
  read_fields(map, memory_fields(), scenario);
  if (!map.has("allocator") && scenario.device != TapeDevice::cpu)
    scenario.assumptions.emplace_back("memory.allocator = PyTorch's defaults");
  map.finish();
}

std::vector<bool> matching_units(const std::vector<Value>& patterns, const Model& model) {
  std::vector<bool> chosen(model.units.size(), false);
  std::vector<std::string> names;
  for (const Unit& unit : model.units) names.push_back(unit.name);
  for (const Value& value : patterns) {
    const std::string pattern = value.as_string();
    bool any = false;
    for (std::size_t u = 0; u < names.size(); ++u) {
      if (fnmatch(pattern.c_str(), names[u].c_str(), 0) != 0) continue;
      chosen[u] = any = true;
    }
    if (any) continue;
    const std::string near = nearest(pattern, names);
    value.fail(fmt::format("no unit is called \"{}\"", pattern),
               near.empty() ? fmt::format("the first is called \"{}\"", names.front())
                            : fmt::format("did you mean \"{}\"?", near));
  }
  return chosen;
}

void check_activation_offload(const Value& model, const Scenario& scenario) {
  if (!scenario.offloads_activations) return;
  const Value value = model.as_map().at_key("activation_offload");
  const auto& units = scenario.checkpointed;
  if (std::ranges::find(units, true) == units.end())
    value.fail("what goes to the host is the input of a unit that is computed once more",
               "add activation_checkpointing: per_unit");
  const auto& layout = scenario.strategy.layout;
  if (layout && (layout->mesh.pipeline > 1 || layout->expert_comm_overlap == true))
    value.fail("torchtune's hooks know one micro-batch at a time, and several are in flight",
               "activation_offload: none");
}

namespace {

/// Says what `recomputation` makes of each block.
void apply_recomputation(const Value& value, Recomputation recomputation, Scenario& scenario) {
  Model& model = scenario.model;
  if (model.captured)
    value.fail("a captured model recomputes what its code does",
               "per_unit; or capture it with torch.utils.checkpoint around its attention");
  if (!model.has_operator(OperatorKind::attention))
    value.fail(fmt::format("{} has no attention, which is what it recomputes", model.name),
               "per_unit");
  if (const std::string lacks = missing_module(model, recomputation); !lacks.empty())
    value.fail(fmt::format("{} has no {}", model.name, lacks), "leave it out");
  model = recomputing(std::move(model), recomputation);
  scenario.recomputation = std::move(recomputation);
}

/// torchtitan's option `op` of selective checkpointing, or Megatron-LM's of attention alone:
/// `selective` is whichever the framework calls so.
void read_selective(const Value& value, const std::string& policy, const Framework& framework,
                    Scenario& scenario) {
  const std::string own = framework.word("activation_checkpointing.selective");
  const std::string kind = policy == "selective" ? own : policy;
  if (policy == "selective")
    scenario.assumptions.emplace_back(
        own == "op" ? "model.activation_checkpointing: selective is op, as torchtitan's shipped "
                      "files have it; {modules: [core_attn]} is Megatron-LM's"
                    : "model.activation_checkpointing: selective is {modules: [core_attn]}, "
                      "Megatron-LM's; torchtitan's is op");
  Recomputation recomputation;
  if (kind == "op") recomputation.products = KeptProducts{};
  if (kind == "op_all") recomputation.products = KeptProducts{.every = 0};
  if (kind == "core_attn") recomputation.modules = {RecomputedModule::core_attn};
  apply_recomputation(value, std::move(recomputation), scenario);
}

/// Megatron-LM's recompute_modules.
void read_modules(const Value& list, Scenario& scenario) {
  Recomputation recomputation;
  const std::vector<std::string>& names = recomputed_module_names();
  for (const Value& one : list.as_list()) {
    const auto place = std::ranges::find(names, one.as_choice(names)) - names.begin();
    recomputation.modules.push_back(static_cast<RecomputedModule>(place));
  }
  if (recomputation.modules.empty())
    list.fail("expected at least one module", "activation_checkpointing: none");
  apply_recomputation(list, std::move(recomputation), scenario);
}

std::vector<bool> each(std::size_t every, const Model& model) {
  std::vector<bool> chosen(model.units.size(), false);
  for (std::size_t u = every - 1; u < chosen.size(); u += every) chosen[u] = true;
  return chosen;
}

/// torchtitan counts layers alone, from 1 on: of two the first is kept.
std::vector<bool> each_layer(std::size_t every, const Model& model) {
  std::vector<bool> chosen(model.units.size(), false);
  const std::vector<std::size_t> layers = counted_units(model);
  for (std::size_t l = every - 1; l < layers.size(); l += every) chosen[layers[l]] = true;
  return chosen;
}

/// Blocks of a chain or of a captured model; a mistake where the model has none.
std::int64_t layers_of(const Value& value, const Model& model) {
  const auto blocks = static_cast<std::int64_t>(counted_units(model).size());
  const bool repeats = model.captured && blocks < static_cast<std::int64_t>(model.units.size());
  if (model.layers == 0 && !repeats)
    value.fail(fmt::format("{} is no chain of like layers", model.name),
               "name its units by units: [...]");
  return value.as_integer(1, repeats ? blocks : model.layers);
}

/// Each unit; of a captured model each block, as PyTorch's checkpoint_wrapper is put around one.
std::vector<bool> every_unit(const Model& model) {
  if (model.captured) return each_layer(1, model);
  return std::vector<bool>(model.units.size(), true);
}

void read_policy(Map policy, Scenario& scenario) {
  const Model& model = scenario.model;
  if (const auto modules = policy.optional("modules")) {
    policy.finish();
    return read_modules(*modules, scenario);
  }
  std::vector<bool> chosen;
  if (const auto layers = policy.optional("layers")) {
    scenario.recomputed_layers = layers_of(*layers, model);
  } else if (const auto every = policy.optional("every_layer")) {
    // Of one block every second is none, as of torchtitan's.
    const std::int64_t count =
        model.layers == 1 ? every->as_integer(1, 2) : layers_of(*every, model);
    chosen = each_layer(static_cast<std::size_t>(count), model);
  } else if (const auto units = policy.optional("units")) {
    chosen = matching_units(units->as_list(), model);
  } else if (policy.has("every") || policy.keys().empty()) {
    const auto count = static_cast<std::int64_t>(model.units.size());
    chosen = each(static_cast<std::size_t>(policy.require("every").as_integer(1, count)), model);
  }
  policy.finish();
  scenario.checkpointed = std::move(chosen);
}

/// The framework's data says which of a chain of like layers are checkpointed where nobody else
/// does.
std::optional<Value> policy_of(Framework& framework, const Model& model) {
  const std::string key = "model.activation_checkpointing";
  const std::optional<std::string> own = framework.find(key);
  if (!own || model.layers == 0) return std::nullopt;
  framework.note(key);
  return Document::parse(*own, fmt::format("platforms/frameworks/{}.yaml", framework.name()))
      ->root();
}

}  // namespace

void read_checkpointing(Map& map, Framework& framework, Scenario& scenario) {
  // Around a compiled block a checkpoint runs the whole graph again. In torchtitan it is inside of
  // what is compiled, whose backward has no more than it needs.
  const std::string early = framework.word("activation_checkpointing.early_stop");
  const bool compiled =
      scenario.model.compile == Compile::blocks || scenario.model.compile == Compile::whole;
  scenario.early_stop = early != "false" && (early != "eager" || !compiled);
  if (const auto offload = map.optional("activation_offload"))
    scenario.offloads_activations = offload->as_choice({"none", "cpu"}) == "cpu";
  const std::string key = "activation_checkpointing";
  const std::vector<std::string> names = {"none", "per_unit", "selective", "op", "op_all"};
  std::optional<Value> value = map.has(key) ? map.optional(key) : std::nullopt;
  if (!value) value = policy_of(framework, scenario.model);
  if (value && value->is_map()) return read_policy(value->as_map(), scenario);
  const std::string policy = value ? value->as_choice(names) : map.choice_or(key, "none", names);
  if (policy == "per_unit") scenario.checkpointed = every_unit(scenario.model);
  if (policy != "none" && policy != "per_unit") read_selective(*value, policy, framework, scenario);
}

void apply_recomputed_layers(Scenario& scenario) {
  if (scenario.recomputed_layers == 0) return;
  std::vector<UnitRange> parts = {{0, scenario.model.units.size()}};
  std::string why_not;
  if (const auto& layout = scenario.strategy.layout)
    parts =
        split_into_stages(scenario.model, static_cast<std::size_t>(order_of(*layout).stage_count()),
                          layout->split, why_not);
  scenario.checkpointed = first_blocks(scenario.model, parts, scenario.recomputed_layers);
}

}  // namespace rehearse::inline scenario
