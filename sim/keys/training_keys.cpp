#include "keys/keys.hpp"
#include "scenario/loss_section.hpp"
#include "scenario/section_keys.hpp"

namespace rehearse::inline keys {
namespace {

constexpr const char* kRun = "sim/scenario/run_section.cpp";
constexpr const char* kEconomy = "sim/scenario/economy_section.cpp";

}  // namespace

std::vector<KeySection> training_keys() {
  return {
      {"train.", "Length of the training", "Rehearse", kRun,
       train_keys()},
      {"train.", "Length in tokens", "Rehearse", "sim/scenario/token_keys.cpp",
       {{"tokens", "text (a count, such as 15T)", "-", "Tokens of the training; one epoch."},
        {"global_batch", "map", "-", "Samples of a step of all GPUs; micro-batches follow."},
        {"global_batch.tokens", "text (a count, such as 4Mi)", "-", "The same in tokens."},
        {"global_batch.sequences", "text (a count, such as 1024)", "-", "The same in sequences."}}},

      {"train.", "Length by what it comes to", "Rehearse", "sim/scenario/loss_section.cpp sim/scenario/loss_target.cpp",
       loss_keys()},

      {"run.", "What is simulated", "Rehearse", kRun,
       run_keys()},

      {"energy.", "Energy", "Rehearse", kEconomy,
       energy_keys()},

      {"failures.", "Failures and checkpoints", "Rehearse; Daly 2006", kEconomy,
       failure_keys()},

      {"start.", "Start", "Rehearse", kEconomy,
       start_keys()},

      {"convergence.", "Accuracy", "Rehearse", "sim/scenario/convergence_section.cpp",
       {{"curves", "list of text (files)", "required", "Short runs that the forecast is fitted to."},
        {"learning_rate", "number > 0", "(the curves')", "Learning rate.", "PyTorch SGD"},
        {"momentum", "number or number > 0", "(the curves')", "Momentum.", "PyTorch SGD"},
        {"staleness_aware", "true or false", "false", "Learning rate over staleness.",
         "Zhang et al. 2016"},
        {"momentum_correction", "true or false", "false", "Momentum less that of asynchrony.",
         "Mitliagkas et al. 2016"},
        {"delay_compensation", "number >= 0", "-", "Its lambda.", "Zheng et al. 2017"},
        {"to_accuracy", "number > 0 (share)", "-", "Accuracy to reach."},
        {"rates", "list of map", "-", "How the learning rate changes along the training, in order."},
        {"rates[].after", "number > 0 (share)", "required", "Share of the samples."},
        {"rates[].times", "number > 0", "required", "The rate from there on, over the first."},
        {"accept", "list of network | data | optimizer", "-",
         "In what the curves' training may differ from this one."}}}};
}

}  // namespace rehearse::inline keys
