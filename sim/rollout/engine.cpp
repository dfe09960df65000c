#include "rollout/engine.hpp"

#include <algorithm>
#include <filesystem>

#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "config/document.hpp"

namespace rehearse::inline rollout {
namespace {

double share(Map& map, const char* key) {
  const Value value = map.require(key);
  const double share = value.as_positive_number();
  if (share > 1) value.fail("a share is at most 1; got \"" + value.shown() + "\"");
  return share;
}

Seconds time(Map& map, const char* key) { return map.require(key).as_seconds(); }

ByGeneration<Seconds> times(Map& map, const char* key) {
  Map both = map.require(key).as_map();
  const ByGeneration<Seconds> read{time(both, "hopper"), time(both, "blackwell")};
  both.finish();
  return read;
}

void read_experts(Map& map, Engine& engine) {
  Map experts = map.require("experts").as_map();
  engine.experts = {share(experts, "hopper"), share(experts, "blackwell")};
  engine.unpacked_experts = share(experts, "unpacked");
  experts.finish();
}

void read_grouped(Map& map, Engine& engine) {
  Map grouped = map.require("grouped").as_map();
  engine.grouped = {.of = {share(grouped, "hopper"), share(grouped, "blackwell")},
                    .nvfp4 = share(grouped, "nvfp4"),
                    .mxfp4 = share(grouped, "mxfp4"),
                    .unpacked = share(grouped, "unpacked")};
  grouped.finish();
  engine.routed = map.require("routed").as_positive_number();
}

KernelCounts read_counts(Map& map) {
  Map counts = map.require("kernels").as_map();
  const auto of = [&](const char* key) { return counts.require(key).as_number(); };
  const KernelCounts kernels{.layer = of("layer"),
                             .experts = of("experts"),
                             .quantized = of("quantized"),
                             .head_norms = of("head_norms"),
                             .latent = of("latent"),
                             .indexer = of("indexer")};
  counts.finish();
  return kernels;
}

EngineError read_error(Map& map) {
  Map off = map.require("off").as_map();
  const EngineError error{.low = off.require("low").as_number(),
                          .high = off.require("high").as_number(),
                          .points = off.require("points").as_number(),
                          .median = off.require("median").as_number(),
                          .p90 = off.require("p90").as_number()};
  off.finish();
  return error;
}

}  // namespace

std::vector<std::string> engine_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(platforms_path("engines")))
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

Engine read_engine(const std::string& name) {
  const auto document = Document::load(platforms_path("engines/" + name + ".yaml"));
  Map map = document->root().as_map();
  Engine engine;
  engine.name = name;
  engine.title = map.require("title").as_string();
  engine.versions = map.require("versions").as_string();
  engine.step = time(map, "step");
  engine.sequence = time(map, "sequence");
  engine.overlap = map.require("overlap").as_positive_number();
  engine.answer = time(map, "answer");
  engine.kernels = read_counts(map);
  engine.eager_layer = time(map, "eager_layer");
  engine.kernel = times(map, "kernel");
  engine.all_reduce = times(map, "all_reduce");
  engine.all_reduce_until = map.require("all_reduce_until").as_bytes();
  engine.weights = share(map, "weights");
  engine.cache = share(map, "cache");
  read_experts(map, engine);
  read_grouped(map, engine);
  engine.products = share(map, "products");
  engine.prompt_products = share(map, "prompt_products");
  engine.prompt_attention = share(map, "prompt_attention");
  engine.prompts_alone = map.require("prompts_alone").as_bool();
  engine.spread = share(map, "spread");
  engine.prefill_tokens = map.require("prefill_tokens").as_positive_number();
  engine.memory = share(map, "memory");
  for (const Value& one : map.require("runs_on").as_list())
    engine.runs_on.push_back(one.as_choice(architecture_kinds()));
  engine.own_formats = map.require("own_formats").as_bool();
  engine.off = read_error(map);
  engine.source = map.require("source").as_string();
  map.finish();
  return engine;
}

bool is_blackwell(const Gpu& gpu) { return gpu.architecture->name.starts_with("blackwell"); }
bool is_measured(const Gpu& gpu) {
  return is_blackwell(gpu) || gpu.architecture->name.starts_with("hopper");
}

}  // namespace rehearse::inline rollout
