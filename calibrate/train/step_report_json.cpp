#include "train/step_report_json.hpp"

#include <cmath>

namespace rehearse::inline calibrate {
namespace {

using nlohmann::json;

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

double number_of(const json& value) { return value.is_null() ? std::nan("") : value.get<double>(); }

json losses_to_json(const std::map<std::uint64_t, double>& losses) {
  json list = json::array();
  for (const auto& [iteration, loss] : losses) list.push_back({iteration, loss});
  return list;
}

std::int64_t whole(Bytes size) { return static_cast<std::int64_t>(size.value()); }

StepMemory memory_from(const json& object) {
  StepMemory memory;
  memory.at_rest = Bytes(object.at("at_rest_bytes").get<double>());
  memory.allocated_peak = Bytes(object.at("allocated_peak_bytes").get<double>());
  const json& reserved = object.at("reserved_peak_bytes");
  if (!reserved.is_null()) memory.reserved_peak = Bytes(reserved.get<double>());
  for (const json& part : object.at("parts")) {
    memory.parts.push_back({.phase = part.at("phase"),
                            .unit = part.at("unit"),
                            .peak = Bytes(part.at("peak_bytes").get<double>()),
                            .live = Bytes(part.at("live_bytes").get<double>())});
  }
  return memory;
}

}  // namespace

std::vector<double> numbers(const std::vector<Seconds>& times) {
  std::vector<double> result;
  result.reserve(times.size());
  for (const Seconds time : times) result.push_back(time.value());
  return result;
}

std::vector<std::int64_t> numbers(const std::vector<Bytes>& sizes) {
  std::vector<std::int64_t> result;
  result.reserve(sizes.size());
  for (const Bytes size : sizes) result.push_back(whole(size));
  return result;
}

json to_object(const StepMemory& memory) {
  json parts = json::array();
  for (const MemoryPart& part : memory.parts) {
    parts.push_back({{"phase", part.phase},
                     {"unit", part.unit},
                     {"peak_bytes", whole(part.peak)},
                     {"live_bytes", whole(part.live)}});
  }
  return {
      {"at_rest_bytes", whole(memory.at_rest)},
      {"allocated_peak_bytes", whole(memory.allocated_peak)},
      {"reserved_peak_bytes", memory.reserved_peak ? json(whole(*memory.reserved_peak)) : json()},
      {"parts", parts}};
}

json to_object(const StepDetail& detail) {
  json phases = json::object(), collectives = json::array();
  for (const auto& [name, time] : detail.phases) phases[name + "_s"] = time.value();
  for (const CollectiveTimes& one : detail.collectives) {
    collectives.push_back({{"collective", to_string(one.kind)},
                           {"of", one.what},
                           {"size_bytes", static_cast<std::int64_t>(one.size.value())},
                           {"launched_s", one.launched.value()},
                           {"done_s", one.done.value()}});
  }
  return {{"phases", phases},
          {"collectives", collectives},
          {"gradient_ready_s", numbers(detail.gradient_ready)}};
}

std::string to_json(const RankSteps& rank) {
  return json{{"rank", rank.rank},
              {"steps", numbers(rank.steps)},
              {"waited", rank.waited.value()},
              {"sent", rank.sent.value()},
              {"received", rank.received.value()},
              {"peaks", numbers(rank.allocated_peaks)},
              {"memory", to_object(rank.memory)},
              {"loss", rank.last_loss},
              {"losses", losses_to_json(rank.losses)},
              {"detail", to_object(rank.detail)},
              {"device", rank.device},
              {"allocator", rank.allocator},
              {"libtorch", rank.libtorch},
              {"threads", rank.host_threads}}
      .dump();
}

RankSteps rank_steps_from_json(const std::string& text) {
  const json object = json::parse(text);
  const auto number = [&](const char* key) { return number_of(object.at(key)); };
  RankSteps rank;
  rank.rank = object.at("rank");
  for (const json& step : object.at("steps")) rank.steps.emplace_back(step.get<double>());
  rank.waited = Seconds(number("waited"));
  rank.sent = Bytes(number("sent"));
  rank.received = Bytes(number("received"));
  for (const json& peak : object.at("peaks")) rank.allocated_peaks.emplace_back(peak.get<double>());
  rank.memory = memory_from(object.at("memory"));
  rank.last_loss = number("loss");
  for (const json& row : object.at("losses")) rank.losses[row.at(0)] = number_of(row.at(1));
  rank.detail = detail_from(object.at("detail"));
  rank.device = object.at("device");
  rank.allocator = object.at("allocator");
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

}  // namespace rehearse::inline calibrate
