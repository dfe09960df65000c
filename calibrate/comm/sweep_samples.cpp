#include "comm/sweep_samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/error.hpp"
#include "base/percentile.hpp"

namespace rehearse::inline calibrate {
namespace {

using nlohmann::json;

const char* const kSchema = "rehearse.sweep/1";

CollectiveKind kind_in(const json& object) {
  return parse_collective_kind(object.at("collective"));
}

Seconds seconds_in(const json& object, const char* key) {
  const Seconds time(object.at(key).get<double>());
  if (!(time > Seconds(0))) throw std::invalid_argument(std::string(key) + " is not above zero");
  return time;
}

Bytes size_in(const json& object) { return Bytes(object.at("size").get<double>()); }

json to_numbers(const std::vector<Seconds>& times) {
  json numbers = json::array();
  for (const Seconds time : times) numbers.push_back(time.value());
  return numbers;
}

json to_object(const SweepSeries& series) {
  return {{"collective", to_string(series.kind)},
          {"size", series.size.value()},
          {"calls", series.calls},
          {"times_s", to_numbers(series.times)},
          {"host_times_s", to_numbers(series.host_times)}};
}

json to_object(const SweepOverlap& overlap) {
  return {{"collective", to_string(overlap.kind)},
          {"size", overlap.size.value()},
          {"comm_alone_s", overlap.comm_alone.value()},
          {"comm_beside_s", overlap.comm_beside.value()},
          {"compute_alone_s", overlap.compute_alone.value()},
          {"compute_beside_s", overlap.compute_beside.value()}};
}

json to_object(const SweepCopy& copy) {
  return {{"to_device", copy.to_device},
          {"pinned", copy.pinned},
          {"size", copy.size.value()},
          {"median_s", copy.median.value()}};
}

template <class T>
json to_array(const std::vector<T>& items) {
  json array = json::array();
  for (const T& item : items) array.push_back(to_object(item));
  return array;
}

SweepSamples read(const json& whole) {
  if (whole.at("schema") != kSchema) throw std::invalid_argument("another schema");
  SweepSamples samples;
  samples.ranks = whole.at("ranks");
  samples.nodes = whole.at("nodes");
  samples.backend = whole.at("backend");
  samples.hardware = whole.at("hardware");
  samples.libtorch = whole.at("libtorch");
  samples.host_threads = whole.at("host_threads");
  samples.finished = whole.at("finished");
  for (const json& one : whole.at("series")) {
    SweepSeries series{kind_in(one), size_in(one), one.at("calls"), {}, {}};
    for (const json& time : one.at("times_s")) series.times.emplace_back(time.get<double>());
    for (const json& time : one.at("host_times_s")) {
      series.host_times.emplace_back(time.get<double>());
    }
    samples.series.push_back(std::move(series));
  }
  for (const json& one : whole.at("overlaps")) {
    samples.overlaps.push_back({kind_in(one), size_in(one), seconds_in(one, "comm_alone_s"),
                                seconds_in(one, "comm_beside_s"),
                                seconds_in(one, "compute_alone_s"),
                                seconds_in(one, "compute_beside_s")});
  }
  for (const json& one : whole.at("copies")) {
    samples.copies.push_back(
        {one.at("to_device"), one.at("pinned"), size_in(one), seconds_in(one, "median_s")});
  }
  return samples;
}

}  // namespace

SweepSeries& SweepSamples::at(CollectiveKind kind, Bytes size) {
  for (SweepSeries& one : series) {
    if (one.kind == kind && one.size == size) return one;
  }
  series.push_back({kind, size, 0, {}, {}});
  return series.back();
}

bool SweepSamples::has_overlap(CollectiveKind kind, Bytes size) const {
  return std::any_of(overlaps.begin(), overlaps.end(),
                     [&](const SweepOverlap& one) { return one.kind == kind && one.size == size; });
}

std::string to_json(const SweepSamples& samples) {
  return json{{"schema", kSchema},
              {"ranks", samples.ranks},
              {"nodes", samples.nodes},
              {"backend", samples.backend},
              {"hardware", samples.hardware},
              {"libtorch", samples.libtorch},
              {"host_threads", samples.host_threads},
              {"finished", samples.finished},
              {"series", to_array(samples.series)},
              {"overlaps", to_array(samples.overlaps)},
              {"copies", to_array(samples.copies)}}
             .dump() +
         "\n";
}

SweepSamples sweep_samples_from_json(const std::string& text, const std::filesystem::path& file) {
  try {
    return read(json::parse(text));
  } catch (const std::exception& error) {  // of the library, or of read()
    throw InputError(
        fmt::format("{}: error: is not what a sweep of collectives keeps: {}\nremedy: remove the "
                    "file, or give another --output",
                    file.string(), error.what()));
  }
}

void check_same_subject(const SweepSamples& old, const SweepSamples& now,
                        const std::filesystem::path& file) {
  const auto check_same = [&](const char* what, const auto& a, const auto& b) {
    if (a == b) return;
    throw InputError(fmt::format(
        "{}: error: holds another measurement: its {} is {}, asked is {}\nremedy: give another "
        "--output, or remove the file",
        file.string(), what, a, b));
  };
  check_same("hardware", old.hardware, now.hardware);
  check_same("number of ranks", old.ranks, now.ranks);
  check_same("number of nodes", old.nodes, now.nodes);
  check_same("back end", old.backend, now.backend);
  check_same("LibTorch", old.libtorch, now.libtorch);
  check_same("number of host threads", old.host_threads, now.host_threads);
}

SweepResult summarize(const SweepSamples& samples) {
  SweepResult result{samples.ranks,    samples.nodes, samples.backend, samples.hardware, {},
                     samples.overlaps, samples.copies};
  std::vector<SweepSeries> all = samples.series;
  std::stable_sort(all.begin(), all.end(), [](const SweepSeries& a, const SweepSeries& b) {
    return std::tuple(a.kind, a.size) < std::tuple(b.kind, b.size);
  });
  for (SweepSeries& series : all) {
    if (series.times.empty()) continue;
    std::sort(series.times.begin(), series.times.end());
    std::sort(series.host_times.begin(), series.host_times.end());
    result.points.push_back({series.kind, series.size, percentile(series.times, 0.5),
                             percentile(series.times, 0.05), percentile(series.times, 0.95),
                             percentile(series.host_times, 0.5)});
  }
  return result;
}

}  // namespace rehearse::inline calibrate
