#include "cli/machine_survey.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.hpp"
#include "comm/sweep.hpp"
#include "launch/run_ranks.hpp"
#include "measure/device.hpp"
#include "measure/rank_device.hpp"

namespace rehearse::inline calibrate {
namespace {

using nlohmann::json;

/// Text of a child: LibTorch's threads and CUDA's context are its own.
json in_child(const std::function<json()>& work) {
  const auto texts = collect_from_ranks(1, [&](const RankEnvironment&) { return work().dump(); });
  return json::parse(texts.front());
}

RankEnvironment first_rank(const MachineSurvey& machine) {
  RankEnvironment rank;
  rank.local_world_size = rank.world_size = machine.ranks;
  return rank;
}

}  // namespace

std::string MachineSurvey::slug() const {
  std::string text;
  for (const char c : device) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte)) {
      text += static_cast<char>(std::tolower(byte));
    } else if (!text.empty() && text.back() != '_') {
      text += '_';
    }
  }
  while (!text.empty() && text.back() == '_') text.pop_back();
  if (on_gpu) return text;
  return fmt::format("{}_{}_thread{}", text, threads, threads == 1 ? "" : "s");
}

MachineSurvey survey_machine(const SurveyOptions& options) {
  const json seen = in_child([&] {
    const auto device = options.cpu ? make_cpu_device() : make_device();
    const bool gpu = device->torch_device().is_cuda();
    return json{{"device", device->identity().name},
                {"gpus", gpu ? static_cast<int>(torch::cuda::device_count()) : 0}};
  });
  const int gpus = seen.at("gpus");
  MachineSurvey machine;
  machine.device = seen.at("device");
  machine.libtorch = TORCH_VERSION;
  machine.on_gpu = gpus > 0;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int most = machine.on_gpu ? gpus : cores;
  machine.ranks = options.nproc > 0 ? options.nproc : (machine.on_gpu ? gpus : std::min(2, cores));
  if (machine.ranks > most) {
    throw InputError(fmt::format(
        "error: --nproc: {} ranks on a machine with {} {}{}\nremedy: --nproc {} at most",
        machine.ranks, most, machine.on_gpu ? "GPU" : "core", most == 1 ? "" : "s", most));
  }
  machine.threads = options.threads > 0 ? options.threads : threads_of_rank(machine.ranks);
  return machine;
}

std::vector<SweepCopy> survey_copies(const MachineSurvey& machine) {
  if (!machine.on_gpu) return {};
  const json seen = in_child([&] {
    const auto device = make_rank_device(first_rank(machine), {.threads = machine.threads});
    json copies = json::array();
    for (const SweepCopy& copy : measure_copies({Bytes(64.0 * 1024 * 1024)}, 10)) {
      copies.push_back({copy.to_device, copy.pinned, copy.size.value(), copy.median.value()});
    }
    return copies;
  });
  std::vector<SweepCopy> copies;
  for (const json& one : seen) {
    copies.push_back({one.at(0), one.at(1), Bytes(one.at(2)), Seconds(one.at(3).get<double>())});
  }
  return copies;
}

}  // namespace rehearse::inline calibrate
