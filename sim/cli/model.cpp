// `rehearse model NAME | CONFIG | CAPTURED`: what a network is made of, without a simulation.
#include <fmt/format.h>

#include "base/error.hpp"
#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "model/captured/captured.hpp"
#include "view/network_view.hpp"

namespace rehearse::inline cli {
namespace {

struct ModelCommand {
  std::string model;  ///< a built-in one's name, a Hugging Face config.json, or a captured one
  ModelShape shape;
  std::string precision;
  AnswerOptions answer;
};

/// Its precision: as asked, or else as it was captured.
Precision precision_of(const Model& model, const std::string& asked) {
  if (!model.captured) return asked.empty() ? Precision::bf16_pure : parse_precision(asked);
  const Precision own = model.captured->precision;
  if (!asked.empty() && computed_in(parse_precision(asked)) != computed_in(own))
    throw InputError(
        fmt::format("{0}: error: --precision {1}: it was captured in {2}\n"
                    "remedy: leave it out, or capture it with --precision {1}",
                    model.captured->file, asked, to_string(own)));
  return own;
}

void describe_model(const ModelCommand& command) {
  const NamedNetwork network = read_network(command.model, command.shape);
  const Precision precision = precision_of(network.model, command.precision);
  write_answer({.table = [&](int, bool) { return to_table(network, precision); },
                .json = [&] { return to_json(network, precision); }},
               command.answer);
}

}  // namespace

void add_model(CLI::App& app) {
  const auto command = std::make_shared<ModelCommand>();
  CLI::App& model =
      *app.add_subcommand("model", "What a network is made of: parameters, FLOPs, saved bytes");
  add(model, "MODEL", command->model,
      "A built-in network, a Hugging Face config.json, or NAME.model.json", "")
      ->required();
  add_count(model, "--sequence", command->shape.sequence, "Tokens of a sample", 1, 10'000'000);
  add_count(model, "--image", command->shape.image, "Pixels per side of a sample", 1, 65'536);
  add_choice(model, "--precision", command->precision,
             "As in a scenario (default bf16_pure, or as captured)", precision_names());
  add_choice(model, "--format", command->answer.format, "table or json", {"table", "json"});
  add_output(model, command->answer, "Write it to this file");
  model.callback([command] { describe_model(*command); });
}

}  // namespace rehearse::inline cli
