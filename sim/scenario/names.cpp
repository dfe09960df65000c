#include "scenario/names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/data_folder.hpp"
#include "cluster/cluster.hpp"
#include "cost/cost.hpp"
#include "cost/profile_library.hpp"
#include "model/hugging_face/derived_family.hpp"
#include "model/hugging_face/hugging_face.hpp"
#include "model/model.hpp"
#include "profile/comm_profile.hpp"
#include "strategy/strategy.hpp"

namespace rehearse::inline scenario {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

void append_comm_profiles(Rows& rows) {
  for (const auto& file : yaml_files(platforms_folder() / "profiles" / "comm")) {
    const CommProfile profile = read_comm_profile(Document::load(file)->root());
    rows.emplace_back(file.stem().string(),
                      fmt::format("{}, {} curves", profile.hardware, profile.curves.size()));
  }
}

std::string batches(const ComputeProfile& profile) {
  std::vector<std::int64_t> all;
  for (const BatchPoint& point : profile.points) all.push_back(point.batch);
  return fmt::format("{} {}", all.size() == 1 ? "batch" : "batches", fmt::join(all, ", "));
}

void append_compute_profiles(Rows& rows) {
  for (const auto& folder : folders(compute_profiles_folder())) {
    for (const auto& file : yaml_files(folder)) {
      const ComputeProfile profile = read_compute_profile(Document::load(file)->root());
      rows.emplace_back(
          (folder.filename() / file.stem()).string(),
          fmt::format("compute on {}: {} in {}, {}, {}", profile.origin.device, profile.model,
                      to_string(profile.precision), batches(profile), profile.origin.date));
    }
  }
}

Rows profile_rows() {
  Rows rows;
  append_comm_profiles(rows);
  append_compute_profiles(rows);
  return rows;
}

/// The files of a folder under the sources, by their descriptions.
Rows described_files(const std::string& folder) {
  Rows rows;
  for (const auto& file : yaml_files(data_folder() / folder)) {
    Map root = Document::load(file)->root().as_map();
    rows.emplace_back(file.stem().string(), root.string_or("description", ""));
  }
  return rows;
}

Rows described(const std::vector<std::string>& names, std::string (*describe)(const std::string&)) {
  Rows rows;
  for (const std::string& name : names) rows.emplace_back(name, describe(name));
  return rows;
}

std::string describe_gpu(const std::string& name) {
  const Gpu gpu = known_gpu(name);
  return fmt::format("{} at {}; fp32 {}, bf16 {}", format(gpu.memory), format(gpu.memory_bandwidth),
                     format(gpu.fp32), gpu.bf16.value() > 0 ? format(gpu.bf16) : "none");
}

std::string describe_optimizer(const std::string& name) {
  const int states = optimizer_memory({.kind = parse_optimizer(name)}).states;
  if (parse_optimizer(name) == OptimizerKind::muon)
    return fmt::format("{} state for hidden matrices, 2 for each other parameter (AdamW)", states);
  return fmt::format("{} state{} for each parameter", states, states == 1 ? "" : "s");
}

std::string describe_family(const std::string& name) {
  const std::optional<Value> derived = shipped_derived(name);
  return "a model_type of Hugging Face" +
         (derived ? ", read as " + derived->as_map().require("like").as_string() : "");
}

std::string describe_generation(const std::string& name) {
  const auto generation = gpu_architecture(name);
  return fmt::format("GPUs whose NCCL begins in {} and whose links are {} a direction",
                     format(generation->nccl.launch), format(generation->bounds.link));
}

Rows engine_rows() {
  Rows rows;
  for (const auto& file : yaml_files(platforms_folder() / "engines")) {
    Map root = Document::load(file)->root().as_map();
    rows.emplace_back(
        file.stem().string(),
        fmt::format("{} {}, for `decode` and rl.generator.engine",
                    root.require("title").as_string(), root.require("versions").as_string()));
  }
  return rows;
}

Rows rows_of(const std::string& kind) {
  if (kind == "models") return described(architecture_names(), describe_architecture);
  if (kind == "clusters") return described(cluster_names(), describe_cluster);
  if (kind == "gpus") return described(gpu_names(), describe_gpu);
  if (kind == "strategies") return described(strategy_names(), describe_strategy);
  if (kind == "families") return described(hugging_face_families(), describe_family);
  if (kind == "architectures") return described(architecture_kinds(), describe_generation);
  if (kind == "optimizers") return described(optimizer_names(), describe_optimizer);
  if (kind == "profiles") return profile_rows();
  if (kind == "studies") return described_files("scenarios/studies");
  if (kind == "plans") return described_files("scenarios/plans");
  if (kind == "engines") return engine_rows();
  Rows rows = described_files("scenarios");
  for (auto& row : described_files("scenarios/post_training")) rows.push_back(std::move(row));
  return rows;
}

}  // namespace

const std::vector<std::string>& kinds_of_names() {
  static const std::vector<std::string> kNames = {
      "models",     "families", "clusters", "gpus",      "architectures", "strategies",
      "optimizers", "engines",  "profiles", "scenarios", "studies",       "plans"};
  return kNames;
}

std::string names_text(const std::string& kind) {
  const Rows rows = rows_of(kind);
  std::size_t width = 0;
  for (const auto& [name, about] : rows) width = std::max(width, name.size());
  std::string text;
  for (const auto& [name, about] : rows) text += fmt::format("{:<{}}  {}\n", name, width, about);
  return text;
}

}  // namespace rehearse::inline scenario
