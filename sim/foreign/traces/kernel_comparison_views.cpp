#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "config/json/json_record.hpp"
#include "config/json/json_text.hpp"
#include "foreign/traces/kernel_comparison.hpp"
#include "view/table.hpp"

namespace rehearse::inline foreign {
namespace {

constexpr std::size_t kNarrowestTable = 60, kWidestTable = 160;
constexpr std::size_t kListedRows = 30;  ///< rows of a brief answer

double share(Seconds part, Seconds whole) { return whole > Seconds(0) ? part / whole : 0; }

/// Predicted over traced.
std::optional<double> ratio(Seconds time, Seconds traced) {
  if (time <= Seconds(0) || traced <= Seconds(0)) return std::nullopt;
  return time / traced;
}

std::string ratio_text(Seconds time, Seconds traced) {
  const std::optional<double> both = ratio(time, traced);
  return both ? fmt::format("{:.2f}", *both) : "";
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

/// Times of all kernels of an operator.
struct OperatorPart {
  std::string op;
  Seconds time, traced;
};
constexpr auto json_fields(const OperatorPart*) {
  using One = OperatorPart;
  return std::tuple(
      field("op", &One::op), field("time_s", &One::time), field("traced_s", &One::traced),
      derived<One>("ratio", [](const One& one) { return ratio(one.time, one.traced); }));
}

std::vector<OperatorPart> operators_of(const KernelComparison& both) {
  std::map<std::string, OperatorPart> sums;
  for (const ComparedKernel& row : both.rows) {
    OperatorPart& sum = sums[row.op];
    sum.op = row.op;
    sum.time += row.time;
    sum.traced += row.traced;
  }
  std::vector<OperatorPart> parts;
  for (auto& [op, sum] : sums) parts.push_back(std::move(sum));
  return parts;
}

}  // namespace

constexpr auto json_fields(const ComparedKernel*) {
  using One = ComparedKernel;
  return std::tuple(
      field("op", &One::op), field("shapes", &One::shapes),
      derived<One>("verdict", [](const One& one) { return to_string(one.match); }),
      field("calls", &One::calls), field("traced_calls", &One::traced_calls),
      field("time_s", &One::time), field("traced_s", &One::traced),
      derived<One>("ratio", [](const One& one) { return ratio(one.time, one.traced); }));
}

constexpr auto json_fields(const KernelComparison*) {
  using One = KernelComparison;
  return std::tuple(
      constant<One>("schema", "rehearse.kernel_comparison/1"), field("scenario", &One::scenario),
      field("model", &One::model), field("trace", &One::trace), field("device", &One::device),
      field("steps", &One::steps), field("time_s", &One::time), field("traced_s", &One::traced),
      field("traced_optimizer_s", &One::optimizer), field("traced_sharding_s", &One::sharding),
      derived<One>("matched_share", [](const One& one) { return share(one.matched, one.traced); }),
      derived<One>("matched_shapes_share",
                   [](const One& one) { return share(one.matched_shapes, one.traced); }),
      field("other_products", &One::other_products), derived<One>("operators", operators_of),
      field("kernels", &One::rows));
}

std::string to_json(const KernelComparison& both) {
  return json_text(to_json_value(both), 2) + "\n";
}

OrderedJson kernel_comparison_schema() {
  return titled_schema("Kernels beside a trace's (rehearse.kernel_comparison/1)",
                       json_schema<KernelComparison>());
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
