#include "cli/machine_survey.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.hpp"
#include "comm/sweep.hpp"
#include "launch/run_ranks.hpp"
#include "measure/device.hpp"
#include "measure/host_threads.hpp"
#include "measure/rank_device.hpp"
#include "profile/whole_file.hpp"

namespace rehearse {
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

/// The best of some repetitions.
Seconds best_time(MeasuredDevice& device, const std::function<void()>& work) {
  Seconds best(1e9);
  for (int i = 0; i < 8; ++i) {
    device.forget_marks();
    const std::size_t from = device.mark();
    work();
    best = std::min(best, device.between(from, device.mark()));
  }
  return best;
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
  return on_gpu ? text : fmt::format("{}_{}_threads", text, threads);
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

DeviceRates survey_rates(const MachineSurvey& machine) {
  const json seen = in_child([&] {
    const auto device =
        make_rank_device(first_rank(machine), {.cpu = !machine.on_gpu, .threads = machine.threads});
    const auto options = torch::TensorOptions(device->torch_device());
    constexpr std::int64_t kSide = 1024, kCopied = 32 * 1024 * 1024;
    const torch::Tensor left = torch::ones({kSide, kSide}, options);
    torch::Tensor product = torch::zeros({kSide, kSide}, options);
    const Seconds multiply = best_time(*device, [&] { torch::mm_out(product, left, left); });
    const torch::Tensor from = torch::ones({kCopied}, options);
    torch::Tensor to = torch::zeros({kCopied}, options);
    const Seconds copy = best_time(*device, [&] { to.copy_(from); });
    const double side = kSide;
    return json{{"fp32", 2 * side * side * side / multiply.value()},
                {"copy", 2 * 4.0 * kCopied / copy.value()}};
  });
  DeviceRates rates;
  rates.fp32 = FlopsPerSecond(seen.at("fp32"));
  rates.memory_bandwidth = BytesPerSecond(seen.at("copy"));
  rates.memory = Bytes(static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                       static_cast<double>(sysconf(_SC_PAGE_SIZE)));
  return rates;
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

}  // namespace rehearse
