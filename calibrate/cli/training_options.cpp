#include "cli/training_options.hpp"

namespace rehearse::inline calibrate {

void add_data_options(CLI::App& app, DatasetOptions& data) {
  app.add_option("--data", data.folder, "The folder of a data set's files, plain or .gz")
      ->type_name("FOLDER");
  app.add_option("--format", data.format, "mnist or fashion-mnist (IDX files), or cifar10 (binary)")
      ->check(CLI::IsMember({"mnist", "fashion-mnist", "cifar10"}))
      ->type_name("NAME");
  app.add_option("--train-samples", data.train_samples, "Only the first so many")
      ->check(CLI::Range(1, 100000000))
      ->type_name("N");
  app.add_option("--test-samples", data.test_samples, "Likewise")
      ->check(CLI::Range(1, 100000000))
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
}

}  // namespace rehearse::inline calibrate
