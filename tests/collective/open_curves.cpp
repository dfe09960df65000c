#include "collective/open_curves.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "base/data_folder.hpp"
#include "base/error.hpp"

namespace rehearse {
namespace {

using Row = std::map<std::string, std::string>;

std::vector<std::string> split(const std::string& line, char at) {
  std::vector<std::string> parts;
  std::stringstream stream(line);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

std::vector<Row> table(const std::string& name) {
  std::ifstream file(data_folder() / "tests" / "data" / "collectives" / name);
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> keys = split(line, ',');
  std::vector<Row> rows;
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = split(line, ',');
    Row& row = rows.emplace_back();
    for (std::size_t i = 0; i < keys.size(); ++i) row[keys[i]] = i < cells.size() ? cells[i] : "";
  }
  check(!rows.empty(), "no rows in tests/data/collectives");
  return rows;
}

double number(const Row& row, const std::string& key, double missing = 0) {
  return row.at(key).empty() ? missing : std::stod(row.at(key));
}
BytesPerSecond rate(const Row& row, const std::string& key) {
  return BytesPerSecond(number(row, key) * 1e9);
}

NcclOptions options_of(const Row& row) {
  // A version that the log does not say has an interval of its own, which is not tested here.
  NcclOptions options{.version = NcclVersion{2, 20}};
  if (!row.at("nccl").empty()) {
    const std::vector<std::string> parts = split(row.at("nccl"), '.');
    options.version = {std::stoi(parts[0]), std::stoi(parts[1])};
  }
  if (row.at("algorithms") == "Ring") options.algorithms = {NcclAlgorithm::ring};
  if (!row.at("protocols").empty()) options.protocols = {NcclProtocol::ll, NcclProtocol::simple};
  return options;
}

/// `gpus` to a node, of which curves use the first ones.
Cluster cluster_of(const Row& row, int gpus, int nodes) {
  Node node;
  node.gpus = gpus;
  if (!row.at("architecture").empty())
    node.gpu.architecture = gpu_architecture(row.at("architecture"));
  if (!row.at("nvlink_GBps").empty())
    node.nvlink = NvLink{rate(row, "nvlink_GBps"), kNvLinkLatency};
  const bool staged = !row.at("staged_GBps").empty();
  node.pcie = {.bandwidth = rate(row, "pcie_GBps"),
               .latency = kPcieLatency,
               .peer_to_peer = !staged,
               .host_bandwidth = BytesPerSecond(1e12),
               .staged_rate = rate(row, "staged_GBps")};
  node.nics = std::min(gpus, static_cast<int>(number(row, "nics", 1)));
  node.nic_bandwidth = rate(row, "nic_GBps");
  node.transport.efficiency = number(row, "efficiency", 1);
  if (!row.at("rate_GBps").empty()) node.transport.rate = rate(row, "rate_GBps");
  node.transport.per_message = Seconds(number(row, "step_us") * 1e-6);
  node.transport.per_chunk = Seconds(number(row, "chunk_us") * 1e-6);
  node.transport.low_latency = row.at("low_latency") != "0";
  Cluster cluster;
  cluster.groups = {{.name = "measured", .nodes = nodes, .node = node}};
  cluster.nccl = options_of(row);
  return cluster;
}

NcclMachine machine_of(const Row& row, int ranks, int nodes) {
  const bool whole_node = nodes == 1 && row.at("staged_GBps").empty();
  const Cluster cluster = cluster_of(row, whole_node ? 8 : ranks / nodes, nodes);
  std::vector<Place> places = gpu_places(cluster);
  places.resize(static_cast<std::size_t>(ranks));
  return nccl_machine(cluster, places, ranks, nodes);
}

std::vector<OpenPoint> read_points() {
  constexpr double kLaunchOfOneProcess = 2.3e-6;  // of each GPU
  std::map<std::string, Row> machines;
  for (const Row& row : table("machines.csv")) machines[row.at("machine")] = row;
  std::vector<OpenPoint> points;
  for (const Row& curve : table("curves.csv")) {
    const Row& row = machines.at(curve.at("machine"));
    const int ranks = std::stoi(curve.at("ranks")), nodes = std::stoi(curve.at("nodes"));
    OpenPoint point{.machine_name = curve.at("machine"),
                    .machine = machine_of(row, ranks, nodes),
                    .kind = parse_collective_kind(curve.at("collective"))};
    if (row.at("one_process") == "1") point.launches = Seconds(kLaunchOfOneProcess * ranks);
    for (const std::string& pair : split(curve.at("bytes:time_us"), ' ')) {
      const std::vector<std::string> parts = split(pair, ':');
      point.size = Bytes(std::stod(parts[0]));
      point.measured = Seconds(std::stod(parts[1]) * 1e-6);
      points.push_back(point);
    }
  }
  return points;
}

}  // namespace

const std::vector<OpenPoint>& open_points() {
  static const std::vector<OpenPoint> points = read_points();
  return points;
}

std::vector<LeftOut> left_out_points() {
  std::vector<LeftOut> points;
  for (const Row& row : table("left_out.csv"))
    points.push_back(
        {row.at("machine"), Bytes(number(row, "bytes")), Seconds(number(row, "measured_us") * 1e-6),
         Seconds(number(row, "shipped_us") * 1e-6), Seconds(number(row, "left_out_us") * 1e-6)});
  return points;
}

int band_of(Bytes size) {
  const double kib = size.value() * 1.0001 / 1024;
  return kib < 64 ? 0 : (kib < 1024 ? 1 : (kib < 65536 ? 2 : 3));
}

void Errors::add(Seconds predicted, Seconds measured, double half_width) {
  relative.push_back(predicted / measured - 1);
  if (std::abs(std::log(predicted / measured)) <= half_width) ++inside;
}

double Errors::mean_absolute() const {
  double sum = 0;
  for (const double error : relative) sum += std::abs(error);
  return 100 * sum / static_cast<double>(relative.size());
}

}  // namespace rehearse
