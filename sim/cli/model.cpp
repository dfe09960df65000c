// `rehearse model NAME | CONFIG`: what a network is made of, without a simulation.
#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "view/network_view.hpp"

namespace rehearse::inline cli {
namespace {

struct ModelCommand {
  std::string model;  ///< a built-in one's name, or a Hugging Face config.json
  ModelShape shape;
  std::string precision = "bf16_pure";
  AnswerOptions answer;
};

void describe_model(const ModelCommand& command) {
  const NamedNetwork network = read_network(command.model, command.shape);
  const Precision precision = parse_precision(command.precision);
  write_answer({.table = [&](int, bool) { return to_table(network, precision); },
                .json = [&] { return to_json(network, precision); }},
               command.answer);
}

}  // namespace

void add_model(CLI::App& app) {
  const auto command = std::make_shared<ModelCommand>();
  CLI::App& model =
      *app.add_subcommand("model", "What a network is made of: parameters, FLOPs, saved bytes");
  add(model, "MODEL", command->model, "A built-in network, or a Hugging Face config.json", "")
      ->required();
  add_count(model, "--sequence", command->shape.sequence, "Tokens of a sample", 1, 10'000'000);
  add_count(model, "--image", command->shape.image, "Pixels per side of a sample", 1, 65'536);
  add_choice(model, "--precision", command->precision, "As in a scenario (default bf16_pure)",
             precision_names());
  add_choice(model, "--format", command->answer.format, "table or json", {"table", "json"});
  add_output(model, command->answer, "Write it to this file");
  model.callback([command] { describe_model(*command); });
}

}  // namespace rehearse::inline cli
