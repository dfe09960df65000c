#include "predict/collective_views.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "config/json_text.hpp"

namespace rehearse::inline prediction {
namespace {

double algbw(const CollectiveAnswer& row) { return (row.size / row.cost.total()).value() / 1e9; }
double busbw(const CollectiveAnswer& row) { return row.busbw().value() / 1e9; }
std::string protocol_of(const CollectiveAnswer& row) {
  return row.protocol().empty() ? "-" : row.protocol();
}

}  // namespace

std::string to_table(const PredictedCollective& table) {
  std::string text = fmt::format("# {} over {} ranks on {} node{} of {}: predicted, out of place\n",
                                 to_string(table.kind), table.ranks, table.nodes,
                                 table.nodes == 1 ? "" : "s", table.cluster);
  if (!table.curves.empty()) text += fmt::format("# curves: {}\n", table.curves);
  text += fmt::format("#{:>13} {:>12} {:>7} {:>11} {:>8} {:>8} {:>11} {:>11}  {:<9} {:<8} {}\n",
                      "size", "count", "type", "time", "algbw", "busbw", "90% from", "to",
                      "algorithm", "protocol", "answered by");
  text += fmt::format("#{:>13} {:>12} {:>7} {:>11} {:>8} {:>8} {:>11} {:>11}\n", "(B)",
                      "(elements)", "", "(us)", "(GB/s)", "(GB/s)", "(us)", "(us)");
  for (const CollectiveAnswer& row : table.rows) {
    const double us = row.cost.total().value() * 1e6, spread = std::exp(row.cost.uncertainty);
    text += fmt::format(
        "{:>14.0f} {:>12.0f} {:>7} {:>11.2f} {:>8.2f} {:>8.2f} {:>11.2f} {:>11.2f}  {:<9} {:<8} "
        "{}\n",
        row.size.value(), row.size.value() / 4, "float", us, algbw(row), busbw(row), us / spread,
        us * spread, row.algorithm(), protocol_of(row), to_string(row.cost.basis));
  }
  return text;
}

std::string to_csv(const PredictedCollective& table) {
  std::string text =
      "collective,ranks,nodes,bytes,time_us,low_us,high_us,algbw_GBps,busbw_GBps,algorithm,"
      "protocol,answered_by\n";
  for (const CollectiveAnswer& row : table.rows) {
    const double us = row.cost.total().value() * 1e6, spread = std::exp(row.cost.uncertainty);
    text += fmt::format("{},{},{},{:.0f},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{},{},{}\n",
                        to_string(table.kind), table.ranks, table.nodes, row.size.value(), us,
                        us / spread, us * spread, algbw(row), busbw(row), row.algorithm(),
                        protocol_of(row), to_string(row.cost.basis));
  }
  return text;
}

std::string to_json(const PredictedCollective& table) {
  nlohmann::ordered_json document{{"schema", "rehearse.collective/1"},
                                  {"collective", to_string(table.kind)},
                                  {"cluster", table.cluster},
                                  {"ranks", table.ranks},
                                  {"nodes", table.nodes}};
  auto& list = document["rows"] = nlohmann::ordered_json::array();
  for (const CollectiveAnswer& row : table.rows) {
    const double seconds = row.cost.total().value(), spread = std::exp(row.cost.uncertainty);
    list.push_back({{"bytes", row.size.value()},
                    {"time_s", seconds},
                    {"low_s", seconds / spread},
                    {"high_s", seconds * spread},
                    {"algbw_GBps", algbw(row)},
                    {"busbw_GBps", busbw(row)},
                    {"algorithm", row.algorithm()},
                    {"protocol", protocol_of(row)},
                    {"answered_by", to_string(row.cost.basis)},
                    {"outside", row.cost.outside}});
  }
  return json_text(document, 2) + "\n";
}

}  // namespace rehearse::inline prediction
