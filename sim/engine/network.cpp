#include "engine/network.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>
#include <utility>

// Only after the above, whose macros it needs.
#include <simgrid/version.h>

#include "base/error.hpp"
#include "engine/engine.hpp"
#include "engine/simgrid_zones.hpp"

namespace rehearse::inline engine {

namespace {

namespace s4u = simgrid::s4u;
using simgrid_zones::add_host, simgrid_zones::add_link, simgrid_zones::add_ways;

// SimGrid counts payloads in whole bytes; in units of 1/65536 byte a share of a collective keeps
// its fraction.
constexpr double kUnitsPerByte = 65536;

/// Of the network's own timers; `a` is a port, or who holds some, `b` a version.
constexpr std::uint32_t kLoopAlarm = ~0U, kBundleAlarm = ~1U;

// CM02 with every correction for TCP off: a flow lasts size / rate, and flows share links max-min
// fairly. The two precisions are absolute (seconds) and relative (rates); their defaults, 1e-9 and
// 1e-5, would show in step times.
const char* const kSettings[] = {"network/model:CM02",     "network/crosstraffic:0",
                                 "network/TCP-gamma:0",    "network/weight-S:0",
                                 "network/loopback-lat:0", "surf/precision:1e-13",
                                 "maxmin/precision:1e-12"};

/// SimGrid takes SIGINT and SIGSEGV for itself, and ends the process with 1. At the end of this,
/// who had them at its begin has them back.
class OwnSignals {
 public:
  OwnSignals() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], nullptr, &before_[i]);
  }
  ~OwnSignals() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }
  OwnSignals(const OwnSignals&) = delete;
  OwnSignals& operator=(const OwnSignals&) = delete;

 private:
  static constexpr std::array kSignals = {SIGINT, SIGSEGV};
  std::array<struct sigaction, kSignals.size()> before_;
};

std::unique_ptr<s4u::Engine> make_engine(Network::Pace pace) {
  static bool made = false;
  check(!made, "two simulations in one process");
  made = true;
  std::vector<std::string> words = {"rehearse", "--log=root.thresh:critical", "--log=no_loc"};
  for (const char* setting : kSettings) words.push_back(std::string("--cfg=") + setting);
  words.emplace_back(pace == Network::Pace::lockstep ? "--cfg=network/optim:Full"
                                                     : "--cfg=network/optim:Lazy");
  std::vector<char*> argv(words.size() + 1, nullptr);
  std::ranges::transform(words, argv.begin(), [](std::string& word) { return word.data(); });
  int argc = static_cast<int>(words.size());
  const OwnSignals own;
  return std::make_unique<s4u::Engine>(&argc, argv.data());
}

std::string name_of(const Port& port) {
  static const char* const kKinds[] = {"nvlink", "pcie", "cpu", "nic"};
  return std::string(kKinds[static_cast<int>(port.kind)]) + std::to_string(port.index) + "@" +
         std::to_string(port.node.index());
}

}  // namespace

Network::Network(const Cluster& cluster, const std::vector<Port>& used, Pace pace)
    : engine_(make_engine(pace)), buckets_(cluster, used), uses_(used.size()) {
  for (const Port& port : used) indices_.emplace(port, static_cast<std::uint32_t>(indices_.size()));
  check(indices_.size() == used.size(), "a port is named twice");
  hosts_.resize(used.size());
  staging_.resize(used.size());
  add_zones(cluster, used);
  cables_ = shaped_cables(cluster.fabric);
  s4u::Comm::on_completion_cb([this](const s4u::Activity& activity) {
    const auto slot =
        static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(activity.get_data<void>()));
    const Flow flow = flows_[slot];
    free_flows_.push_back(slot);
    uses_.end(flow.source, flow.target);
    // SimGrid still uses the activity after this callback: it is let go at the next one.
    over_.reset(const_cast<s4u::Activity*>(&activity), false);
    if (buckets_.any())
      buckets_.end(flow.source, flow.target, cables_between(flow.source, flow.target), now());
    on_token_(flow.token);
  });
}

Network::~Network() = default;

void Network::add_port(s4u::NetZone* zone, const Port& port, const Cluster& cluster) {
  const std::string name = name_of(port);
  const double rate = port_bandwidth(cluster, port).value() * kUnitsPerByte;
  s4u::Host* host = add_host(zone, name);
  const auto add_own = [&](const std::string& of, double its_rate) {
    s4u::Link* link = add_link(zone, of, its_rate);
    port_links_.insert(link);
    return link;
  };
  std::vector<s4u::LinkInRoute> up{s4u::LinkInRoute(add_own(name + " out", rate))};
  const bool shared = port.kind == PortKind::nic && cluster.node(port.node).nic_ways_shared;
  const std::vector<s4u::LinkInRoute> down =
      shared ? up : std::vector{s4u::LinkInRoute(add_own(name + " in", rate))};
  add_ways(zone, host, up, down);
  const std::uint32_t index = indices_.at(port);
  hosts_[index] = host;
  if (port.kind != PortKind::pcie || !staged(cluster, {port, port})) return;
  void*& memory = host_memory_[port.node];
  const double rate_of_all = staging_rate(cluster.node(port.node)).value() * kUnitsPerByte;
  if (!memory) memory = add_own("memory@" + std::to_string(port.node.index()), rate_of_all);
  // A star has a way out of a host for all of its flows. Those that are staged leave from a second
  // host at the same port; copies to the host itself are not passed on, and take the first one's.
  up.emplace_back(static_cast<s4u::Link*>(memory));
  s4u::Host* staging = add_host(zone, name + " staged");
  add_ways(zone, staging, up, down);
  staging_[index] = {staging, memory};
}

void Network::add_zones(const Cluster& cluster, const std::vector<Port>& used) {
  std::map<NodeId, std::vector<Port>> by_node;
  for (const Port& port : used) by_node[port.node].push_back(port);
  const auto make_node = [&](s4u::NetZone* fabric, std::size_t node) {
    s4u::NetZone* zone = simgrid_zones::add_star(fabric, "node" + std::to_string(node));
    s4u::Host* gateway = add_host(zone, "gateway" + std::to_string(node));
    add_ways(zone, gateway, {}, {});
    for (const Port& port : by_node[NodeId(node)]) add_port(zone, port, cluster);
    return std::make_pair(zone, gateway);
  };
  s4u::NetZone* world = simgrid_zones::world(*engine_);
  // A fabric's latencies are ours: CM02 would weigh shares by them.
  if (simgrid_zones::add_fabric(world, "fabric", cluster.fabric, kUnitsPerByte, 0, make_node))
    return;
  s4u::NetZone* star = simgrid_zones::add_star(world, "cluster");
  if (const auto* rail = std::get_if<Rail>(&cluster.fabric)) {
    add_switches(
        star, [rail](const Port& port) { return std::pair(rail->pod_of(port.node), port.index); },
        rail->bandwidth * rail->uplinks, cluster, used);
  } else if (const auto* sites = std::get_if<Sites>(&cluster.fabric)) {
    add_switches(
        star, [sites](const Port& port) { return std::pair(sites->site_of(port.node), 0); },
        sites->bandwidth, cluster, used);
  } else {
    for (const Port& port : used) add_port(star, port, cluster);
  }
  star->seal();
}

/// A zone for each switch, with a way of that rate to what blocks nobody. Ports other than NICs
/// keep to their node.
void Network::add_switches(s4u::NetZone* star, const SwitchOf& switch_of, BytesPerSecond above,
                           const Cluster& cluster, const std::vector<Port>& used) {
  std::map<std::pair<std::size_t, int>, std::vector<Port>> by_switch;
  for (const Port& port : used) {
    if (port.kind == PortKind::nic)
      by_switch[switch_of(port)].push_back(port);
    else
      add_port(star, port, cluster);
  }
  const double rate = above.value() * kUnitsPerByte;
  for (const auto& [where, ports] : by_switch) {
    const std::string name =
        "switch" + std::to_string(where.second) + "@" + std::to_string(where.first);
    s4u::NetZone* zone = simgrid_zones::add_star(star, name);
    s4u::Host* gateway = add_host(zone, name + " gateway");
    add_ways(zone, gateway, {}, {});
    for (const Port& port : ports) add_port(zone, port, cluster);
    add_ways(star, zone, gateway, {s4u::LinkInRoute(add_link(star, name + " up", rate))},
             {s4u::LinkInRoute(add_link(star, name + " down", rate))});
  }
}

double Network::now() const { return date_ >= 0 ? date_ : s4u::Engine::get_clock(); }

void Network::call_at(double date, Token token) {
  timers_.push({date, sequence_++, token});
  arm();
}

// SimGrid's timers cost far more than ours: one is set only when ours begin before all of those
// that are set.
void Network::arm() {
  if (timers_.empty() || date_ >= 0) return;
  const double date = timers_.top().date;
  if (!armed_.empty() && armed_.back() <= date) return;
  armed_.push_back(date);
  simgrid::kernel::timer::Timer::set(date, [this] { fire(); });
}

void Network::fire() {
  armed_.pop_back();
  const double clock = s4u::Engine::get_clock();
  while (!timers_.empty() && timers_.top().date <= clock) {
    const Timer timer = timers_.top();
    timers_.pop();
    date_ = std::max(timer.date, date_);
    if (timer.token.kind == kLoopAlarm) {
      end_loops(timer.token);
    } else if (timer.token.kind == kBundleAlarm) {
      end_bundle(timer.token);
    } else {
      on_token_(timer.token);
    }
  }
  date_ = -1;
  arm();
}

void Network::set_alarm(std::uint32_t port, Loops<Token>::Alarm alarm) {
  call_at(alarm.date, {kLoopAlarm, port, alarm.version});
}

void Network::end_loops(Token alarm) {
  std::optional<Loops<Token>::Alarm> then;
  const std::vector<Token> over = loops_.end(alarm.a, alarm.b, now(), then);
  if (then) set_alarm(alarm.a, *then);
  for (const Token& token : over) on_token_(token);
}

bool Network::start_bundle(const Bundle& bundle, Bytes size, Token whole, Token each) {
  if (!uses_.is_idle(bundle)) return false;
  if (free_held_.empty()) {
    free_held_.push_back(static_cast<std::uint32_t>(held_.size()));
    held_.emplace_back();
  }
  const std::uint32_t slot = free_held_.back();
  free_held_.pop_back();
  const std::uint32_t version = held_[slot].version + 1;
  held_[slot] = {&bundle, size, now(), whole, each, version};
  uses_.hold(bundle, slot);
  call_at(now() + size.value() * bundle.end(), {kBundleAlarm, slot, version});
  return true;
}

void Network::end_bundle(Token alarm) {
  Held& held = held_[alarm.a];
  if (held.bundle == nullptr || held.version != alarm.b) return;
  uses_.release(*std::exchange(held.bundle, nullptr));
  free_held_.push_back(alarm.a);
  on_token_(held.whole);
}

/// What holds a port of the flow's goes on as flows of its own, with what each has left.
void Network::make_room(std::uint32_t source, std::uint32_t target) {
  while (const auto holder = uses_.in_the_way(source, target)) {
    const Held held = held_[*holder];
    held_[*holder].bundle = nullptr;
    uses_.release(*held.bundle);
    free_held_.push_back(*holder);
    for (std::uint32_t flow = 0; flow < held.bundle->flows.size(); ++flow) {
      const Bytes left =
          held.size * held.bundle->left(flow, (now() - held.since) / held.size.value());
      const Token token{held.each.kind, held.each.a, flow};
      const auto& [from, to] = held.bundle->flows[flow];
      if (left.value() * kUnitsPerByte < 1) {
        call_at(now(), token);
      } else {
        start_flow(from, to, left, token);
      }
    }
  }
}

std::optional<Network::Cables> Network::shaped_cables(const Fabric& fabric) {
  return std::visit(
      [](const auto& one) -> std::optional<Cables> {
        if constexpr (requires { one.burst; })
          if (one.burst) return Cables{one.bandwidth, *one.burst};
        return std::nullopt;
      },
      fabric);
}

/// Their numbers as buckets, where cables have some.
std::span<const std::uint32_t> Network::cables_between(std::uint32_t source, std::uint32_t target) {
  if (!cables_) return {};
  const auto [way, fresh] = ways_.try_emplace({source, target});
  if (!fresh) return way->second;
  std::vector<s4u::Link*> links;
  double latency = 0;
  hosts_[source]->route_to(hosts_[target], links, &latency);
  for (const s4u::Link* link : links) {
    if (port_links_.contains(link)) continue;
    const auto [number, first] = cable_numbers_.try_emplace(link);
    if (first) number->second = buckets_.add_cable(cables_->burst, cables_->bandwidth);
    way->second.push_back(number->second);
  }
  return way->second;
}

s4u::Host* Network::source_host(std::uint32_t source, std::uint32_t target) const {
  const Staging& from = staging_[source];
  const bool passed_on = from.memory != nullptr && from.memory == staging_[target].memory;
  return passed_on ? from.host : hosts_[source];
}

void Network::start_flow(std::uint32_t source, std::uint32_t target, Bytes size, Token token) {
  if (source == target && loops_.has(source))
    return set_alarm(source, loops_.start(source, size, token, now()));
  if (buckets_.any()) {
    size = buckets_.start(source, target, cables_between(source, target), size, now());
    if (size <= Bytes(0)) return call_at(now(), token);
  }
  make_room(source, target);
  uses_.begin(source, target);
  std::uint32_t slot = 0;
  if (free_flows_.empty()) {
    slot = static_cast<std::uint32_t>(flows_.size());
    flows_.push_back({token, source, target});
  } else {
    slot = free_flows_.back();
    free_flows_.pop_back();
    flows_[slot] = {token, source, target};
  }
  s4u::CommPtr flow = s4u::Comm::sendto_init(source_host(source, target), hosts_[target]);
  const double units = std::max(1.0, std::round(size.value() * kUnitsPerByte));
  check(units < 0x1p63, "a flow of more bytes than can be counted");
  flow->set_payload_size(static_cast<std::uint64_t>(units));
  flow->set_data(reinterpret_cast<void*>(static_cast<std::uintptr_t>(slot)));
  intrusive_ptr_add_ref(
      flow.get());  // SimGrid keeps none of its own; taken over when the flow has ended
  flow->start();
}

void Network::run(Callback on_token) {
  on_token_ = std::move(on_token);
  arm();
  engine_->run();
}

std::string simgrid_version() {
  return std::to_string(SIMGRID_VERSION_MAJOR) + "." + std::to_string(SIMGRID_VERSION_MINOR);
}

std::vector<std::string> simgrid_settings() { return {std::begin(kSettings), std::end(kSettings)}; }

}  // namespace rehearse::inline engine
