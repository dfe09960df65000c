#include "cluster/gpu_architecture.hpp"

#include <algorithm>

#include "base/data_folder.hpp"
#include "base/error.hpp"

namespace rehearse::inline cluster {
namespace {

constexpr int kMostChannels = 1024;

std::shared_ptr<const Document> architectures() {
  return Document::load(platforms_path("architectures.yaml"));
}

template <class Kind>
void read_rate(Map& map, const char* key, Kind& into) {
  if (const auto given = map.optional(key)) into = given->as_bytes_per_second();
}

void read_share(Map& map, const char* key, double& into) {
  if (const auto given = map.optional(key)) into = given->as_positive_number();
}

void read_time(Map& map, const char* key, Seconds& into) {
  if (const auto given = map.optional(key)) into = given->as_seconds();
}

void read_count(Map& map, const char* key, int& into, int low, int high = kMostChannels) {
  if (const auto given = map.optional(key)) into = static_cast<int>(given->as_integer(low, high));
}

void read_flag(Map& map, const char* key, bool& into) {
  if (const auto given = map.optional(key)) into = given->as_bool();
}

void read_nccl(const Value& value, GpuArchitecture& architecture) {
  Map map = value.as_map();
  NcclGeneration& times = architecture.nccl;
  read_time(map, "launch", times.launch);
  read_time(map, "step", times.step);
  read_share(map, "ll", times.ll);
  read_share(map, "ll128", times.ll128);
  read_share(map, "simple", times.simple);
  read_share(map, "nvls", times.nvls);
  read_share(map, "all_to_all", times.all_to_all);
  NcclBounds& bounds = architecture.bounds;
  read_flag(map, "measured", bounds.measured);
  read_rate(map, "ll_cap", bounds.ll_cap);
  read_rate(map, "ll_cap_beyond", bounds.ll_cap_beyond);
  read_rate(map, "link", bounds.link);
  read_count(map, "max_channels", bounds.max_channels, 1);
  read_count(map, "channels_between", bounds.channels_between, 0);
  read_count(map, "nvls_channels", bounds.nvls_channels, 0);
  read_count(map, "nvls_tree_channels", bounds.nvls_tree_channels, 0);
  map.finish();
}

GpuLinks read_links(const Value& value) {
  const std::string name = value.as_choice({"switch", "cube_mesh", "full_mesh"});
  if (name == "switch") return GpuLinks::switched;
  return name == "cube_mesh" ? GpuLinks::cube_mesh : GpuLinks::full_mesh;
}

GpuArchitecture named(Map& all, const std::string& name);

/// Reads a map that may be like one of `all`: of its first `known`.
GpuArchitecture read_described(Map map, Map& all, std::size_t known) {
  GpuArchitecture read;
  if (const auto like = map.optional("like")) {
    const std::vector<std::string> names = all.keys();
    const std::string chosen = like->as_choice(names);
    if (std::ranges::find(names, chosen) - names.begin() >= static_cast<std::ptrdiff_t>(known))
      like->fail("it stands behind what is like it", "name one that stands before it");
    read = named(all, chosen);
  }
  if (const auto links = map.optional("links")) read.links = read_links(*links);
  if (const auto nccl = map.optional("nccl")) read_nccl(*nccl, read);
  if (const auto size = map.optional("cublas_workspace")) read.cublas_workspace = size->as_bytes();
  if (const auto sdpa = map.optional("sdpa"))
    read.sdpa_is_cudnn = sdpa->as_choice({"cudnn", "flash2"}) == "cudnn";
  read_flag(map, "cudnn_attention_faster", read.cudnn_attention_faster);
  read_flag(map, "flash_attention_3", read.flash_attention_3);
  read_flag(map, "block_formats", read.block_formats);
  read_count(map, "fp8_copies", read.fp8_copies, 1, 2);
  read_share(map, "shares_hold_from", read.shares_hold_from);
  if (const auto source = map.optional("source")) source->as_string();
  map.finish();
  return read;
}

/// It may be like those that stand before it, of which the first has every key itself.
GpuArchitecture named(Map& all, const std::string& name) {
  const std::vector<std::string> names = all.keys();
  const auto before = static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
  GpuArchitecture read = read_described(all.require(name).as_map(), all, before);
  read.name = name;
  return read;
}

}  // namespace

std::shared_ptr<const GpuArchitecture> read_gpu_architecture(const Value& value) {
  const auto document = architectures();
  Map all = document->root().as_map();
  if (value.is_scalar())
    return std::make_shared<GpuArchitecture>(named(all, value.as_choice(all.keys())));
  Map map = value.as_map();
  map.require("like");
  return std::make_shared<GpuArchitecture>(read_described(std::move(map), all, all.keys().size()));
}

std::vector<std::string> architecture_kinds() { return architectures()->root().as_map().keys(); }

std::shared_ptr<const GpuArchitecture> gpu_architecture(const std::string& name) {
  const auto document = architectures();
  Map all = document->root().as_map();
  return std::make_shared<GpuArchitecture>(named(all, name));
}

const std::shared_ptr<const GpuArchitecture>& unknown_architecture() {
  static const std::shared_ptr<const GpuArchitecture> kOther = gpu_architecture("other");
  return kOther;
}

}  // namespace rehearse::inline cluster
