#include "train/step_report.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace rehearse {
namespace {

using nlohmann::json;

std::vector<double> numbers(const std::vector<Seconds>& times) {
  std::vector<double> result;
  for (const Seconds time : times) result.push_back(time.value());
  return result;
}

double percentile(std::vector<double> sorted, double fraction) {
  check(!sorted.empty(), "a percentile of at least one step");
  std::sort(sorted.begin(), sorted.end());
  const double place = std::round(fraction * static_cast<double>(sorted.size() - 1));
  return sorted[static_cast<std::size_t>(place)];
}

json distribution(const std::vector<double>& samples) {
  return {{"median", percentile(samples, 0.5)},
          {"p5", percentile(samples, 0.05)},
          {"p95", percentile(samples, 0.95)},
          {"samples", samples.size()}};
}

/// Whether step k of one rank is step k of all: not where workers run ahead, nor where they miss
/// rounds.
bool step_together(const StepRequest& request, const std::vector<RankSteps>& ranks) {
  if (request.strategy == "ps-ssp" || request.strategy == "ps-async") return false;
  return std::all_of(ranks.begin(), ranks.end(), [&](const RankSteps& rank) {
    return rank.steps.size() == ranks.front().steps.size();
  });
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

json to_object(const StepDetail& detail) {
  json phases = json::object(), collectives = json::array();
  for (const auto& [name, time] : detail.phases) phases[name + "_s"] = time.value();
  for (const CollectiveTimes& one : detail.collectives) {
    collectives.push_back({{"collective", to_string(one.kind)},
                           {"of", one.what},
                           {"size_bytes", one.size.value()},
                           {"launched_s", one.launched.value()},
                           {"done_s", one.done.value()}});
  }
  return {{"phases", phases},
          {"collectives", collectives},
          {"gradient_ready_s", numbers(detail.gradient_ready)}};
}

StepDetail detail_from(const json& object) {
  StepDetail detail;
  for (const auto& [name, time] : object.at("phases").items()) {
    detail.phases[name.substr(0, name.size() - 2)] = Seconds(time.get<double>());
  }
  for (const json& one : object.at("collectives")) {
    detail.collectives.push_back({.kind = parse_collective_kind(one.at("collective")),
                                  .what = one.at("of"),
                                  .size = Bytes(one.at("size_bytes").get<double>()),
                                  .launched = Seconds(one.at("launched_s").get<double>()),
                                  .done = Seconds(one.at("done_s").get<double>())});
  }
  for (const json& time : object.at("gradient_ready_s")) {
    detail.gradient_ready.emplace_back(time.get<double>());
  }
  return detail;
}

json to_object(const RankSteps& rank) {
  json object = to_object(rank.detail);
  object.update({{"rank", rank.rank},
                 {"step_time_s", distribution(numbers(rank.steps))},
                 {"step_times_s", numbers(rank.steps)},
                 {"waited_s", rank.waited.value()},
                 {"sent_bytes_per_step", std::round(rank.sent.value())},
                 {"received_bytes_per_step", std::round(rank.received.value())},
                 {"allocated_peak_bytes", rank.allocated_peak.value()},
                 {"last_loss", rank.last_loss}});
  return object;
}

/// Of the updates that were applied while all workers trained.
json staleness_of(const std::vector<ServerResult>& servers) {
  std::vector<UpdateLog> logs;
  std::uint64_t dropped = 0;
  for (const ServerResult& server : servers) {
    logs.push_back(server.log);
    dropped += server.dropped;
  }
  const UpdateLog log = while_all_train(stalest_of(logs));
  const StalenessSummary summary = summarize_staleness(log);
  json histogram = json::object();
  for (const auto& [staleness, updates] : summary.histogram)
    histogram[std::to_string(staleness)] = updates;
  return {{"mean", summary.mean},
          {"max", summary.max},
          {"histogram", histogram},
          {"updates", log.size()},
          {"dropped_gradients", dropped}};
}

}  // namespace

std::string to_json(const RankSteps& rank) {
  return json{{"rank", rank.rank},
              {"steps", numbers(rank.steps)},
              {"waited", rank.waited.value()},
              {"sent", rank.sent.value()},
              {"received", rank.received.value()},
              {"peak", rank.allocated_peak.value()},
              {"loss", rank.last_loss},
              {"detail", to_object(rank.detail)},
              {"device", rank.device},
              {"libtorch", rank.libtorch},
              {"threads", rank.host_threads}}
      .dump();
}

RankSteps rank_steps_from_json(const std::string& text) {
  const json object = json::parse(text);
  const auto number = [&](const char* key) {
    return object.at(key).is_null() ? std::nan("") : object.at(key).get<double>();
  };
  RankSteps rank;
  rank.rank = object.at("rank");
  for (const json& step : object.at("steps")) rank.steps.emplace_back(step.get<double>());
  rank.waited = Seconds(number("waited"));
  rank.sent = Bytes(number("sent"));
  rank.received = Bytes(number("received"));
  rank.allocated_peak = Bytes(number("peak"));
  rank.last_loss = number("loss");
  rank.detail = detail_from(object.at("detail"));
  rank.device = object.at("device");
  rank.libtorch = object.at("libtorch");
  rank.host_threads = object.at("threads");
  return rank;
}

std::string to_json(const ServerResult& result) {
  json log = json::array();
  for (const AppliedUpdate& update : result.log) {
    log.push_back({update.worker, update.iteration, update.version_read, update.version_applied,
                   update.applied.value()});
  }
  return json{{"log", log},
              {"dropped", result.dropped},
              {"received", result.received.value()},
              {"sent", result.sent.value()}}
      .dump();
}

ServerResult server_result_from_json(const std::string& text) {
  const json object = json::parse(text);
  ServerResult result;
  for (const json& row : object.at("log")) {
    result.log.push_back(
        {row.at(0), row.at(1), row.at(2), row.at(3), Seconds(row.at(4).get<double>())});
  }
  result.dropped = object.at("dropped");
  result.received = Bytes(object.at("received").get<double>());
  result.sent = Bytes(object.at("sent").get<double>());
  return result;
}

std::string step_report(const StepRequest& request, const std::vector<RankSteps>& ranks,
                        const std::vector<ServerResult>& servers) {
  json report = {{"schema", "rehearse.step/1"},
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
                 {"libtorch", ranks.front().libtorch},
                 {"date", request.date},
                 {"command", request.command},
                 {"step_time_s", distribution(samples_of(request, ranks))},
                 {"per_rank", json::array()}};
  for (const RankSteps& rank : ranks) report["per_rank"].push_back(to_object(rank));
  if (!servers.empty()) report["staleness"] = staleness_of(servers);
  return report.dump(2) + "\n";
}

}  // namespace rehearse
