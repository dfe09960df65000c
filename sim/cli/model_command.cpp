#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/error.hpp"
#include "cli/commands.hpp"
#include "config/document.hpp"
#include "model/architecture.hpp"
#include "model/hugging_face.hpp"
#include "model/memory_tape.hpp"
#include "report/table.hpp"

namespace rehearse {
namespace {

struct Network {
  Model model;
  std::vector<std::string> assumptions;
};

[[noreturn]] void fail_as_unknown(const std::string& name) {
  const std::string near = nearest(name, architecture_names());
  throw InputError(fmt::format("rehearse: error: no built-in network and no file \"{}\"\nremedy: {}",
                               name,
                               near.empty() ? "`rehearse list models` names those that are built in"
                                            : fmt::format("did you mean \"{}\"?", near)));
}

Network read_network(const ModelCommand& command) {
  const auto& names = architecture_names();
  const ModelShape shape{.image = command.image, .sequence = command.sequence};
  const std::string name = command.model.string();
  try {
    if (std::ranges::find(names, name) != names.end()) return {build_architecture(name, shape), {}};
    std::error_code ignored;
    if (!std::filesystem::exists(command.model, ignored)) fail_as_unknown(name);
    HuggingFaceModel read = read_hugging_face(command.model);
    Model model = build_transformer(read.shape, shape);
    if (command.sequence == 0 && command.image == 0)
      read.assumptions.push_back("a sample is a " + model.sample);
    return {std::move(model), std::move(read.assumptions)};
  } catch (const std::invalid_argument& wrong) {
    throw InputError(fmt::format("{}: error: {}", name, wrong.what()));
  }
}

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

constexpr std::size_t kWidth = 160;  ///< of a page of units

struct Row {
  std::string name;
  std::int64_t parameters = 0, idle = 0;
  double flops = 0, saved = 0;
  std::size_t units = 1;
};

/// Like units in a row are one row.
std::vector<Row> rows_of(const Model& model, const std::vector<double>& saved) {
  std::vector<Row> rows;
  std::string first;
  for (std::size_t i = 0; i < model.units.size(); ++i) {
    const Unit& unit = model.units[i];
    Row row{unit.name, unit.parameters(), unit.idle_parameters, unit.forward_flops(), saved[i]};
    if (!rows.empty() && rows.back().parameters == row.parameters &&
        rows.back().flops == row.flops && rows.back().saved == row.saved) {
      Row& last = rows.back();
      if (++last.units == 2) first = last.name;
      last.name = fmt::format("{} .. {}", first, row.name);
    } else {
      rows.push_back(row);
    }
  }
  return rows;
}

std::string table_of(const Network& network, Precision precision) {
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
  for (const Row& row : rows_of(model, saved_bytes(model, precision)))
    table.row({{row.name, std::to_string(row.units), std::to_string(row.parameters),
                std::to_string(row.parameters - row.idle),
                fmt::format("{:.6g}", row.flops / tokens / 1e9),
                fmt::format("{:.6g}", row.saved / tokens)}});
  Page page(kWidth, false);
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

/// What a network is, whatever it runs on; `flops_forward` is of one sample.
nlohmann::ordered_json architecture_json(const Model& model) {
  const auto units = static_cast<std::int64_t>(model.units.size());
  return {{"family", model.family},
          {"layers", model.layers > 0 ? model.layers : units},
          {"parameters", model.parameters()},
          {"active_parameters", model.active_parameters()},
          {"flops_forward", model.forward_flops()}};
}

std::string json_of(const Network& network, Precision precision) {
  nlohmann::ordered_json json = {{"schema", "rehearse.model/1"}, {"name", network.model.name}};
  json["architecture"] = architecture_json(network.model);
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
  return json.dump(2) + "\n";
}

}  // namespace

void model_command(const ModelCommand& command) {
  const Network network = read_network(command);
  const Precision precision = parse_precision(command.precision);
  write_result(command.output, command.format == "json" ? json_of(network, precision)
                                                        : table_of(network, precision));
}

}  // namespace rehearse
