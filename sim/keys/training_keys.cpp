#include "keys/keys.hpp"
#include "scenario/loss/loss_section.hpp"
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
       {{"tokens", type::text("a count, such as 15T"), "-", "Tokens of the training; one epoch."},
        {"global_batch", type::map(), "-", "Samples of a step of all GPUs; micro-batches follow."},
        {"global_batch.tokens", type::text("a count, such as 4Mi"), "-", "The same in tokens."},
        {"global_batch.sequences", type::text("a count, such as 1024"), "-",
         "The same in sequences."}}},

      {"train.", "Length by what it comes to", "Rehearse", "sim/scenario/loss/loss_section.cpp sim/scenario/loss/loss_target.cpp",
       loss_keys()},

      {"run.", "What is simulated", "Rehearse", kRun,
       run_keys()},

      {"energy.", "Energy", "Rehearse", kEconomy,
       energy_keys()},

      {"failures.", "Failures and checkpoints", "Rehearse; Daly 2006", kEconomy,
       failure_keys()},

      {"start.", "Start", "Rehearse", kEconomy,
       start_keys()},

      {"convergence.", "Accuracy", "Rehearse", "sim/scenario/loss/convergence_section.cpp",
       {{"curves", type::list_of(type::text("files")), "required",
        "Short runs that the forecast is fitted to."},
        {"learning_rate", type::above(0), "(the curves')", "Learning rate.", "PyTorch SGD"},
        {"momentum", type::number() | type::above(0), "(the curves')", "Momentum.", "PyTorch SGD"},
        {"staleness_aware", type::flag(), "false", "Learning rate over staleness.",
         "Zhang et al. 2016"},
        {"momentum_correction", type::flag(), "false", "Momentum less that of asynchrony.",
         "Mitliagkas et al. 2016"},
        {"delay_compensation", type::at_least(0), "-", "Its lambda.", "Zheng et al. 2017"},
        {"to_accuracy", type::above(0).in("share"), "-", "Accuracy to reach."},
        {"rates", type::list_of(type::map()), "-",
         "How the learning rate changes along the training, in order."},
        {"rates[].after", type::above(0).in("share"), "required", "Share of the samples."},
        {"rates[].times", type::above(0), "required", "The rate from there on, over the first."},
        {"accept", type::list_of(type::choice({"network", "data", "optimizer"})), "-",
         "In what the curves' training may differ from this one."}}}};
}

}  // namespace rehearse::inline keys
