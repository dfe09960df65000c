#include "train/step_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/percentile.hpp"
#include "train/step_report_json.hpp"

namespace rehearse::inline calibrate {
namespace {

using nlohmann::json;

/// To a tenth of a microsecond, which no clock of ours is finer than: records stay short.
double rounded(double seconds) { return std::round(seconds * 1e7) / 1e7; }

void round_times(json& value) {
  if (value.is_number_float()) value = rounded(value.get<double>());
  if (!value.is_structured()) return;
  for (json& part : value) round_times(part);
}

json distribution(const std::vector<double>& samples) {
  return {{"median", rounded(percentile(samples, 0.5))},
          {"p5", rounded(percentile(samples, 0.05))},
          {"p95", rounded(percentile(samples, 0.95))},
          {"samples", samples.size()}};
}

/// Workers that never wait for a round: step k of one is not step k of all.
bool step_alone(const StepRequest& request) {
  return request.strategy == "ps-ssp" || request.strategy == "ps-async";
}

/// Whether step k of one rank is step k of all: not where workers run ahead, nor where they miss
/// rounds.
bool step_together(const StepRequest& request, const std::vector<RankSteps>& ranks) {
  return !step_alone(request) && std::all_of(ranks.begin(), ranks.end(), [&](const auto& rank) {
    return rank.steps.size() == ranks.front().steps.size();
  });
}

/// The ranks with the steps that count: of workers on their own, those whose update was applied
/// while all trained. At least one of each.
std::vector<RankSteps> counted_steps(const StepRequest& request,
                                     const std::vector<RankSteps>& ranks,
                                     const UpdateLog& counted) {
  if (!step_alone(request)) return ranks;
  std::vector<RankSteps> result = ranks;
  for (RankSteps& rank : result) {
    const auto updates = std::count_if(counted.begin(), counted.end(), [&](const auto& update) {
      return std::cmp_equal(update.worker, rank.rank);
    });
    rank.steps.resize(
        std::clamp<std::size_t>(static_cast<std::size_t>(updates), 1, rank.steps.size()));
  }
  return result;
}

/// The samples that the whole run's distribution is of.
std::vector<double> samples_of(const StepRequest& request, const std::vector<RankSteps>& ranks) {
  std::vector<double> samples;
  if (!step_together(request, ranks)) {
    for (const RankSteps& rank : ranks) {
      for (const double step : numbers(rank.steps)) samples.push_back(step);
    }
    return samples;
  }
  for (std::size_t k = 0; k < ranks.front().steps.size(); ++k) {
    Seconds slowest;
    for (const RankSteps& rank : ranks) slowest = std::max(slowest, rank.steps[k]);
    samples.push_back(slowest.value());
  }
  return samples;
}

/// Of the last step, with its peak's place; the peaks of all.
json memory_of(const RankSteps& rank) {
  const MemoryPart& part = rank.memory.peak_part();
  json object = to_object(rank.memory);
  object["peak_in"] = {{"phase", part.phase}, {"unit", part.unit}};
  object["allocated_peaks_bytes"] = numbers(rank.allocated_peaks);
  return object;
}

json to_object(const RankSteps& rank) {
  json object = to_object(rank.detail);
  object.update({{"step_time_s", distribution(numbers(rank.steps))},
                 {"step_times_s", numbers(rank.steps)},
                 {"waited_s", rank.waited.value()}});
  round_times(object);
  object.update({{"rank", rank.rank},
                 {"sent_bytes_per_step", std::round(rank.sent.value())},
                 {"received_bytes_per_step", std::round(rank.received.value())},
                 {"allocated_peak_bytes", allocated_peak(rank).value()},
                 {"last_loss", rank.last_loss},
                 {"memory", memory_of(rank)}});
  return object;
}

/// Of every iteration of one worker from its first, those to warm up included: the list that
/// another choice of updates can be made from. Iterations whose gradient was dropped are null.
json staleness_by_iteration(const UpdateLog& updates, int worker) {
  json list = json::array();
  for (const AppliedUpdate& update : updates) {
    if (std::cmp_equal(update.worker, worker)) list[update.iteration] = update.staleness();
  }
  return list;
}

json staleness_of(const UpdateLog& counted, const UpdateLog& all, std::uint64_t warmup,
                  std::uint64_t dropped) {
  const StalenessSummary summary = summarize_staleness(counted);
  json histogram = json::object();
  for (const auto& [staleness, updates] : summary.histogram)
    histogram[std::to_string(staleness)] = updates;
  const auto warming = std::count_if(
      all.begin(), all.end(), [warmup](const auto& update) { return update.iteration < warmup; });
  return {{"mean", summary.mean},
          {"max", summary.max},
          {"histogram", histogram},
          {"updates", counted.size()},
          {"warmup_updates", warming},
          {"later_updates", all.size() - counted.size() - static_cast<std::size_t>(warming)},
          {"dropped_gradients", dropped}};
}

/// A line for each key, and for each element of a list.
std::string lines_of(const nlohmann::ordered_json& report) {
  std::string text = "{";
  for (const auto& [key, value] : report.items()) {
    text += (text.size() > 1 ? ",\n" : "\n") + fmt::format("  \"{}\": ", key);
    if (!value.is_array()) {
      text += value.dump();
      continue;
    }
    std::string separator = "[\n    ";
    for (const auto& element : value) text += std::exchange(separator, ",\n    ") + element.dump();
    text += "\n  ]";
  }
  return text + "\n}\n";
}

}  // namespace

Bytes allocated_peak(const RankSteps& rank) {
  check(!rank.allocated_peaks.empty(), "a rank has a step");
  return *std::max_element(rank.allocated_peaks.begin(), rank.allocated_peaks.end());
}

std::string step_report(const StepRequest& request, const std::vector<RankSteps>& ranks,
                        const std::vector<ServerResult>& servers) {
  const auto warmup = static_cast<std::uint64_t>(request.warmup);
  const UpdateLog updates = updates_of(servers);
  const UpdateLog counted = measured_updates(updates, warmup);
  const std::vector<RankSteps> measured = counted_steps(request, ranks, counted);
  nlohmann::ordered_json report = {{"schema", "rehearse.step/1"},
                                   {"strategy", request.strategy},
                                   {"model", request.model},
                                   {"precision", request.precision},
                                   {"optimizer", request.optimizer},
                                   {"seed", request.seed},
                                   {"batch_per_rank", request.batch},
                                   {"ranks", request.ranks},
                                   {"nodes", request.nodes},
                                   {"host_threads", ranks.front().host_threads},
                                   {"steps", request.steps},
                                   {"warmup_steps", request.warmup},
                                   {"hardware", ranks.front().device},
                                   {"allocator", ranks.front().allocator},
                                   {"libtorch", ranks.front().libtorch},
                                   {"date", request.date},
                                   {"command", request.command},
                                   {"step_time_s", distribution(samples_of(request, measured))}};
  if (!servers.empty()) {
    std::uint64_t dropped = 0;
    for (const ServerResult& server : servers) dropped += server.dropped;
    report["servers"] = servers.size();
    report["server_host"] = request.dedicated_server ? "own_node" : "node_of_rank_0";
    report["staleness"] = staleness_of(counted, updates, warmup, dropped);
  }
  for (const RankSteps& rank : measured) {
    json object = to_object(rank);
    if (!servers.empty()) {
      object["staleness_by_iteration"] = staleness_by_iteration(updates, rank.rank);
    }
    if (report.contains("per_rank")) object["memory"].erase("parts");
    report["per_rank"].push_back(nlohmann::ordered_json(object));
  }
  return lines_of(report);
}

}  // namespace rehearse::inline calibrate
