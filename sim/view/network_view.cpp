#include "view/network_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/json/json_record.hpp"
#include "config/json/json_text.hpp"
#include "model/captured/played.hpp"
#include "model/memory_tape.hpp"
#include "view/table.hpp"

namespace rehearse::inline view {
namespace {

/// How many samples a network was captured with, where it was captured at one batch alone; else 1.
double samples_at_once(const Model& model) {
  return model.captured ? std::max(1.0, static_cast<double>(model.captured->batch)) : 1;
}

/// Bytes that each unit's forward leaves for backward, of one sample.
std::vector<double> saved_bytes(const Model& model, Precision precision) {
  const MemoryTape tape = memory_tape(model, {.precision = precision});
  std::vector<double> saved;
  for (const UnitTape& unit : tape.units) {
    double live = 0;
    for (const TapeEvent& event : unit.forward)
      live += (event.takes ? 1 : -1) * tape.tensors[event.tensor].size.value();
    saved.push_back(live / samples_at_once(model));
  }
  return saved;
}

/// Calls of kernels in one forward and backward pass, by unit.
std::vector<double> kernel_calls(const Model& model, Precision precision) {
  std::vector<double> all;
  for (const captured::UnitCalls& unit : captured::calls_of(model, {.precision = precision})) {
    double calls = 0;
    for (const auto* pass : {&unit.forward, &unit.backward})
      for (const captured::Kernel& one : *pass) calls += one.calls;
    all.push_back(calls);
  }
  return all;
}

constexpr std::size_t kColumns = 160;

struct UnitRow {
  std::string name;
  std::int64_t parameters = 0, idle = 0;
  double flops = 0, saved = 0, kernels = 0;
  std::size_t units = 1;
};

std::vector<UnitRow> rows_of(const Model& model, Precision precision) {
  const std::vector<double> saved = saved_bytes(model, precision);
  const std::vector<double> calls = kernel_calls(model, precision);
  std::vector<UnitRow> rows;
  for (std::size_t i = 0; i < model.units.size(); ++i) {
    const Unit& unit = model.units[i];
    rows.push_back({unit.name, unit.parameters(), unit.idle_parameters, unit.forward_flops(),
                    saved[i], calls[i]});
  }
  return rows;
}

/// Like units in a row are one row.
std::vector<UnitRow> grouped(const std::vector<UnitRow>& all) {
  std::vector<UnitRow> rows;
  std::string first;
  for (const UnitRow& row : all) {
    if (!rows.empty() && rows.back().parameters == row.parameters &&
        rows.back().flops == row.flops && rows.back().saved == row.saved &&
        rows.back().kernels == row.kernels) {
      UnitRow& last = rows.back();
      if (++last.units == 2) first = last.name;
      last.name = fmt::format("{} .. {}", first, row.name);
    } else {
      rows.push_back(row);
    }
  }
  return rows;
}

/// A network for one sample, whatever it runs on.
struct NetworkDocument {
  const NamedNetwork* network = nullptr;
  Precision precision{};
  std::vector<UnitRow> units{};

  const Model& model() const { return network->model; }
};

constexpr auto json_fields(const UnitRow*) {
  return std::tuple(field("name", &UnitRow::name), field("parameters", &UnitRow::parameters),
                    derived<UnitRow>("active_parameters",
                                     [](const UnitRow& row) { return row.parameters - row.idle; }),
                    field("flops_forward", &UnitRow::flops), field("saved_bytes", &UnitRow::saved),
                    field("kernels", &UnitRow::kernels));
}

constexpr auto json_fields(const NetworkDocument*) {
  using One = NetworkDocument;
  return std::tuple(
      constant<One>("schema", "rehearse.model/1"),
      derived<One>("name", [](const One& one) { return one.model().name; }),
      group<One>(
          "architecture", derived<One>("family", [](const One& one) { return one.model().family; }),
          derived<One>("layers",
                       [](const One& one) {
                         const auto units = static_cast<std::int64_t>(one.model().units.size());
                         return one.model().layers > 0 ? one.model().layers : units;
                       }),
          derived<One>("parameters", [](const One& one) { return one.model().parameters(); }),
          derived<One>("active_parameters",
                       [](const One& one) { return one.model().active_parameters(); }),
          derived<One>("flops_forward",
                       [](const One& one) { return one.model().forward_flops(); })),
      derived<One>("sample", [](const One& one) { return one.model().sample; }),
      derived<One>("source", [](const One& one) { return one.model().source; }),
      derived<One>("precision",
                   [](const One& one) { return std::string(to_string(one.precision)); }),
      field("units", &One::units),
      derived<One>("assumptions", [](const One& one) { return one.network->assumptions; }));
}

}  // namespace

std::string to_table(const NamedNetwork& network, Precision precision) {
  const Model& model = network.model;
  const double tokens = std::max<double>(1, static_cast<double>(model.tokens_per_sample));
  const std::string per = model.tokens_per_sample > 0 ? "token" : "sample";
  using enum TableColumn::Side;
  Table table({{"units", left},
               {"count"},
               {"parameters each"},
               {"active each"},
               {"GFLOP/" + per},
               {"saved B/" + per},
               {"kernels each"}});
  for (const UnitRow& row : grouped(rows_of(model, precision)))
    table.row({{row.name, std::to_string(row.units), std::to_string(row.parameters),
                std::to_string(row.parameters - row.idle),
                fmt::format("{:.6g}", row.flops / tokens / 1e9),
                fmt::format("{:.6g}", row.saved / tokens), fmt::format("{:.0f}", row.kernels)}});
  Page page(kColumns, false);
  page.line(fmt::format("{} ({}), one {}", model.name, model.family, model.sample));
  page.line(model.source);
  page.blank();
  table.print(page);
  std::string text = page.text();
  text += fmt::format(
      "\nparameters         {}\nactive parameters  {}\nforward FLOPs      {:.6g} per sample\n",
      model.parameters(), model.active_parameters(), model.forward_flops());
  text += fmt::format(
      "\nFLOPs are those of products, a multiply-add counting 2; all pairs of attention.\n"
      "Saved bytes are what one sample's forward pass keeps for backward in {}; kernels are those "
      "of\n"
      "PyTorch's eager mode, forward and backward.\n",
      to_string(precision));
  for (const std::string& one : network.assumptions) text += fmt::format("assumed: {}\n", one);
  return text;
}

std::string to_json(const NamedNetwork& network, Precision precision) {
  const NetworkDocument document{
      .network = &network, .precision = precision, .units = rows_of(network.model, precision)};
  return json_text(to_json_value(document), 2) + "\n";
}

nlohmann::ordered_json network_schema() {
  return titled_schema("A network", json_schema<NetworkDocument>());
}

}  // namespace rehearse::inline view
