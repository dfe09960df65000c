#include "explain/resource.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "cluster/scale.hpp"
#include "explain/pace.hpp"

namespace rehearse::inline explanation {
namespace {

struct Words {
  Resource resource;
  const char* name;
  const char* words;
  bool rate;
};
constexpr std::array<Words, 12> kWords{{
    {Resource::gpu, "gpu", "GPU speed", true},
    {Resource::nvlink, "nvlink", "NVLink bandwidth", true},
    {Resource::pcie, "pcie", "PCIe bandwidth", true},
    {Resource::nic, "nic", "NIC bandwidth", true},
    {Resource::fabric, "fabric", "switch bandwidth", true},
    {Resource::latency, "latency", "network latency", false},
    {Resource::server, "server", "server apply rate", true},
    {Resource::host, "host", "launch time", false},
    {Resource::loading, "loading", "loading time", false},
    {Resource::sockets, "sockets", "socket time of hosts", false},
    {Resource::straggling, "straggling", "sleep of slow ranks", false},
    {Resource::jitter, "jitter", "jitter", false},
}};

const Words& entry(Resource resource) {
  const auto found = std::ranges::find(kWords, resource, &Words::resource);
  check(found != kWords.end(), "an unknown resource");
  return *found;
}

template <class Holds>
bool any_compute(const Schedule& schedule, const Holds& holds) {
  return std::ranges::any_of(schedule.programs, [&](const Program& program) {
    return std::ranges::any_of(program.ops, [&](const Op& op) {
      const auto* compute = std::get_if<Compute>(&op.work);
      return compute && compute->duration > Seconds(0) && holds(op);
    });
  });
}

template <class Holds>
void speed_up_compute(double factor, Schedule& schedule, const Holds& holds) {
  for (Program& program : schedule.programs) {
    for (Op& op : program.ops) {
      auto* compute = std::get_if<Compute>(&op.work);
      if (compute && holds(op)) compute->duration *= 1 / factor;
    }
  }
}

bool of_host(const Op& op) { return op.phase == Phase::host; }
bool of_loading(const Op& op) { return op.phase == Phase::loading; }
bool of_server(const Op& op) { return op.phase == Phase::server; }

void speed_up_sockets(double factor, Transport& transport) {
  transport.wake *= 1 / factor;
  transport.per_message *= 1 / factor;
  transport.slice *= 1 / factor;
  transport.host_rate *= factor;
}

bool uses(Resource resource, const Machine& machine, const std::set<PortKind>& ports) {
  const Schedule& schedule = machine.schedule;
  switch (resource) {
    case Resource::gpu:
      return any_compute(schedule, trains);
    case Resource::nvlink:
      return ports.contains(PortKind::nvlink);
    case Resource::pcie:
      return ports.contains(PortKind::pcie) || ports.contains(PortKind::cpu) ||
             any_compute(schedule, is_copy);
    case Resource::nic:
      return ports.contains(PortKind::nic);
    case Resource::fabric:
      return ports.contains(PortKind::nic) && !std::holds_alternative<Star>(machine.cluster.fabric);
    case Resource::latency:
      return !ports.empty();
    case Resource::server:
      return any_compute(schedule, of_server);
    case Resource::host:
      return any_compute(schedule, of_host);
    case Resource::loading:
      return any_compute(schedule, of_loading);
    case Resource::sockets:
      return machine.comm && machine.comm->transport && ports.contains(PortKind::nic);
    case Resource::straggling:
      return std::ranges::any_of(schedule.ranks,
                                 [](const RankSpec& rank) { return rank.delay > Seconds(0); });
    case Resource::jitter:
      return schedule.jitter.cv > 0;  // not where it was measured
  }
  throw InternalError("internal error: unknown resource");
}

}  // namespace

std::string to_string(Resource resource) { return entry(resource).name; }
std::string words_of(Resource resource) { return entry(resource).words; }
bool is_rate(Resource resource) { return entry(resource).rate; }

std::vector<Resource> resources_of(const Machine& machine, const std::set<PortKind>& ports) {
  std::vector<Resource> resources;
  for (const Words& one : kWords)
    if (uses(one.resource, machine, ports)) resources.push_back(one.resource);
  return resources;
}

void speed_up(Resource resource, double factor, Machine& machine) {
  switch (resource) {
    case Resource::gpu:
      return speed_up_compute(factor, machine.schedule, trains);
    case Resource::nvlink:
      return scale_bandwidth(LinkPart::nvlink, factor, machine.cluster);
    case Resource::pcie:
      scale_bandwidth(LinkPart::pcie, factor, machine.cluster);
      return speed_up_compute(factor, machine.schedule, is_copy);
    case Resource::nic:
      return scale_bandwidth(LinkPart::nic, factor, machine.cluster);
    case Resource::fabric:
      return scale_bandwidth(LinkPart::fabric, factor, machine.cluster);
    case Resource::latency:
      return scale_latencies(1 / factor, machine.cluster);
    case Resource::server:
      return speed_up_compute(factor, machine.schedule, of_server);
    case Resource::host:
      return speed_up_compute(factor, machine.schedule, of_host);
    case Resource::loading:
      return speed_up_compute(factor, machine.schedule, of_loading);
    case Resource::sockets:
      if (machine.comm && machine.comm->transport)
        speed_up_sockets(factor, *machine.comm->transport);
      return;
    case Resource::straggling:
      for (RankSpec& rank : machine.schedule.ranks) rank.delay *= 1 / factor;
      return;
    case Resource::jitter:
      machine.schedule.jitter.cv /= factor;
      return;
  }
}

}  // namespace rehearse::inline explanation
