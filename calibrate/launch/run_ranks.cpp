#include "launch/run_ranks.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "launch/meeting_folder.hpp"

namespace rehearse::inline calibrate {
namespace {

constexpr std::chrono::milliseconds kPollInterval{100};

RankEnvironment environment_of(int rank, int nproc, const std::string& store_file) {
  RankEnvironment environment;
  environment.rank = environment.local_rank = rank;
  environment.world_size = environment.local_world_size = nproc;
  environment.store_file = store_file;
  environment.own_address = kLoopback;
  return environment;
}

}  // namespace

bool RunWatch::goes_on(ChildRanks& children, bool any_failed) {
  const auto now = Clock::now();
  if (any_failed && give_up_ == Clock::time_point::max()) give_up_ = now + limits_.grace;
  if (limits_.stop && stopped_ == Clock::time_point::max() && limits_.stop()) {
    stopped_ = now;
    children.ask_to_stop();
  }
  const bool late = limits_.total.count() > 0 && now - begin_ > limits_.total;
  if (late && !any_failed) {
    throw StuckError(fmt::format("error: the ranks did not end within {} s and were stopped",
                                 std::chrono::duration<double>(limits_.total).count()));
  }
  if (stopped_ != Clock::time_point::max() && now - stopped_ > limits_.stopping && !any_failed) {
    throw StuckError("error: the ranks were asked to stop, did not, and were killed");
  }
  return now < give_up_;
}

std::vector<std::string> collect_from_ranks(int nproc, const RankWork& work,
                                            const RunLimits& limits) {
  check(nproc >= 1, "a run without ranks");
  const MeetingFolder folder;
  ChildRanks children;
  for (int rank = 0; rank < nproc; ++rank) {
    children.start(environment_of(rank, nproc, folder.store_file()), work);
  }
  RunWatch watch(limits);
  while (children.any_running() && watch.goes_on(children, children.any_failed())) {
    children.wait(kPollInterval);
  }
  if (children.any_failed()) {
    const std::size_t failed = first_cause(children.ends());
    children.kill_running();
    throw_failure(children.ends()[failed], fmt::format("rank {} of {}", failed, nproc), nproc == 1);
  }
  std::vector<std::string> texts;
  for (RankEnd& end : children.ends()) texts.push_back(std::move(end.text));
  return texts;
}

}  // namespace rehearse::inline calibrate
