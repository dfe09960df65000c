#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "config/json/json_text.hpp"
#include "foreign/traces/kernel_comparison.hpp"
#include "view/table.hpp"

namespace rehearse::inline foreign {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kNarrowestTable = 60, kWidestTable = 160;
constexpr std::size_t kListedRows = 30;  ///< rows of a brief answer

double share(Seconds part, Seconds whole) { return whole > Seconds(0) ? part / whole : 0; }

/// Predicted over traced.
Json ratio(Seconds time, Seconds traced) {
  return time > Seconds(0) && traced > Seconds(0) ? Json(time / traced) : Json();
}

std::string ratio_text(Seconds time, Seconds traced) {
  return time > Seconds(0) && traced > Seconds(0) ? fmt::format("{:.2f}", time / traced) : "";
}

Table table_of(const KernelComparison& both, std::size_t most) {
  Table shown;
  shown.column("kernel", TableColumn::Side::left);
  shown.column("verdict", TableColumn::Side::left);
  for (const char* title : {"calls", "traced", "time", "traced", "ratio"})
    shown.column(title, TableColumn::Side::right);
  for (std::size_t i = 0; i < std::min(most, both.rows.size()); ++i) {
    const ComparedKernel& row = both.rows[i];
    const Ink ink = row.match == KernelMatch::matched ? Ink::plain : Ink::communication;
    shown.row({{row.op, to_string(row.match), fmt::format("{:.0f}", row.calls),
                fmt::format("{:.4g}", row.traced_calls), format(row.time), format(row.traced),
                ratio_text(row.time, row.traced)},
               row.shapes,
               ink});
  }
  return shown;
}

}  // namespace

std::string to_json(const KernelComparison& both) {
  Json rows = Json::array(), operators = Json::array();
  std::map<std::string, std::pair<Seconds, Seconds>> sums;
  for (const ComparedKernel& row : both.rows) {
    rows.push_back({{"op", row.op},
                    {"shapes", row.shapes},
                    {"verdict", to_string(row.match)},
                    {"calls", row.calls},
                    {"traced_calls", row.traced_calls},
                    {"time_s", row.time.value()},
                    {"traced_s", row.traced.value()},
                    {"ratio", ratio(row.time, row.traced)}});
    sums[row.op].first += row.time;
    sums[row.op].second += row.traced;
  }
  for (const auto& [op, times] : sums)
    operators.push_back({{"op", op},
                         {"time_s", times.first.value()},
                         {"traced_s", times.second.value()},
                         {"ratio", ratio(times.first, times.second)}});
  const Json document = {{"schema", "rehearse.kernel_comparison/1"},
                         {"scenario", both.scenario},
                         {"model", both.model},
                         {"trace", both.trace},
                         {"device", both.device},
                         {"steps", both.steps},
                         {"time_s", both.time.value()},
                         {"traced_s", both.traced.value()},
                         {"traced_optimizer_s", both.optimizer.value()},
                         {"traced_sharding_s", both.sharding.value()},
                         {"matched_share", share(both.matched, both.traced)},
                         {"matched_shapes_share", share(both.matched_shapes, both.traced)},
                         {"other_products", both.other_products},
                         {"operators", std::move(operators)},
                         {"kernels", std::move(rows)}};
  return json_text(document, 2) + "\n";
}

std::string to_csv(const KernelComparison& both) {
  Table sheet;
  for (const char* title :
       {"op", "shapes", "verdict", "calls", "traced_calls", "time_s", "traced_s", "ratio"})
    sheet.column(title, TableColumn::Side::left);
  for (const ComparedKernel& row : both.rows)
    sheet.row({{row.op, row.shapes, to_string(row.match), fmt::format("{}", row.calls),
                fmt::format("{:.6g}", row.traced_calls), fmt::format("{:.9g}", row.time.value()),
                fmt::format("{:.9g}", row.traced.value()), ratio_text(row.time, row.traced)}});
  return sheet.csv();
}

std::string to_terminal(const KernelComparison& both, int width, bool color, Detail detail) {
  Page page(std::clamp(static_cast<std::size_t>(std::max(width, 0)), kNarrowestTable, kWidestTable),
            color);
  page.paragraph(Ink::strong, fmt::format("{} beside {}", both.model, both.trace));
  page.paragraph(
      Ink::plain,
      fmt::format("{} of the traced {} by operator, {} by operator and sizes; predicted {}.",
                  percent(share(both.matched, both.traced)), format(both.traced),
                  percent(share(both.matched_shapes, both.traced)), format(both.time)));
  page.paragraph(
      Ink::faint,
      fmt::format(
          "The mean of {} step{}{}; the optimizer's {}{} are left out.", both.steps,
          both.steps == 1 ? "" : "s",
          both.on_gpu ? " on " + both.device : ", operators' own time: the trace has no GPU",
          format(both.optimizer),
          both.sharding > Seconds(0) ? fmt::format(" and FSDP's own {}", format(both.sharding))
                                     : ""));
  if (!both.other_products.empty())
    page.paragraph(Ink::strong,
                   fmt::format("The trace's longest products read {}. A number that all of them "
                               "have is the tokens of a micro-batch; the others are the network's "
                               "widths. Say both: model.hf or model.transformer, model.sequence "
                               "and model.batch_per_gpu.",
                               fmt::join(both.other_products, "; ")));
  page.blank();
  const std::size_t most = detail == Detail::all ? both.rows.size() : kListedRows;
  table_of(both, most).print(page);
  if (most < both.rows.size())
    page.paragraph(Ink::faint, fmt::format("{} more kinds of calls: --verbose, or --format csv.",
                                           both.rows.size() - most));
  return page.text();
}

}  // namespace rehearse::inline foreign
