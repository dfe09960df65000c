#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "cli/commands.hpp"
#include "cluster/cluster.hpp"
#include "cost/cost.hpp"
#include "cost/profile_library.hpp"
#include "keys/keys.hpp"
#include "model/model.hpp"
#include "profile/comm_profile.hpp"
#include "strategy/strategy.hpp"

namespace rehearse {
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

Rows rows_of(const std::string& what) {
  if (what == "models") return described(architecture_names(), describe_architecture);
  if (what == "clusters") return described(cluster_names(), describe_cluster);
  if (what == "gpus") return described(gpu_names(), describe_gpu);
  if (what == "strategies") return described(strategy_names(), describe_strategy);
  if (what == "optimizers") return described(optimizer_names(), describe_optimizer);
  if (what == "profiles") return profile_rows();
  if (what == "studies") return described_files("scenarios/studies");
  if (what == "plans") return described_files("scenarios/plans");
  return described_files("scenarios");
}

void list_keys(const ListCommand& command) {
  if (command.format == "markdown") return write_stdout(keys_markdown());
  const std::string text = keys_text(command.prefix);
  if (text.empty()) {
    std::vector<std::string> paths;
    for (const KeySection& section : key_sections())
      for (const Key& key : section.keys) paths.push_back(fmt::format("{}{}", section.prefix, key.name));
    const std::string near = nearest(command.prefix, paths);
    throw InputError(fmt::format(
        "rehearse: error: no key begins with \"{}\"\nremedy: {}", command.prefix,
        near.empty() ? "`rehearse list keys` prints all" : fmt::format("did you mean \"{}\"?", near)));
  }
  write_stdout(text);
}

}  // namespace

const std::vector<std::string>& list_names() {
  static const std::vector<std::string> kNames = {"models",     "clusters",  "gpus",
                                                  "strategies", "optimizers", "profiles",
                                                  "scenarios",  "studies",   "plans", "keys"};
  return kNames;
}

void list_command(const ListCommand& command) {
  if (command.what == "keys") return list_keys(command);
  if (!command.prefix.empty())
    throw InputError("rehearse: error: only keys have a prefix\nremedy: leave out what follows");
  const Rows rows = rows_of(command.what);
  std::size_t width = 0;
  for (const auto& [name, about] : rows) width = std::max(width, name.size());
  std::string text;
  for (const auto& [name, about] : rows) text += fmt::format("{:<{}}  {}\n", name, width, about);
  write_stdout(text);
}

}  // namespace rehearse
