#include "rollout/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "config/document.hpp"
#include "rollout/decode.hpp"

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

ExpertKernel read_expert_kernel(Map& map, const char* key) {
  Map of = map.require(key).as_map();
  ExpertKernel kernel{.share = share(of, "share"),
                      .narrow = of.require("narrow").as_number(),
                      .launch = time(of, "launch"),
                      .most = {}};
  if (const auto most = of.optional("most")) kernel.most = most->as_bytes_per_second();
  of.finish();
  return kernel;
}

ExpertKernels read_experts(Map& map) {
  Map experts = map.require("experts").as_map();
  const ExpertKernels kernels{
      .of = {read_expert_kernel(experts, "hopper"), read_expert_kernel(experts, "blackwell")},
      .nvfp4 = read_expert_kernel(experts, "nvfp4"),
      .mxfp4 = read_expert_kernel(experts, "mxfp4"),
      .unpacked = read_expert_kernel(experts, "unpacked")};
  experts.finish();
  return kernels;
}

std::vector<Seconds> read_row(Map& map, const char* key, std::size_t columns) {
  const Value row = map.require(key);
  std::vector<Seconds> times;
  for (const Value& one : row.as_list()) times.push_back(one.as_seconds());
  if (times.size() != columns || !std::ranges::is_sorted(times))
    row.fail(fmt::format("one time for each of {} sizes, none below the one before", columns));
  return times;
}

AllReduceTimes read_all_reduce(Map& map) {
  Map of = map.require("all_reduce").as_map();
  AllReduceTimes times;
  for (const Value& one : of.require("sizes").as_list()) times.sizes.push_back(one.as_bytes());
  Map links = of.require("links").as_map();
  times.links = {links.require("hopper").as_bytes_per_second(),
                 links.require("blackwell").as_bytes_per_second()};
  links.finish();
  const auto generation = [&](const char* key, auto member) {
    Map ranks = of.require(key).as_map();
    times.two.*member = read_row(ranks, "2", times.sizes.size());
    times.four.*member = read_row(ranks, "4", times.sizes.size());
    times.eight.*member = read_row(ranks, "8", times.sizes.size());
    ranks.finish();
  };
  generation("hopper", &ByGeneration<std::vector<Seconds>>::hopper);
  generation("blackwell", &ByGeneration<std::vector<Seconds>>::blackwell);
  of.finish();
  return times;
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
                             .indexer = of("indexer"),
                             .fused_norms = of("fused_norms")};
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

BytesPerSecond ExpertKernel::rate(BytesPerSecond bandwidth, double columns) const {
  const BytesPerSecond rate = share * columns / (columns + narrow) * bandwidth;
  return most ? std::min(rate, *most) : rate;
}

Seconds AllReduceTimes::of(bool is_blackwell, double ranks, Bytes bytes,
                           BytesPerSecond link) const {
  const Bytes size = links.of(is_blackwell) / link * bytes;
  const std::vector<Seconds>& times = (ranks > 4 ? eight : ranks > 2 ? four : two).of(is_blackwell);
  const auto above = std::ranges::lower_bound(sizes, size);
  if (above == sizes.begin()) return times.front();
  if (above == sizes.end()) return size / sizes.back() * times.back();
  const auto at = static_cast<std::size_t>(above - sizes.begin());
  const double part = std::log(size / sizes[at - 1]) / std::log(sizes[at] / sizes[at - 1]);
  return std::pow(times[at] / times[at - 1], part) * times[at - 1];
}

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
  engine.all_reduce = read_all_reduce(map);
  engine.all_reduce_wait = times(map, "all_reduce_wait");
  engine.weights = share(map, "weights");
  engine.cache = share(map, "cache");
  engine.experts = read_experts(map);
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
  for (const Value& one : map.require("unpacks").as_list())
    engine.unpacks.push_back(one.as_choice(served_formats()));
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
