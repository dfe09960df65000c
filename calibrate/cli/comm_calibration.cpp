#include "cli/comm_calibration.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ctime>

#include "base/error.hpp"
#include "base/stop_signal.hpp"
#include "comm/lost_peer.hpp"
#include "comm/receive_window.hpp"
#include "config/whole_file.hpp"
#include "launch/run_team.hpp"
#include "measure/host_threads.hpp"
#include "measure/rank_device.hpp"
#include "measure/time_slice.hpp"

namespace rehearse::inline calibrate {
namespace {

/// The old samples as a text, which goes to all ranks; empty where there are none.
std::string old_samples(const std::filesystem::path& output) {
  const std::filesystem::path file = samples_file(output);
  if (!std::filesystem::exists(file)) {
    if (!std::filesystem::exists(output)) return {};
    throw InputError(
        fmt::format("{}: error: is there already, without the samples of a sweep beside it\n"
                    "remedy: give another --output, or remove the file",
                    output.string()));
  }
  const std::string text = read_whole_file(file);
  sweep_samples_from_json(text, file);
  return text;
}

/// One rank, in its own process.
class CommRank {
 public:
  CommRank(const CommRequest& request, const RankEnvironment& self, const std::string& old)
      : request_(request),
        self_(self),
        device_(make_rank_device(self, {.cpu = request.cpu, .threads = request.threads})),
        group_(
            make_process_group(self, {.backend = on_gpu() ? CommBackend::nccl : CommBackend::gloo,
                                      .timeout = request.timeout})) {
    samples_.ranks = self.world_size;
    samples_.nodes = self.world_size / self.local_world_size;
    samples_.backend = on_gpu() ? "nccl" : "gloo";
    samples_.hardware = device_->identity().name;
    samples_.libtorch = TORCH_VERSION;
    samples_.host_threads = host_threads();
    if (old.empty()) return;
    const std::filesystem::path file = samples_file(request.output);
    const SweepSamples kept = sweep_samples_from_json(old, file);
    check_same_subject(kept, samples_, file);
    samples_ = kept;
  }

  std::string measure() {
    Progress progress(request_.quiet || self_.rank != 0, request_.span);
    // The file is written before all work, so that one that cannot be is said at once.
    keep(samples_);
    sweep_collectives(
        group_, device_->torch_device(), request_.sweep, samples_,
        {.progress = [&](double share, const std::string& now) { progress.update(share, now); },
         .keep = [&](const SweepSamples& samples) { keep(samples); },
         .stop = [] { return stop_signal() != 0; }});
    leave(group_);
    return to_json(samples_);
  }

  std::string estimate() {
    const Seconds time = estimated_time(group_, device_->torch_device(), request_.sweep, samples_);
    leave(group_);
    return fmt::format(
        "over {} ranks on {} ({}), {} host {} each\nestimated:   {}, from one call of "
        "each\n",
        samples_.ranks, samples_.hardware, samples_.backend, samples_.host_threads,
        samples_.host_threads == 1 ? "thread" : "threads", format(time));
  }

 private:
  bool on_gpu() const { return device_->torch_device().is_cuda(); }
  void keep(const SweepSamples& samples) {
    if (self_.rank == 0) write_whole_file(samples_file(request_.output), to_json(samples));
  }

  const CommRequest& request_;
  RankEnvironment self_;
  std::unique_ptr<MeasuredDevice> device_;
  ProcessGroup group_;
  SweepSamples samples_;
};

/// Rank 0's text; nothing on other processes of a launcher.
std::optional<std::string> collect(const CommRequest& request,
                                   const std::function<std::string(CommRank&)>& work) {
  const auto launcher = rank_environment_of_launcher();
  const TeamWork team{.announce = [&](const std::string&) { return old_samples(request.output); },
                      .work =
                          [&](const RankEnvironment& self, const std::string& old) {
                            return with_peers(self, [&] {
                              CommRank rank(request, self, old);
                              return work(rank);
                            });
                          }};
  const RunLimits limits{.meeting = request.timeout, .stop = [] { return stop_signal() != 0; }};
  catch_stop_signals();
  if (!launcher) return collect_from_team(request.nproc, team, limits).front();
  if (launcher->world_size < 2) {
    throw InputError("error: a launcher started one process; collectives need at least two");
  }
  const auto texts = collect_from_team(*launcher, team, limits);
  if (texts.empty()) return std::nullopt;
  return texts.front();
}

}  // namespace

std::filesystem::path samples_file(const std::filesystem::path& output) {
  std::filesystem::path file = output;
  return file.replace_extension(".samples.json");
}

std::optional<SweepResult> calibrate_comm(const CommRequest& request,
                                          const Invocation& invocation) {
  const auto text = collect(request, [](CommRank& rank) { return rank.measure(); });
  if (!text) return std::nullopt;
  const std::filesystem::path& output = request.output;
  const SweepSamples samples = sweep_samples_from_json(*text, samples_file(output));
  if (!samples.finished)
    fail_as_stopped(samples_file(output).string() + " holds what was measured");
  const SweepResult result = summarize(samples);
  std::filesystem::path table = output;
  table.replace_extension(".csv");
  const SweepProfileOptions options{
      request.name.empty() ? output.stem().string() : request.name,
      invocation.command_line,
      fmt::format("{:%F}", fmt::gmtime(std::time(nullptr))),
      request.link_rate,
      request.link_rate > BytesPerSecond(0) ? measure_time_slice() : Seconds(0),
      largest_receive_window()};
  // The points first: a fit that fails must not lose them.
  write_whole_file(table, comm_points_table(result, options));
  write_whole_file(output, comm_profile_file(result, options));
  return result;
}

void print_comm_plan(const CommRequest& request) {
  const auto text = collect(request, [](CommRank& rank) { return rank.estimate(); });
  if (!text) return;
  const SweepOptions& sweep = request.sweep;
  std::vector<std::string> kinds, sizes, overlapped;
  for (const CollectiveKind kind : sweep.kinds) kinds.push_back(to_string(kind));
  for (const Bytes size : sweep.sizes) sizes.push_back(format(size));
  for (const Bytes size : sweep.overlapped) overlapped.push_back(format(size));
  if (overlapped.empty()) overlapped.emplace_back("none");
  fmt::print("collectives: {}\nsizes:       {}\noverlap:     {}\nrepetitions: {}\n",
             fmt::join(kinds, ", "), fmt::join(sizes, ", "), fmt::join(overlapped, ", "),
             sweep.repetitions);
  fmt::print("{}", *text);
}

}  // namespace rehearse::inline calibrate
