#include <fmt/format.h>

#include <algorithm>

#include "explain/explanation.hpp"

namespace rehearse::inline explanation {
namespace {

/// Savings below this share of a step are none to speak of.
constexpr double kNothing = 0.001;

std::string percent(double share) {
  return fmt::format(fmt::runtime(share > 0 && share < 0.0995 ? "{:.1f} %" : "{:.0f} %"),
                     100 * share);
}

const char* kind_words(PathKind kind) {
  switch (kind) {
    case PathKind::compute:
      return "computation";
    case PathKind::straggler:
      return "slow ranks";
    case PathKind::jitter:
      return "jitter";
    case PathKind::slowed:
      return "computation that others slow down";
    case PathKind::collective:
      return "collectives";
    case PathKind::transfer:
      return "transfers";
    case PathKind::host:
      return "the host's launches";
    case PathKind::loading:
      return "the loading of batches";
    case PathKind::server:
      return "the server's updates";
    case PathKind::queue:
      return "the server's updates for others";
  }
  return "?";
}

std::string path_sentence(const Explanation& explanation) {
  std::vector<std::pair<Seconds, PathKind>> kinds;
  for (std::size_t k = 0; k < kPathKinds; ++k)
    kinds.emplace_back(explanation.path.shares.by_kind[k], static_cast<PathKind>(k));
  std::ranges::stable_sort(kinds, std::ranges::greater{},
                           [](const auto& kind) { return kind.first; });
  std::string text =
      fmt::format("A step takes {}; on its critical path are", format(explanation.step_time));
  for (std::size_t k = 0; k < 3; ++k) {
    const double share = kinds[k].first / explanation.path.total;
    if (k > 0 && share < 0.005) break;
    text += fmt::format("{} {} {}", k == 0 ? "" : ",", percent(share), kind_words(kinds[k].second));
  }
  if (kinds.front().second == PathKind::compute || explanation.causes.empty()) return text + ".";
  const double saved =
      std::ranges::max(explanation.causes, {}, &Alternative::saved_share).saved_share;
  const double share = kinds.front().first / explanation.path.total;
  return text + (saved > share / 2 ? "." : "; other chains are nearly as long.");
}

std::string unit_sentence(const Explanation& explanation) {
  const NamedTime& unit = explanation.path.shares.by_unit.front();
  std::string text = fmt::format("The longest on the path is {} ({}, {} of a step)", unit.name,
                                 format(unit.time), percent(unit.time / explanation.path.total));
  const auto& links = explanation.path.shares.by_link;
  if (links.empty() || links.front().link == "none") return text + ".";
  const LinkTime& link = links.front();
  return text + fmt::format("; of the links it is the {} of {} ({}, {} of that latency).",
                            link.link, link.where, format(link.time()),
                            percent(link.latency / link.time()));
}

std::string ranks_sentence(const Explanation& explanation) {
  Seconds step, compute, exposed, idle, peer, server;
  for (const RankSplit& rank : explanation.ranks) {
    step += rank.step;
    compute += rank.compute;
    exposed += rank.exposed_communication;
    idle += rank.idle;
    peer += rank.peer;
    server += rank.server;
  }
  std::string text = fmt::format(
      "A GPU computes {} of the time, {} it waits for bytes in flight, and {} it is idle",
      percent(compute / step), percent(exposed / step), percent(idle / step));
  const char* reason = server > peer ? "a server" : "other ranks";
  if (std::max(peer, server) > step * kNothing)
    text += fmt::format(", {} for {}", percent(std::max(peer, server) / step), reason);
  return text + ".";
}

/// Which stage the others wait for, how much of a step bubbles are, and what tensor parallelism
/// adds.
std::vector<std::string> stage_sentences(const Explanation& explanation) {
  const StageFindings& pipeline = explanation.pipeline;
  if (pipeline.stages.empty()) return {};
  Seconds mean_busy, warm_up, steady, cool_down, tensor, step;
  for (std::size_t i = 0; i < pipeline.stages.size(); ++i) {
    const StageReport& stage = pipeline.stages[i];
    mean_busy += busy(stage) / static_cast<double>(pipeline.stages.size());
    warm_up += stage.warm_up;
    steady += stage.steady;
    cool_down += stage.cool_down;
    if (const auto own = stage.exposed.find(MeshAxis::tensor); own != stage.exposed.end())
      tensor += own->second;
    step += pipeline.waits[i].step;
  }
  const StageReport& slowest = pipeline.stages[pipeline.slowest];
  std::vector<std::string> text{fmt::format(
      "Stage {} of {} is the slowest: its own passes take {} of a step, {:.3g} times "
      "the mean stage's.",
      slowest.stage, pipeline.stages.size(),
      percent(busy(slowest) / pipeline.waits[pipeline.slowest].step), busy(slowest) / mean_busy)};
  std::string bubbles =
      fmt::format("Bubbles are {} of a stage's step ({} warm-up, {} steady, {} cool-down)",
                  percent((warm_up + steady + cool_down) / step), percent(warm_up / step),
                  percent(steady / step), percent(cool_down / step));
  const std::vector<NamedTime> causes = bubble_causes(pipeline);
  text.push_back(bubbles + (causes.empty()
                                ? "."
                                : fmt::format(", most of them for: {}.", causes.front().name)));
  if (tensor > step * kNothing)
    text.push_back(fmt::format("Tensor parallelism's exchanges leave {} of a step exposed.",
                               percent(tensor / step)));
  return text;
}

std::string ideal_sentence(const Explanation& explanation) {
  const auto largest = std::ranges::max_element(explanation.causes, {}, &Alternative::saved_share);
  std::string text = fmt::format(
      "An ideal run would take {} a step: this one takes {:.2f} times as long",
      format(explanation.ideal->step_time), explanation.step_time / explanation.ideal->step_time);
  if (largest->saved_share < kNothing) return text + ".";
  return text + fmt::format("; the best single change, {}, would save {}.", largest->words,
                            percent(largest->saved_share));
}

std::string worker_sentence(const Alternative& worker) {
  return fmt::format("Rank {} is slow: as fast as the median one it would save {} of a step ({}).",
                     worker.rank.index(), percent(std::max(0.0, worker.saved_share)),
                     format(std::max(Seconds(0), worker.saved)));
}

/// "10 % more", "9.1 % less".
std::string change_words(double change) {
  return percent(std::abs(change)) + (change > 0 ? " more" : " less");
}

std::string more_sentence(const Explanation& explanation) {
  std::string text;
  std::vector<std::string> nothing;
  for (const Alternative& one : explanation.more) {
    if (one.saved_share < kNothing) {
      nothing.push_back(one.words);
      continue;
    }
    text += fmt::format("{}{} {} {} {} ({})", text.empty() ? "" : ", ", change_words(one.change),
                        one.words, text.empty() ? "saves" : "", percent(one.saved_share),
                        format(one.saved));
  }
  if (nothing.empty()) return text + ".";
  if (text.empty()) return fmt::format("More of any one resource saves nothing to speak of.");
  return text + fmt::format("; nothing comes of {}.", fmt::join(nothing, ", "));
}

}  // namespace

std::string answer(const Explanation& explanation) {
  std::string text = explanation.memory.empty() ? "" : explanation.memory + " ";
  text += path_sentence(explanation);
  if (explanation.ideal) text += " " + ideal_sentence(explanation);
  if (explanation.software.empty()) return text;
  const Alternative& setting = explanation.software.front();
  if (setting.saved_share < 10 * kNothing) return text;
  return text + fmt::format(" Without a change of results, {} would save {}.", setting.words,
                            percent(setting.saved_share));
}

std::vector<std::string> sentences(const Explanation& explanation) {
  std::vector<std::string> words{path_sentence(explanation), unit_sentence(explanation),
                                 ranks_sentence(explanation)};
  for (std::string& one : stage_sentences(explanation)) words.push_back(std::move(one));
  if (explanation.ideal) words.push_back(ideal_sentence(explanation));
  if (!explanation.workers.empty()) words.push_back(worker_sentence(explanation.workers.front()));
  if (!explanation.more.empty()) words.push_back(more_sentence(explanation));
  return words;
}

}  // namespace rehearse::inline explanation
