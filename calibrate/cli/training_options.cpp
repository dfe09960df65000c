#include "cli/training_options.hpp"

namespace rehearse::inline calibrate {
namespace {

/// Each of them asks for the outer optimizer.
void add_outer_options(CLI::App& app, std::optional<OuterSgd>& outer) {
  const auto asked = [&outer]() -> OuterSgd& { return outer ? *outer : outer.emplace(); };
  app.add_option_function<double>(
         "--outer-learning-rate", [=](double rate) { asked().learning_rate = rate; },
         "Of the outer SGD, which makes a step of how far workers came")
      ->check(CLI::PositiveNumber)
      ->type_name("RATE");
  app.add_option_function<double>(
         "--outer-momentum",
         [=](double momentum) {
           asked().momentum = momentum;
           asked().nesterov = asked().nesterov && momentum > 0;
         },
         "Likewise; 0.9 without it")
      ->check(CLI::Range(0.0, 0.999999))
      ->type_name("M");
  app.add_flag_callback(
      "--outer-without-nesterov", [=] { asked().nesterov = false; }, "Likewise: plain momentum");
}

}  // namespace

void add_data_options(CLI::App& app, DatasetOptions& data) {
  app.add_option("--data", data.folder,
                 "The folder of a data set's files, or a file of text; plain or .gz")
      ->type_name("PATH");
  app.add_option("--format", data.format,
                 "mnist or fashion-mnist (IDX files), cifar10 (binary), text (any file's bytes) or "
                 "markov (generated text, without --data)")
      ->check(CLI::IsMember({"mnist", "fashion-mnist", "cifar10", "text", "markov"}))
      ->type_name("NAME");
  app.add_option("--train-samples", data.train_samples, "Only the first so many")
      ->check(CLI::Range(1, 100000000))
      ->type_name("N");
  app.add_option("--test-samples", data.test_samples, "Likewise")
      ->check(CLI::Range(1, 100000000))
      ->type_name("N");
  app.add_option("--window", data.window, "Bytes of a sample of text")
      ->check(CLI::Range(1, 100000))
      ->type_name("N");
}

void add_mitigation_options(CLI::App& app, Mitigation& mitigation) {
  app.add_flag("--staleness-aware", mitigation.staleness_aware,
               "Each update's learning rate over its staleness");
  app.add_flag("--momentum-correction", mitigation.momentum_correction,
               "Momentum lowered by what the workers' delay adds");
  app.add_option("--delay-compensation", mitigation.delay_compensation,
                 "DC-ASGD's lambda, such as 0.04")
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("LAMBDA");
  app.add_option("--local-steps", mitigation.local_steps,
                 "Local SGD: a worker's own steps between two exchanges, which average")
      ->check(CLI::Range(1, 1000000))
      ->type_name("H");
  add_outer_options(app, mitigation.outer);
}

}  // namespace rehearse::inline calibrate
