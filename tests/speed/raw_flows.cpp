#include "raw_flows.hpp"

#include <simgrid/s4u.hpp>
#include <string>

#include "engine/simgrid_zones.hpp"

namespace rehearse::speed {

namespace s4u = simgrid::s4u;

namespace {

std::vector<s4u::Host*> make_star(const s4u::Engine& engine, const std::vector<double>& rates) {
  std::vector<s4u::Host*> hosts;
  s4u::NetZone* star = simgrid_zones::add_star(simgrid_zones::world(engine), "star");
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const std::string name = std::to_string(i);
    s4u::Host* host = simgrid_zones::add_host(star, name);
    s4u::Link* out = simgrid_zones::add_link(star, name + " out", rates[i]);
    s4u::Link* in = simgrid_zones::add_link(star, name + " in", rates[i]);
    simgrid_zones::add_ways(star, host, {s4u::LinkInRoute(out)}, {s4u::LinkInRoute(in)});
    hosts.push_back(host);
  }
  star->seal();
  return hosts;
}

}  // namespace

double play_raw_flows(const std::vector<double>& rates,
                      const std::vector<std::vector<RawFlow>>& batches) {
  std::vector<std::string> words = {"raw", "--log=root.thresh:critical", "--cfg=network/model:CM02",
                                    "--cfg=network/crosstraffic:0", "--cfg=network/TCP-gamma:0"};
  std::vector<char*> argv(words.size() + 1, nullptr);
  for (std::size_t i = 0; i < words.size(); ++i) argv[i] = words[i].data();
  int argc = static_cast<int>(words.size());
  s4u::Engine engine(&argc, argv.data());
  const auto hosts = make_star(engine, rates);
  std::size_t batch = 0, left = 0;
  s4u::ActivityPtr over;
  const auto start = [&] {
    left = batches[batch].size();
    for (const RawFlow& raw : batches[batch]) {
      auto flow = s4u::Comm::sendto_init(hosts[raw.source], hosts[raw.target]);
      flow->set_payload_size(static_cast<std::uint64_t>(raw.bytes));
      intrusive_ptr_add_ref(flow.get());
      flow->start();
    }
  };
  s4u::Comm::on_completion_cb([&](const s4u::Activity& activity) {
    over.reset(const_cast<s4u::Activity*>(&activity), false);
    if (--left == 0 && ++batch < batches.size()) start();
  });
  start();
  engine.run();
  return s4u::Engine::get_clock();
}

}  // namespace rehearse::speed
