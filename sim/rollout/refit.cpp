#include "rollout/refit.hpp"

#include "base/data_folder.hpp"
#include "config/document.hpp"

namespace rehearse::inline rollout {

Refit refit_of(const RlOptions& options, double parameters) {
  // On the same GPUs each takes its part of a copy; from others all of it comes over the links.
  const GeneratorOptions& to = options.generator;
  const Bytes weights(2 * parameters / (to.colocated() ? to.tensor_parallel : 1));
  if (options.refit.time) return {*options.refit.time, {*options.refit.time, *options.refit.time}};
  if (options.refit.rate) {
    const Seconds time = weights / *options.refit.rate;
    return {time, {time, time}};
  }
  const auto document = Document::load(platforms_path("refits.yaml"));
  const char* const name = to.colocated() ? "colocated" : "apart";
  Map kind = document->root().as_map().require(name).as_map();
  const Seconds each = kind.require("each").as_seconds();
  const auto at = [&](const char* rate) {
    return each + weights / kind.require(rate).as_bytes_per_second();
  };
  return {at("rate"), {at("high"), at("low")}};
}

Refit sleep_of(const RlOptions& options, Bytes bytes) {
  if (options.generator.sleep_rate) {
    const Seconds time = 2 * (bytes / *options.generator.sleep_rate);
    return {time, {time, time}};
  }
  const auto document = Document::load(platforms_path("refits.yaml"));
  Map asleep = document->root().as_map().require("asleep").as_map();
  const auto time = [&](const char* rate) {
    return bytes / asleep.require(rate).as_bytes_per_second();
  };
  return {time("out") + time("in"), {2 * time("high"), time("low") + time("in")}};
}

Seconds preparation() {
  const auto document = Document::load(platforms_path("refits.yaml"));
  return document->root().as_map().require("prepare").as_map().require("each").as_seconds();
}

}  // namespace rehearse::inline rollout
