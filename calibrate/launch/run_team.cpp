#include "launch/run_team.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <optional>

#include "base/error.hpp"
#include "launch/meeting_folder.hpp"
#include "launch/team_link.hpp"
#include "server/socket_address.hpp"

namespace rehearse::inline calibrate {
namespace {

constexpr std::chrono::milliseconds kTurn(50);

Seconds seconds(std::chrono::milliseconds time) {
  return Seconds(std::chrono::duration<double>(time).count());
}

/// The address of the interface that a person named; empty where none did.
std::string address_of_named_interface() {
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (interface == nullptr || *interface == '\0') return {};
  if (const auto host = interface_host(interface)) return *host;
  throw InputError(fmt::format(
      "error: GLOO_SOCKET_IFNAME: this node has no interface \"{}\" with an address", interface));
}

std::string name_of(std::size_t process, int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  if (process < count) return fmt::format("rank {} of {}", process, ranks);
  return fmt::format("server {}", process - count);
}

/// The processes of rank 0's node: its rank, and the helpers behind all ranks.
std::vector<RankEnd> all_ends(const TeamHub& hub, const ChildRanks& children) {
  std::vector<RankEnd> all = hub.ends();
  const std::vector<RankEnd> own = children.ends();
  all.front() = own.front();
  all.insert(all.end(), own.begin() + 1, own.end());
  return all;
}

/// Told to all others, and thrown here.
[[noreturn]] void fail(TeamHub& hub, ChildRanks& children, int ranks) {
  const std::vector<RankEnd> ends = all_ends(hub, children);
  const std::size_t failed = first_cause(ends);
  children.kill_running();
  try {
    throw_failure(ends[failed], name_of(failed, ranks), ends.size() == 1);
  } catch (const Error& error) {
    hub.tell_failure(error.what());
    throw;
  }
}

std::vector<std::string> lead(const RankEnvironment& self, const TeamWork& team,
                              const RunLimits& limits) {
  TeamHub hub(self, seconds(limits.meeting));
  RankEnvironment rank = self;
  if (rank.own_address.empty()) rank.own_address = hub.own_address();
  if (rank.own_address.empty()) rank.own_address = kLoopback;  // it is alone
  TeamStart start;
  const Socket reserved = reserve_port();
  start.store_port = rank.master_port = port_of(reserved);
  rank.store_address = hub.common_address();
  if (!rank.store_address.empty()) rank.master_address = rank.store_address;
  std::optional<MeetingFolder> folder;
  if (self.local_world_size == self.world_size) {
    folder.emplace();
    start.store_file = rank.store_file = folder->store_file();
  }
  if (team.announce) start.announced = team.announce(rank.own_address);
  hub.tell_start(start);
  ChildRanks children;
  const auto work = [&](const RankEnvironment& who) { return team.work(who, start.announced); };
  children.start(rank, work);
  for (int helper = 0; helper < team.helpers; ++helper) {
    rank.rank = self.world_size + helper;
    children.start(rank, work);
  }
  RunWatch watch(limits);
  while ((children.any_running() || !hub.all_ended()) &&
         watch.goes_on(children, children.any_failed() || hub.any_failed())) {
    children.wait(kTurn);
    hub.receive();
  }
  if (children.any_failed() || hub.any_failed()) fail(hub, children, self.world_size);
  hub.tell_done();
  std::vector<std::string> texts;
  for (RankEnd& end : all_ends(hub, children)) texts.push_back(std::move(end.text));
  return texts;
}

void follow(const RankEnvironment& self, const TeamWork& team, const RunLimits& limits) {
  TeamSpoke spoke(self, seconds(limits.meeting));
  RankEnvironment rank = self;
  if (rank.own_address.empty()) rank.own_address = spoke.own_address();
  const TeamStart start = spoke.await_start(seconds(limits.meeting));
  rank.master_port = start.store_port;
  rank.store_file = start.store_file;
  ChildRanks children;
  children.start(rank, [&](const RankEnvironment& who) { return team.work(who, start.announced); });
  // Rank 0 decides when a failure ends the run: it alone sees what came first.
  RunWatch watch(limits);
  bool told = false;
  while (!spoke.is_done()) {
    watch.goes_on(children, false);
    children.wait(kTurn);
    if (told || children.any_running()) continue;
    spoke.tell_end(children.ends().front());
    told = true;
  }
}

}  // namespace

std::vector<std::string> collect_from_team(const RankEnvironment& self, const TeamWork& team,
                                           const RunLimits& limits) {
  RankEnvironment rank = self;
  rank.own_address = address_of_named_interface();
  if (rank.rank == 0) return lead(rank, team, limits);
  follow(rank, team, limits);
  return {};
}

std::vector<std::string> collect_from_team(int nproc, const TeamWork& team,
                                           const RunLimits& limits) {
  const std::string announced = team.announce ? team.announce("127.0.0.1") : std::string();
  const auto work = [&](const RankEnvironment& process) {
    RankEnvironment self = process;
    self.world_size = self.local_world_size = nproc;
    return team.work(self, announced);
  };
  return collect_from_ranks(nproc + team.helpers, work, limits);
}

}  // namespace rehearse::inline calibrate
