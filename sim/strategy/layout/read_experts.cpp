#include <fmt/format.h>

#include <algorithm>

#include "model/token_histogram.hpp"
#include "strategy/layout/layout_keys.hpp"
#include "strategy/layout/read_parts.hpp"

namespace rehearse::inline strategy {
namespace {

/// Under Megatron-LM's name and with its rules. Sharded parameters are torchtitan's, which keeps
/// them whole beside a pipeline, or Megatron-LM's own, which have none.
void read_comm_overlap(Map& experts, bool sharded, const Framework& framework, Layout& layout) {
  const std::string& key = of_layout().expert.overlap_moe_expert_parallel_comm.name;
  layout.expert_comm_overlap = of_layout().expert.overlap_moe_expert_parallel_comm.in(experts);
  if (!layout.expert_comm_overlap.value_or(false)) return;
  if (layout.expert_overlap)
    experts.at_key(key).fail("shared experts hide dispatch already (overlap: true)",
                             "remove one of the two");
  if (sharded && layout.mesh.pipeline == 1)
    experts.at_key(key).fail(
        "without a pipeline sharded parameters are gathered for one micro-batch at a time",
        framework.name() == "megatron"
            ? "remove it, or write zero: {stage: 1} in the place of what shards parameters"
            : "add pipeline_parallel, beside which torchtitan keeps them whole, or remove it");
}

/// `imbalance: 1.2 | natural | {histogram: FILE}`.
void read_imbalance(const Value& imbalance, Layout& layout) {
  if (imbalance.is_map()) {
    Map options = imbalance.as_map();
    layout.histogram = std::make_shared<const TokenHistogram>(
        read_named(options.require("histogram"), read_token_histogram));
    return options.finish();
  }
  if (imbalance.shown() == "natural") {
    imbalance.as_choice({"natural"});
    layout.natural_routing = true;
    return;
  }
  const double fullest = imbalance.as_positive_number();
  layout.imbalance = fullest;
  if (fullest < 1)
    imbalance.fail(fmt::format("the fullest rank has no less than the mean; got {:g}", fullest),
                   "1 or more");
  if (fullest > layout.mesh.expert)
    imbalance.fail(fmt::format("of expert_parallel {} the fullest rank gets {} times the mean at "
                               "most, which is all tokens",
                               layout.mesh.expert, layout.mesh.expert),
                   "a smaller number");
}

/// It balances whatever tokens are, and asks no router.
void read_fake_gate(Map& experts, Layout& layout) {
  layout.fake_balanced_gate = of_layout().expert.fake_balanced_gate.in(experts, false);
  if (!layout.fake_balanced_gate) return;
  for (const char* key : {"node_limit", "imbalance"})
    if (experts.has(key))
      experts.at_key(key).fail("fake_balanced_gate takes experts in turn, as many tokens for each",
                               "remove one of the two");
  layout.imbalance = 1;
}

/// DeepEP's and HybridEP's kernels take multiprocessors; NCCL's dispatch has its channels.
void read_sms(Map& experts, Framework& framework, Layout& layout) {
  const KeyOf<int>& sms = of_layout().expert.num_sms;
  const char* const hybrid = "experts.hybridep_num_sms";
  if (layout.dispatch == ExpertDispatch::deepep) {
    layout.dispatch_sms = framework.value_or(experts, "strategy.experts.", sms);
  } else if (layout.dispatch == ExpertDispatch::hybridep) {
    if (!experts.has(sms.name)) framework.note(hybrid);
    layout.dispatch_sms = sms.in(experts, static_cast<int>(framework.number(hybrid)));
  } else if (experts.has(sms.name)) {
    experts.at_key(sms.name).fail(
        "NCCL sends these tokens, whose channels are counted by themselves",
        "write dispatch: deepep, or remove it");
  }
}

/// Ranks with the same tokens are tensor ranks, which share nothing but experts.
void share_tokens(Map& map, Layout& layout) {
  if (layout.mesh.tensor > 1)
    map.at_key("tensor_parallel")
        .fail("ranks that share experts alone have the same tokens, as tensor ranks have",
              "remove it, or choose another experts.dispatch");
  layout.mesh.tensor = layout.mesh.expert_tensor = layout.mesh.expert;
  layout.mesh.expert = 1;
}

}  // namespace

/// Ranks that share embedding tables have the places of those that share experts.
void read_tables(Map& map, const Reading& reading, Layout& layout) {
  if (!map.has("embedding_parallel")) return;
  const int ranks = value_or(map, of_layout().embedding_parallel, 1, reading.has_mesh());
  if (ranks == 1) return;
  if (layout.mesh.expert > 1)
    map.at_key("embedding_parallel")
        .fail("no network has experts and shared tables", "remove it, or expert_parallel");
  layout.mesh.expert = ranks;
  layout.shares_tables = true;
}

/// Megatron-LM's default is that experts are split as all layers are.
void read_experts(Map& map, const Reading& reading, bool sharded, Layout& layout) {
  layout.mesh.expert = value_or(map, of_layout().expert_parallel, 1, reading.has_mesh());
  const KeyOf<int>& tensor = of_layout().expert_tensor_parallel;
  const std::string& key = tensor.name;
  const bool whole = reading.framework.word("strategy." + key) == "1";
  layout.mesh.expert_tensor = tensor.in(map).value_or(whole ? 1 : layout.mesh.tensor);
  if (!reading.has_mesh() && map.has(key) && layout.mesh.expert_tensor > 1)
    map.at_key(key).fail("no ranks share experts", "set expert_parallel, or leave it out");
  if (!map.has(key) && layout.mesh.expert > 1) reading.framework.note("strategy." + key);
  const std::optional<Value> value = of_layout().experts.in(map);
  if (!value) return;
  if (layout.mesh.expert == 1)
    map.at_key("experts").fail("without expert_parallel no rank sends tokens to another's experts",
                               "set expert_parallel, or remove experts");
  Map options = value->as_map();
  layout.dispatch = of_layout().expert.dispatch.in(options, layout.dispatch);
  if (layout.dispatch == ExpertDispatch::replicated) {
    share_tokens(map, layout);
    return options.finish();
  }
  layout.expert_overlap = of_layout().expert.overlap.in(options, false);
  read_comm_overlap(options, sharded, reading.framework, layout);
  layout.node_limit = of_layout().expert.node_limit.in(options).value_or(layout.node_limit);
  if (const auto imbalance = of_layout().expert.imbalance.in(options))
    read_imbalance(*imbalance, layout);
  read_fake_gate(options, layout);
  read_sms(options, reading.framework, layout);
  options.finish();
}

}  // namespace rehearse::inline strategy
