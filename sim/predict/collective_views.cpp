#include "predict/collective_views.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "config/json/json_record.hpp"
#include "config/json/json_text.hpp"

namespace rehearse::inline prediction {
namespace {

double algbw(const CollectiveAnswer& row) { return (row.size / row.cost.total()).value() / 1e9; }
double busbw(const CollectiveAnswer& row) { return row.busbw().value() / 1e9; }
std::string protocol_of(const CollectiveAnswer& row) {
  return row.protocol().empty() ? "-" : row.protocol();
}

double seconds_of(const CollectiveAnswer& row) { return row.cost.total().value(); }
double spread_of(const CollectiveAnswer& row) { return std::exp(row.cost.uncertainty); }

}  // namespace

constexpr auto json_fields(const CollectiveAnswer*) {
  using Row = CollectiveAnswer;
  return std::tuple(
      derived<Row>("bytes", [](const Row& row) { return row.size.value(); }),
      derived<Row>("time_s", seconds_of),
      derived<Row>("low_s", [](const Row& row) { return seconds_of(row) / spread_of(row); }),
      derived<Row>("high_s", [](const Row& row) { return seconds_of(row) * spread_of(row); }),
      derived<Row>("algbw_GBps", algbw), derived<Row>("busbw_GBps", busbw),
      derived<Row>("algorithm", [](const Row& row) { return row.algorithm(); }),
      derived<Row>("protocol", protocol_of),
      derived<Row>("answered_by", [](const Row& row) { return to_string(row.cost.basis); }),
      derived<Row>("outside", [](const Row& row) { return row.cost.outside; }));
}

constexpr auto json_fields(const PredictedCollective*) {
  using Table = PredictedCollective;
  return std::tuple(
      constant<Table>("schema", "rehearse.collective/1"),
      derived<Table>("collective", [](const Table& table) { return to_string(table.kind); }),
      field("cluster", &Table::cluster), field("ranks", &Table::ranks),
      field("nodes", &Table::nodes), field("rows", &Table::rows));
}

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
  return json_text(to_json_value(table), 2) + "\n";
}

nlohmann::ordered_json collective_schema() {
  return titled_schema("Times of a collective by size", json_schema<PredictedCollective>());
}

}  // namespace rehearse::inline prediction
