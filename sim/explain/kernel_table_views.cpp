#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "config/json/json_record.hpp"
#include "config/json/json_text.hpp"
#include "explain/kernel_table.hpp"
#include "view/table.hpp"
#include "view/views.hpp"

namespace rehearse::inline explanation {
namespace {

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

/// Sums of an operator's rows in both passes.
struct OperatorSum {
  std::string op;
  double calls = 0, flops = 0;
  Bytes bytes;
  Seconds time;
  double share = 0;  ///< of the time of all rows
};

double share_of(Seconds part, Seconds whole) { return whole > Seconds(0) ? part / whole : 0; }

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
  for (auto& [op, sum] : sums) sum.share = share_of(sum.time, table.time);
  std::vector<OperatorSum> sorted;
  for (auto& [op, sum] : sums) sorted.push_back(std::move(sum));
  std::ranges::stable_sort(sorted, std::ranges::greater{}, &OperatorSum::time);
  return sorted;
}

constexpr auto json_fields(const OperatorSum*) {
  using Sum = OperatorSum;
  return std::tuple(field("op", &Sum::op), field("calls", &Sum::calls),
                    derived<Sum>("bytes", [](const Sum& sum) { return sum.bytes.value(); }),
                    field("flops", &Sum::flops), field("time_s", &Sum::time),
                    field("share", &Sum::share));
}

Table operators_table(const KernelTable& table) {
  Table shown;
  shown.column("operator", TableColumn::Side::left);
  for (const char* title : {"calls", "bytes", "FLOPs", "time", "share"})
    shown.column(title, TableColumn::Side::right);
  for (const OperatorSum& sum : by_operator(table))
    shown.row(
        {{sum.op, fmt::format("{:.0f}", sum.calls), table.is_recorded ? "" : format(sum.bytes),
          sum.flops > 0 ? format(Flops(sum.flops)) : "", format(sum.time), percent(sum.share)}});
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

constexpr auto json_fields(const KernelRow*) {
  using Row = KernelRow;
  return std::tuple(
      field("op", &Row::op),
      derived<Row>("pass", [](const Row& row) { return std::string(to_string(row.pass)); }),
      field("reads", &Row::reads), field("writes", &Row::writes), field("calls", &Row::calls),
      derived<Row>("bytes", [](const Row& row) { return row.cost.bytes.value(); }),
      derived<Row>("flops", [](const Row& row) { return row.cost.flops; }),
      derived<Row>("time_s", [](const Row& row) { return row.cost.time; }),
      field("share", &Row::share),
      derived<Row>("family",
                   [](const Row& row) { return std::string(to_string(row.cost.family)); }),
      derived<Row>("ground", ground_of),
      derived<Row>("from", [](const Row& row) { return row.cost.from; }));
}

constexpr auto json_fields(const KernelUnit*) {
  using Unit = KernelUnit;
  return std::tuple(field("name", &Unit::name), field("forward", &Unit::forward),
                    field("backward", &Unit::backward));
}

constexpr auto json_fields(const KernelTable*) {
  using Table = KernelTable;
  return std::tuple(constant<Table>("schema", "rehearse.kernels/1"),
                    field("scenario", &Table::scenario), field("model", &Table::model),
                    field("gpu", &Table::gpu), field("precision", &Table::precision),
                    field("batch", &Table::batch), field("calls", &Table::calls),
                    derived<Table>("bytes", [](const Table& table) { return table.bytes.value(); }),
                    field("flops", &Table::flops), field("time_s", &Table::time),
                    field("units_time_s", &Table::units_time),
                    derived<Table>("operators", by_operator), field("kernels", &Table::rows),
                    field("units", &Table::units));
}

std::string to_json(const KernelTable& table) { return json_text(to_json_value(table), 2) + "\n"; }

nlohmann::ordered_json kernels_schema() {
  return titled_schema("A step's kernels", json_schema<KernelTable>());
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
