#include "keys/keys.hpp"

namespace rehearse {
namespace {

constexpr const char* kRun = "sim/scenario/run_section.cpp";
constexpr const char* kEconomy = "sim/scenario/economy_section.cpp";

}  // namespace

std::vector<KeySection> training_keys() {
  return {
      {"train.", "Length of the training", "Rehearse", kRun,
       {{"samples_per_epoch", "integer >= 1 (samples)", "-", "Samples of one epoch."},
        {"epochs", "number", "-", "Epochs, also fractions."},
        {"market", "on_demand | spot", "on_demand", "Which price counts."}}},
      {"train.", "Length in tokens", "Rehearse", "sim/scenario/token_keys.cpp",
       {{"tokens", "text (a count, such as 15T)", "-", "Tokens of the training; one epoch."},
        {"global_batch", "map", "-", "Samples of a step of all GPUs; micro-batches follow."},
        {"global_batch.tokens", "text (a count, such as 4Mi)", "-", "The same in tokens."},
        {"global_batch.sequences", "text (a count, such as 1024)", "-", "The same in sequences."}}},

      {"run.", "What is simulated", "Rehearse", kRun,
       {{"steps", "integer >= 1", "10", "Steps that are measured."},
        {"warmup_steps", "integer >= 0", "2", "Steps before them."},
        {"until", "steady | steps", "steady",
         "Asynchronous servers: until throughput is steady, or for `steps`."},
        {"seed", "integer >= 0", "1", "Seed of everything that is drawn."},
        {"fidelity", "hop | flow | folded | auto", "auto",
         "Every message, one flow per edge, or two nodes for all."},
        {"jitter", "none | measured or map", "(lognormal, cv 0.002, on several GPUs)",
         "How steps of one GPU differ.", "PyTorch's DDP benchmarks"},
        {"jitter.lognormal", "map", "-", "Lognormal factors."},
        {"jitter.lognormal.cv", "number", "required", "Standard deviation over mean."},
        {"jitter.exponential", "map", "-", "A fixed part and an exponential one."},
        {"jitter.exponential.cv", "number", "1", "Share of the exponential part."},
        {"replications", "integer >= 1 or map", "1", "Simulations; the median is reported."},
        {"replications.precision", "number (0.0001 to 1)", "required",
         "So many that the median is known to this."},
        {"replications.at_least", "integer >= 1", "5", "At least so many."},
        {"replications.at_most", "integer >= 1", "99", "At most so many."},
        {"stragglers", "list of map", "-", "Ranks that are slow."},
        {"stragglers[].rank", "integer >= 0", "required", "The rank."},
        {"stragglers[].slowdown", "number", "1", "Times as slow."},
        {"stragglers[].delay", "time", "-", "Time that it begins each step late."},
        {"speed_spread", "number (0 to 1)", "(0.015 on several GPUs)",
         "Standard deviation of ln(speed) of the GPUs.", "Sinha et al., SC22"},
        {"overlap_slowdown", "number", "1", "Times as slow while a collective runs."},
        {"efficiency", "map", "-", "Shares of the datasheet's rates that kernels reach."},
        {"efficiency.matrix", "number (0 to 1)", "(the GPU's)", "Matrix products, convolutions."},
        {"efficiency.depthwise", "number (0 to 1)", "(the GPU's)", "Depthwise convolutions."},
        {"efficiency.attention", "number (0 to 1)", "(the GPU's)", "Attention."},
        {"efficiency.memory", "number (0 to 1)", "(the GPU's)", "Memory-bound kernels."},
        {"efficiency.kernel_launch", "time", "(the GPU's)", "Time to launch one kernel."},
        {"set_to_none", "true or false", "true", "zero_grad() gives the gradients back.",
         "PyTorch"}}},

      {"energy.", "Energy", "Rehearse", kEconomy,
       {{"compute", "number (0 to 1)", "1", "Share of a GPU's TDP while it computes."},
        {"communication", "number (0 to 1)", "0.4", "The same in exposed communication."},
        {"idle", "number (0 to 1)", "0.12", "The same while it waits."},
        {"host", "text (W, kW)", "(from the GPUs)", "Power of a node beside its GPUs."},
        {"pue", "number (1 to 10)", "1.1", "Power of the building over that of its machines."},
        {"grid_gco2_per_kwh", "number >= 0 (g/kWh)", "-", "CO2 of the grid."},
        {"usd_per_kwh", "number >= 0 (USD)", "-", "Price of energy."}}},

      {"failures.", "Failures and checkpoints", "Rehearse; Daly 2006", kEconomy,
       {{"mtbf_per_node", "time", "-", "Mean time between failures of one node."},
        {"mean_time_to_preemption", "time", "-", "Until a spot node is taken away, in the mean."},
        {"distribution", "exponential or map", "exponential", "Of the times between failures."},
        {"distribution.weibull", "map", "-", "Weibull."},
        {"distribution.weibull.shape", "number (0.2 to 10)", "required", "Its shape."},
        {"detect", "time", "2 min 00 s", "Until a failure is noticed."},
        {"restart", "time", "5 min 00 s", "To start the job again."},
        {"on_failure", "restart | spare | continue_with_fewer", "restart", "What is done."},
        {"spares", "integer >= 1 (nodes)", "-", "Nodes in reserve."},
        {"repair", "time", "-", "Until a failed node is back."},
        {"trainings", "integer >= 10", "1000", "Trainings that are played."},
        {"checkpoint", "map", "required", "How state is saved."},
        {"checkpoint.interval", "text (auto) or time", "auto", "Time between two checkpoints."},
        {"checkpoint.write", "time", "(from `storage`)", "To write one."},
        {"checkpoint.read", "time", "(from `storage`)", "To read one."},
        {"checkpoint.storage", "data rate", "-", "Rate of the storage as a whole."},
        {"checkpoint.storage_per_node", "data rate", "-", "Rate that one node reaches."},
        {"checkpoint.asynchronous", "true or false", "false", "Training goes on meanwhile."}}},

      {"start.", "Start", "Rehearse", kEconomy,
       {{"mode", "gang | elastic", "gang", "`elastic`: a server begins with who is there."},
        {"arrivals", "map or list of time", "required", "When nodes come."},
        {"arrivals.exponential", "map", "-", "Exponential times."},
        {"arrivals.exponential.mean", "time", "required", "Their mean."},
        {"arrivals.uniform", "map", "-", "Uniform times."},
        {"arrivals.uniform.latest", "time", "required", "The latest."}}},

      {"convergence.", "Accuracy", "Rehearse", "sim/scenario/convergence_section.cpp",
       {{"curves", "list of text (files)", "required", "Short runs that the forecast is fitted to."},
        {"learning_rate", "number > 0", "(the curves')", "Learning rate.", "PyTorch SGD"},
        {"momentum", "number or number > 0", "(the curves')", "Momentum.", "PyTorch SGD"},
        {"staleness_aware", "true or false", "false", "Learning rate over staleness.",
         "Zhang et al. 2016"},
        {"momentum_correction", "true or false", "false", "Momentum less that of asynchrony.",
         "Mitliagkas et al. 2016"},
        {"delay_compensation", "number >= 0", "-", "Its lambda.", "Zheng et al. 2017"},
        {"to_accuracy", "number > 0 (share)", "-", "Accuracy to reach."}}}};
}

}  // namespace rehearse
