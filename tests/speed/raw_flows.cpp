#include "raw_flows.hpp"

#include <simgrid/s4u.hpp>
#include <string>

namespace rehearse::speed {

namespace s4u = simgrid::s4u;

namespace {

std::vector<s4u::Host*> make_star(const std::vector<double>& rates) {
  std::vector<s4u::Host*> hosts;
  s4u::NetZone* star = s4u::create_star_zone("star");
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const std::string name = std::to_string(i);
    s4u::Host* host = star->create_host(name, 1.0);
    s4u::Link* out = star->create_link(name + " out", rates[i])->set_latency(0.0);
    s4u::Link* in = star->create_link(name + " in", rates[i])->set_latency(0.0);
    star->add_route(host->get_netpoint(), nullptr, nullptr, nullptr, {s4u::LinkInRoute(out)},
                    false);
    star->add_route(nullptr, host->get_netpoint(), nullptr, nullptr, {s4u::LinkInRoute(in)}, false);
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
  const auto hosts = make_star(rates);
  std::size_t batch = 0, left = 0;
  s4u::ActivityPtr over;
  const auto start = [&] {
    left = batches[batch].size();
    for (const RawFlow& raw : batches[batch]) {
      auto flow = s4u::Comm::sendto_init(hosts[raw.source], hosts[raw.target]);
      flow->set_payload_size(static_cast<std::uint64_t>(raw.bytes));
      intrusive_ptr_add_ref(flow.get());
      flow->vetoable_start();
    }
  };
  s4u::Activity::on_completion_cb([&](const s4u::Activity& activity) {
    over.reset(const_cast<s4u::Activity*>(&activity), false);
    if (--left == 0 && ++batch < batches.size()) start();
  });
  start();
  engine.run();
  return s4u::Engine::get_clock();
}

}  // namespace rehearse::speed
