#include "profile/comm_links.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "profile/yaml_text.hpp"

namespace rehearse::inline profile {
namespace {

constexpr std::int64_t kMostNics = 64;
constexpr BytesPerSecond kLeastRdmaRate{12.5e9};
constexpr BytesPerSecond kSocketRate{0.95e9}, kFastSocketRate{1.4e9}, kTcpHostRate{4.6e9};
constexpr int kAmazonSockets = 16, kGoogleSockets = 4;
/// NCCL has two channels at least, and each has a connection of its own.
constexpr double kConnections = 2;
constexpr std::int64_t kMostSockets = 64;  // NCCL's MAX_SOCKETS

void read_sockets(Map& map, NicTransport& transport) {
  if (const auto sockets = map.optional("sockets"))
    transport.sockets = static_cast<int>(sockets->as_integer(1, kMostSockets)),
    transport.sockets_stated = true;
  if (const auto rate = map.optional("socket_rate"))
    transport.socket_rate = rate->as_bytes_per_second(), transport.socket_rate_stated = true;
  if (const auto rate = map.optional("host_rate"))
    transport.host_rate = rate->as_bytes_per_second();
}

NicTransport read_named(NicTransport::Kind kind, const Value& value) {
  NicTransport transport = transport_of(kind);
  Map map = value.as_map();
  if (const auto efficiency = map.optional("efficiency")) {
    transport.efficiency = efficiency->as_positive_number();
    if (transport.efficiency > 1) efficiency->fail("expected a share of the NIC's rate, at most 1");
  }
  if (const auto rate = map.optional("rate")) {
    transport.rate = rate->as_bytes_per_second();
    transport.rate_known = true;
    transport.socket_rate = transport.host_rate =
        BytesPerSecond(std::numeric_limits<double>::infinity());
    transport.socket_rate_stated = true;
  }
  if (kind == NicTransport::Kind::tcp) read_sockets(map, transport);
  if (const auto each = map.optional("per_message")) transport.per_message = each->as_seconds();
  if (const auto each = map.optional("per_chunk")) transport.per_chunk = each->as_seconds();
  if (const auto low = map.optional("low_latency")) transport.low_latency = low->as_bool();
  map.finish();
  return transport;
}

std::string text_of(const NicTransport& transport) {
  std::string text = fmt::format("{{{}: {{", to_string(transport.kind));
  if (transport.efficiency != 1) text += fmt::format("efficiency: {:.6g}, ", transport.efficiency);
  if (std::isfinite(transport.most().value()))
    text += fmt::format("rate: {}, ", yaml_bytes_per_second(transport.most()));
  text += fmt::format("per_message: {}", yaml_seconds(transport.per_message));
  if (transport.per_chunk != transport_of(transport.kind).per_chunk)
    text += fmt::format(", per_chunk: {}", yaml_seconds(transport.per_chunk));
  return text + (transport.low_latency ? "}}" : ", low_latency: false}}");
}

class Differences {
 public:
  template <class T>
  void add(const char* key, const T& here, const T& measured) {
    if (here == measured) return;
    if (!text_.empty()) text_ += ", ";
    text_ += fmt::format("{} {}, measured at {}", key, shown(here), shown(measured));
  }
  std::string text() const { return text_; }

 private:
  static std::string shown(int count) { return std::to_string(count); }
  static std::string shown(bool yes) { return yes ? "true" : "false"; }
  static std::string shown(Seconds time) { return format(time); }
  static std::string shown(BytesPerSecond rate) { return rate.value() > 0 ? format(rate) : "none"; }
  static std::string shown(const NicTransport& transport) { return text_of(transport); }

  std::string text_;
};

}  // namespace

BytesPerSecond NicTransport::most() const {
  return std::min({rate, socket_rate * (kConnections * sockets), host_rate});
}

void NicTransport::scale_rates(double factor) {
  rate *= factor;
  socket_rate *= factor;
  host_rate *= factor;
}

NicTransport transport_of(NicTransport::Kind kind) {
  if (kind == NicTransport::Kind::rdma)
    return {.kind = kind, .per_message = Seconds(7e-6), .per_chunk = Seconds(4e-6)};
  return {.kind = kind,
          .socket_rate = kSocketRate,
          .host_rate = kTcpHostRate,
          .per_message = Seconds(28e-6),
          .rate_known = false};
}

void settle_sockets(NicTransport& transport, NicVendor vendor, BytesPerSecond nic) {
  if (transport.kind != NicTransport::Kind::tcp) return;
  if (!transport.sockets_stated && vendor == NicVendor::amazon) transport.sockets = kAmazonSockets;
  if (!transport.sockets_stated && vendor == NicVendor::google) transport.sockets = kGoogleSockets;
  if (!transport.socket_rate_stated && nic >= kLeastRdmaRate)
    transport.socket_rate = kFastSocketRate;
}

NicTransport usual_transport(BytesPerSecond nic) {
  NicTransport transport =
      transport_of(nic < kLeastRdmaRate ? NicTransport::Kind::tcp : NicTransport::Kind::rdma);
  transport.stated = false;
  return transport;
}

std::string to_string(NicTransport::Kind kind) {
  return kind == NicTransport::Kind::rdma ? "rdma" : "tcp";
}

NicTransport read_nic_transport(const Value& value) {
  if (value.is_scalar()) {
    const bool rdma = value.as_choice({"rdma", "tcp"}) == "rdma";
    return transport_of(rdma ? NicTransport::Kind::rdma : NicTransport::Kind::tcp);
  }
  Map map = value.as_map();
  const std::optional<Value> rdma = map.optional("rdma"), tcp = map.optional("tcp");
  map.finish();
  if (rdma.has_value() == tcp.has_value())
    value.fail("expected one of rdma, tcp", "write, for example, `transport: rdma`");
  return rdma ? read_named(NicTransport::Kind::rdma, *rdma)
              : read_named(NicTransport::Kind::tcp, *tcp);
}

CommLinks read_comm_links(const Value& value) {
  Map map = value.as_map();
  CommLinks links;
  if (const auto nvlink = map.optional("nvlink")) links.nvlink = nvlink->as_bytes_per_second();
  links.nvlink_latency = map.seconds_or("nvlink_latency", kNvLinkLatency);
  links.pcie = map.bytes_per_second_or("pcie", kPcieBandwidth);
  links.pcie_latency = map.seconds_or("pcie_latency", kPcieLatency);
  links.pcie_peer_to_peer = map.bool_or("pcie_peer_to_peer", true);
  links.staged_rate = map.bytes_per_second_or("staged_rate", kStagedRate);
  const std::optional<Value> nic = map.optional("nic"), nics = map.optional("nics"),
                             latency = map.optional("nic_latency"),
                             transport = map.optional("transport");
  map.finish();
  if (!nic) {
    for (const char* key : {"nics", "nic_latency", "transport"}) {
      if (map.has(key))
        map.at_key(key).fail("describes a NIC without its rate",
                             "give its rate per direction too, such as `nic: 25Gbps`");
    }
    return links;
  }
  links.nic = nic->as_bytes_per_second();
  links.nics = nics ? static_cast<int>(nics->as_integer(1, kMostNics)) : 1;
  links.transport = transport ? read_nic_transport(*transport) : usual_transport(links.nic);
  settle_sockets(links.transport, NicVendor::other, links.nic);
  const bool tcp = links.transport.kind == NicTransport::Kind::tcp;
  links.nic_latency = latency ? latency->as_seconds() : (tcp ? kTcpLatency : kRdmaLatency);
  return links;
}

std::string to_yaml(const CommLinks& links) {
  std::string text = "{";
  if (links.nvlink.value() > 0) {
    text += fmt::format("nvlink: {}, nvlink_latency: {}, ", yaml_bytes_per_second(links.nvlink),
                        yaml_seconds(links.nvlink_latency));
  }
  text += fmt::format("pcie: {}, pcie_latency: {}", yaml_bytes_per_second(links.pcie),
                      yaml_seconds(links.pcie_latency));
  if (!links.pcie_peer_to_peer) {
    text += fmt::format(", pcie_peer_to_peer: false, staged_rate: {}",
                        yaml_bytes_per_second(links.staged_rate));
  }
  if (links.nics > 0) {
    text += fmt::format(", nics: {}, nic: {}, nic_latency: {}, transport: {}", links.nics,
                        yaml_bytes_per_second(links.nic), yaml_seconds(links.nic_latency),
                        text_of(links.transport));
  }
  return text + "}";
}

std::string differences(const CommLinks& here, const CommLinks& measured, bool inside,
                        bool between) {
  Differences unlike;
  const bool by_nvlink = here.nvlink.value() > 0 || measured.nvlink.value() > 0;
  if (inside && by_nvlink) {
    unlike.add("nvlink", here.nvlink, measured.nvlink);
    unlike.add("nvlink_latency", here.nvlink_latency, measured.nvlink_latency);
  } else if (inside) {
    unlike.add("pcie", here.pcie, measured.pcie);
    unlike.add("pcie_latency", here.pcie_latency, measured.pcie_latency);
    unlike.add("pcie_peer_to_peer", here.pcie_peer_to_peer, measured.pcie_peer_to_peer);
    if (!here.pcie_peer_to_peer && !measured.pcie_peer_to_peer)
      unlike.add("staged_rate", here.staged_rate, measured.staged_rate);
  }
  if (!between) return unlike.text();
  unlike.add("nics", here.nics, measured.nics);
  unlike.add("nic", here.nic, measured.nic);
  unlike.add("nic_latency", here.nic_latency, measured.nic_latency);
  unlike.add("transport", here.transport, measured.transport);
  return unlike.text();
}

}  // namespace rehearse::inline profile
