#include "view/network_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/json_text.hpp"
#include "model/memory_tape.hpp"
#include "view/table.hpp"

namespace rehearse::inline view {
namespace {

/// Bytes that each unit's forward leaves for backward, of one sample.
std::vector<double> saved_bytes(const Model& model, Precision precision) {
  const MemoryTape tape = memory_tape(model, {.precision = precision});
  std::vector<double> saved;
  for (const UnitTape& unit : tape.units) {
    double live = 0;
    for (const TapeEvent& event : unit.forward)
      live += (event.takes ? 1 : -1) * tape.tensors[event.tensor].size.value();
    saved.push_back(live);
  }
  return saved;
}

constexpr std::size_t kColumns = 160;

struct UnitRow {
  std::string name;
  std::int64_t parameters = 0, idle = 0;
  double flops = 0, saved = 0;
  std::size_t units = 1;
};

/// Like units in a row are one row.
std::vector<UnitRow> unit_rows(const Model& model, const std::vector<double>& saved) {
  std::vector<UnitRow> rows;
  std::string first;
  for (std::size_t i = 0; i < model.units.size(); ++i) {
    const Unit& unit = model.units[i];
    UnitRow row{unit.name, unit.parameters(), unit.idle_parameters, unit.forward_flops(), saved[i]};
    if (!rows.empty() && rows.back().parameters == row.parameters &&
        rows.back().flops == row.flops && rows.back().saved == row.saved) {
      UnitRow& last = rows.back();
      if (++last.units == 2) first = last.name;
      last.name = fmt::format("{} .. {}", first, row.name);
    } else {
      rows.push_back(row);
    }
  }
  return rows;
}

/// What a network is, whatever it runs on; `flops_forward` is of one sample.
nlohmann::ordered_json architecture_of_one_sample(const Model& model) {
  const auto units = static_cast<std::int64_t>(model.units.size());
  return {{"family", model.family},
          {"layers", model.layers > 0 ? model.layers : units},
          {"parameters", model.parameters()},
          {"active_parameters", model.active_parameters()},
          {"flops_forward", model.forward_flops()}};
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
               {"saved B/" + per}});
  for (const UnitRow& row : unit_rows(model, saved_bytes(model, precision)))
    table.row({{row.name, std::to_string(row.units), std::to_string(row.parameters),
                std::to_string(row.parameters - row.idle),
                fmt::format("{:.6g}", row.flops / tokens / 1e9),
                fmt::format("{:.6g}", row.saved / tokens)}});
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
      "Saved bytes are what one sample's forward pass keeps for backward in {}.\n",
      to_string(precision));
  for (const std::string& one : network.assumptions) text += fmt::format("assumed: {}\n", one);
  return text;
}

std::string to_json(const NamedNetwork& network, Precision precision) {
  nlohmann::ordered_json json = {{"schema", "rehearse.model/1"}, {"name", network.model.name}};
  json["architecture"] = architecture_of_one_sample(network.model);
  json["sample"] = network.model.sample;
  json["source"] = network.model.source;
  json["precision"] = to_string(precision);
  const std::vector<double> saved = saved_bytes(network.model, precision);
  json["units"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < saved.size(); ++i) {
    const Unit& unit = network.model.units[i];
    json["units"].push_back({{"name", unit.name},
                             {"parameters", unit.parameters()},
                             {"active_parameters", unit.parameters() - unit.idle_parameters},
                             {"flops_forward", unit.forward_flops()},
                             {"saved_bytes", saved[i]}});
  }
  json["assumptions"] = network.assumptions;
  return json_text(json, 2) + "\n";
}

}  // namespace rehearse::inline view
