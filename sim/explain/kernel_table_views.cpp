#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "config/json_text.hpp"
#include "explain/kernel_table.hpp"
#include "view/table.hpp"
#include "view/views.hpp"

namespace rehearse::inline explanation {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kNarrowestTable = 60, kWidestTable = 160;
constexpr std::size_t kListedRows = 25;  ///< rows of a brief answer

std::string joined(const std::vector<std::string>& texts, std::string_view between) {
  return fmt::format("{}", fmt::join(texts, between));
}

std::string shapes_of(const KernelRow& row) {
  if (row.writes.empty()) return joined(row.reads, " ");
  return joined(row.reads, " ") + " -> " + joined(row.writes, " ");
}

std::string ground_of(const KernelRow& row) {
  if (!row.cost.known) return "bandwidth alone";
  return to_string(row.cost.ground);
}

Json calls_of(const std::vector<std::pair<std::size_t, double>>& pass) {
  Json list = Json::array();
  for (const auto& [row, calls] : pass) list.push_back({row, calls});
  return list;
}

/// Sums of an operator's rows in both passes.
struct OperatorSum {
  std::string op;
  double calls = 0, flops = 0;
  Bytes bytes;
  Seconds time;
};

std::vector<OperatorSum> by_operator(const KernelTable& table) {
  std::map<std::string, OperatorSum> sums;
  for (const KernelRow& row : table.rows) {
    OperatorSum& sum = sums[row.op];
    sum.op = row.op;
    sum.calls += row.calls;
    sum.flops += row.cost.flops;
    sum.bytes += row.cost.bytes;
    sum.time += row.cost.time;
  }
  std::vector<OperatorSum> sorted;
  for (auto& [op, sum] : sums) sorted.push_back(std::move(sum));
  std::ranges::stable_sort(sorted, std::ranges::greater{}, &OperatorSum::time);
  return sorted;
}

double share_of(Seconds part, Seconds whole) { return whole > Seconds(0) ? part / whole : 0; }

Table operators_table(const KernelTable& table) {
  Table shown;
  shown.column("operator", TableColumn::Side::left);
  for (const char* title : {"calls", "bytes", "FLOPs", "time", "share"})
    shown.column(title, TableColumn::Side::right);
  for (const OperatorSum& sum : by_operator(table))
    shown.row(
        {{sum.op, fmt::format("{:.0f}", sum.calls), table.is_recorded ? "" : format(sum.bytes),
          sum.flops > 0 ? format(Flops(sum.flops)) : "", format(sum.time),
          percent(share_of(sum.time, table.time))}});
  return shown;
}

Table rows_table(const KernelTable& table, std::size_t most) {
  Table shown;
  shown.column("kernel", TableColumn::Side::left);
  shown.column("pass", TableColumn::Side::left);
  for (const char* title : {"calls", "time", "share"})
    shown.column(title, TableColumn::Side::right);
  shown.column("ground", TableColumn::Side::left);
  for (std::size_t i = 0; i < std::min(most, table.rows.size()); ++i) {
    const KernelRow& row = table.rows[i];
    shown.row({{row.op, to_string(row.pass), fmt::format("{:.0f}", row.calls),
                format(row.cost.time), percent(row.share), ground_of(row)},
               shapes_of(row)});
  }
  return shown;
}

}  // namespace

std::string to_json(const KernelTable& table) {
  Json rows = Json::array(), operators = Json::array(), units = Json::array();
  for (const KernelRow& row : table.rows)
    rows.push_back({{"op", row.op},
                    {"pass", to_string(row.pass)},
                    {"reads", row.reads},
                    {"writes", row.writes},
                    {"calls", row.calls},
                    {"bytes", row.cost.bytes.value()},
                    {"flops", row.cost.flops},
                    {"time_s", row.cost.time.value()},
                    {"share", row.share},
                    {"family", to_string(row.cost.family)},
                    {"ground", ground_of(row)},
                    {"from", row.cost.from}});
  for (const OperatorSum& sum : by_operator(table))
    operators.push_back({{"op", sum.op},
                         {"calls", sum.calls},
                         {"bytes", sum.bytes.value()},
                         {"flops", sum.flops},
                         {"time_s", sum.time.value()},
                         {"share", share_of(sum.time, table.time)}});
  for (const KernelUnit& unit : table.units)
    units.push_back({{"name", unit.name},
                     {"forward", calls_of(unit.forward)},
                     {"backward", calls_of(unit.backward)}});
  const Json document = {{"schema", "rehearse.kernels/1"},
                         {"scenario", table.scenario},
                         {"model", table.model},
                         {"gpu", table.gpu},
                         {"precision", table.precision},
                         {"batch", table.batch},
                         {"calls", table.calls},
                         {"bytes", table.bytes.value()},
                         {"flops", table.flops},
                         {"time_s", table.time.value()},
                         {"units_time_s", table.units_time.value()},
                         {"operators", std::move(operators)},
                         {"kernels", std::move(rows)},
                         {"units", std::move(units)}};
  return json_text(document, 2) + "\n";
}

std::string to_csv(const KernelTable& table) {
  Table sheet;
  for (const char* title : {"op", "pass", "reads", "writes", "calls", "bytes", "flops", "time_s",
                            "share", "ground", "from"})
    sheet.column(title, TableColumn::Side::left);
  for (const KernelRow& row : table.rows)
    sheet.row({{row.op, to_string(row.pass), joined(row.reads, " "), joined(row.writes, " "),
                fmt::format("{}", row.calls), fmt::format("{:.0f}", row.cost.bytes.value()),
                fmt::format("{:.0f}", row.cost.flops), fmt::format("{:.9g}", row.cost.time.value()),
                fmt::format("{:.6g}", row.share), ground_of(row), row.cost.from}});
  return sheet.csv();
}

std::string to_terminal(const KernelTable& table, int width, bool color, Detail detail) {
  Page page(std::clamp(static_cast<std::size_t>(std::max(width, 0)), kNarrowestTable, kWidestTable),
            color);
  page.paragraph(Ink::strong, fmt::format("{} · {} · batch {} · {}", table.model, table.precision,
                                          table.batch, table.gpu));
  page.paragraph(
      Ink::faint,
      fmt::format("Kernels of one forward and backward pass, without the optimizer's and "
                  "without collectives: {:.0f} calls, {}.",
                  table.calls,
                  table.is_recorded ? "as they were recorded"
                                    : format(table.bytes) + ", " + format(Flops(table.flops))));
  page.paragraph(Ink::faint,
                 fmt::format("They take {}, one by one; the schedule counts {} for these units.",
                             format(table.time), format(table.units_time)));
  page.blank();
  operators_table(table).print(page);
  page.blank();
  const std::size_t most = detail == Detail::all ? table.rows.size() : kListedRows;
  rows_table(table, most).print(page);
  if (most < table.rows.size())
    page.paragraph(Ink::faint, fmt::format("{} more kinds of calls: --verbose, or --format csv.",
                                           table.rows.size() - most));
  return page.text();
}

}  // namespace rehearse::inline explanation
