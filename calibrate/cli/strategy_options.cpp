#include "cli/strategy_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>
#include <string>

#include "base/error.hpp"

namespace rehearse::inline calibrate {
namespace {

// Groups of options that one strategy has.
const char* const kDdp = "DDP";
const char* const kFsdp = "FSDP";
const char* const kBoth = "DDP and FSDP";

const std::map<std::string, FsdpOptions::Prefetch>& prefetches() {
  using Prefetch = FsdpOptions::Prefetch;
  static const std::map<std::string, Prefetch> kAll = {{"backward_pre", Prefetch::backward_pre},
                                                       {"backward_post", Prefetch::backward_post},
                                                       {"none", Prefetch::none}};
  return kAll;
}

}  // namespace

void add_strategy_options(CLI::App& step, StepRunOptions& run) {
  step.add_option("--gradient-accumulation", run.micro_batches,
                  "Micro-batches of --batch samples in each step")
      ->check(CLI::Range(1, 10000))
      ->type_name("N")
      ->group(kBoth);
  step.add_option("--bucket-cap-mb", run.ddp.bucket_cap_mb, "MiB of gradients in a bucket")
      ->check(CLI::PositiveNumber)
      ->type_name("MB")
      ->group(kDdp);
  step.add_option("--first-bucket-mb", run.ddp.first_bucket_mb,
                  "MiB of the one that is ready first")
      ->check(CLI::PositiveNumber)
      ->type_name("MB")
      ->group(kDdp);
  step.add_flag("--gradient-as-bucket-view", run.ddp.gradient_as_bucket_view,
                "Gradients are views of the buckets")
      ->group(kDdp);
  step.add_option_function<std::string>(
          "--sharding",
          [&run](const std::string& name) {
            run.fsdp.reshard_after_forward = name == "full_shard";
          },
          "full_shard or shard_grad_op")
      ->check(CLI::IsMember({"full_shard", "shard_grad_op"}))
      ->type_name("NAME")
      ->group(kFsdp);
  step.add_option_function<std::string>(
          "--backward-prefetch",
          [&run](const std::string& name) { run.fsdp.backward_prefetch = prefetches().at(name); },
          "backward_pre, backward_post or none")
      ->check(CLI::IsMember({"backward_pre", "backward_post", "none"}))
      ->type_name("NAME")
      ->group(kFsdp);
  step.add_flag("--forward-prefetch", run.fsdp.forward_prefetch,
                "Gather the next unit before a unit's forward")
      ->group(kFsdp);
  step.add_flag("!--unlimited-reduce-scatters", run.fsdp.limit_reduce_scatters,
                "Reduce any number of units at a time")
      ->group(kFsdp);
}

void check_strategy_options(const CLI::App& step, const std::string& strategy) {
  const std::map<std::string, std::set<std::string>> strategies = {
      {kDdp, {"ddp"}}, {kFsdp, {"fsdp"}}, {kBoth, {"ddp", "fsdp"}}};
  for (const CLI::Option* option : step.get_options()) {
    const auto group = strategies.find(option->get_group());
    if (option->count() == 0 || group == strategies.end()) continue;
    if (group->second.contains(strategy)) continue;
    throw InputError(
        fmt::format("error: {}: {} has no such option\nremedy: leave it out, or choose {}",
                    option->get_name(), strategy, fmt::join(group->second, " or ")));
  }
}

}  // namespace rehearse::inline calibrate
