#include "model/layout_rules.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "model/transformer.hpp"

namespace rehearse::inline model {
namespace {

/// "1, 2, 4 and 8 do".
std::string divisors_do(std::int64_t number) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 1; i <= number && i <= 1024; ++i) {
    if (number % i == 0) all.push_back(i);
  }
  if (all.size() < 2) return fmt::format("{} does", all.front());
  const std::int64_t last = all.back();
  all.pop_back();
  return fmt::format("{} and {} do", fmt::join(all, ", "), last);
}

class Rules {
 public:
  Rules(const TransformerShape& model, const LayoutDegrees& layout) : t_(model), l_(layout) {}

  std::vector<LayoutFinding> take() {
    kinds();
    if (found_.empty()) {
      tensor();
      context();
      experts();
      pipeline();
      ranks();
    }
    if (found_.empty()) doubts();
    return std::move(found_);
  }

 private:
  /// `rule`: the message without degrees; empty: the message has none.
  void refuse(const std::string& key, std::string message, std::string remedy = "",
              std::string rule = "") {
    if (rule.empty()) rule = message;
    found_.push_back({LayoutFinding::Kind::refused, key, std::move(message), std::move(remedy),
                      std::move(rule)});
  }
  void doubt(const std::string& key, std::string message, std::string remedy = "") {
    found_.push_back(
        {LayoutFinding::Kind::doubtful, key, std::move(message), std::move(remedy), ""});
  }
  void divide(const std::string& key, std::int64_t degree, std::int64_t number,
              const std::string& what) {
    if (degree < 1 || number % degree == 0) return;
    refuse(key, fmt::format("{} {} does not divide {} {}", key, degree, number, what),
           divisors_do(number), fmt::format("{} does not divide {} {}", key, number, what));
  }

  void kinds() {
    const bool splits = l_.model.tensor > 1 || l_.model.context > 1 || l_.model.expert > 1;
    if (!splits) return;
    if (t_.encoder_layers > 0 || t_.image > 0)
      refuse(
          "tensor_parallel",
          fmt::format("no share of {} is known: it is no stack of blocks over tokens", t_.family),
          "split it by pipeline_parallel or data parallelism alone");
  }

  void tensor() {
    const int degree = l_.model.tensor;
    divide("tensor_parallel", degree, t_.heads, "attention heads");
    if (!t_.latent && t_.kv_heads % degree != 0 && degree % t_.kv_heads != 0)
      refuse("tensor_parallel",
             fmt::format("tensor_parallel {} neither divides {} key-value heads nor is a multiple",
                         degree, t_.kv_heads),
             divisors_do(t_.kv_heads),
             fmt::format("tensor_parallel neither divides {} key-value heads nor is a multiple",
                         t_.kv_heads));
    if (!t_.latent && found_.empty() && degree > t_.kv_heads)
      divide("tensor_parallel", degree, 2 * t_.kv_width(), "channels of keys and values");
    for (const MixerPtr& mixer : t_.mixers())
      for (const MixerPart& one : mixer->parts())
        divide("tensor_parallel", degree, one.count, one.name);
    if (has_dense_layers())
      divide("tensor_parallel", degree, t_.feed_forward, "channels of a feed-forward layer");
    if (t_.experts)
      divide("tensor_parallel", degree, t_.experts->shared_width, "channels of the shared experts");
    if (l_.model.splits_tokens() && l_.tokens > 0 && l_.tokens % l_.model.context == 0)
      divide("tensor_parallel", degree, l_.tokens / l_.model.context,
             "tokens of a rank under sequence_parallel");
  }

  bool has_dense_layers() const {
    for (std::int64_t block = 0; block < t_.layers; ++block) {
      if (t_.parts_of(block).feed_forward && !t_.has_experts(block)) return true;
    }
    return false;
  }

  void context() {
    const int degree = l_.model.context;
    if (degree == 1) return;
    if (!l_.fused_attention)
      refuse("context_parallel", "context_parallel needs fused attention",
             "leave out context_parallel, or use a network whose attention is fused");
    const bool balanced = t_.causal() && l_.model.context_method != ContextMethod::ulysses;
    const std::int64_t pieces = balanced ? 2 * degree : degree;
    if (l_.tokens > 0 && l_.tokens % pieces != 0)
      refuse("context_parallel",
             fmt::format("context_parallel {} cuts a sequence into {} pieces; {} tokens have none "
                         "of one length",
                         degree, pieces, l_.tokens),
             fmt::format("a multiple of {} tokens has", pieces),
             fmt::format("context_parallel does not cut {} tokens into pieces of one length",
                         l_.tokens));
    for (const MixerPtr& mixer : t_.mixers()) {
      const MixerPart part = mixer->parts().back();
      divide("context_parallel", degree, part.count / l_.model.tensor,
             part.name + " of a rank, which are exchanged for tokens");
    }
    if (l_.model.context_method == ContextMethod::ulysses)
      divide("context_parallel", degree, t_.heads / l_.model.tensor,
             "attention heads of a rank, which method ulysses exchanges");
  }

  void experts() {
    const ModelParallel& m = l_.model;
    if (!t_.experts) {
      for (const auto& [key, degree] :
           {std::pair("expert_parallel", m.expert),
            std::pair("expert_tensor_parallel", m.expert_tensor == m.tensor ? 1 : m.expert_tensor)})
        if (degree > 1)
          refuse(key, fmt::format("{} {}, but {} has no experts", key, degree, t_.name),
                 "leave it out", fmt::format("{} has no experts", t_.name));
      return;
    }
    divide("expert_parallel", m.expert * m.replicated_experts, t_.experts->count, "experts");
    divide("expert_tensor_parallel", m.expert_tensor, t_.experts->width, "channels of an expert");
    if (m.tensor > 1 && !m.sequence_parallel)
      refuse("tensor_parallel", "experts under tensor_parallel need sequence_parallel: true",
             "Megatron-LM trains them in no other way");
    if (m.expert > 1) dispatch();
  }

  void dispatch() {
    const ModelParallel& m = l_.model;
    if (m.expert_overlap && t_.experts->shared_width == 0)
      refuse("overlap",
             fmt::format("{} has no shared experts, which compute beside dispatch", t_.name),
             "leave it out");
    if (m.expert_overlap && m.dispatch != ExpertDispatch::all_to_all)
      refuse("overlap",
             fmt::format("shared experts compute beside dispatch: all_to_all alone, not {}",
                         to_string(m.dispatch)),
             "dispatch: all_to_all, or overlap: false");
    if (std::ranges::max(m.imbalance) > 1 && t_.experts->capacity > 0)
      refuse("imbalance", "a capacity fills every expert up to it, whatever tokens choose",
             "leave out imbalance, or set the model's experts.capacity: dropless");
    if (m.node_limit > 0) node_limit();
    if (sends_once(m.dispatch) && l_.gpus > 0 && l_.nvlink_domain == 0)
      refuse("dispatch",
             fmt::format("{} hands tokens on by NVLink, which these nodes lack",
                         to_string(m.dispatch)),
             "dispatch: all_to_all");
  }

  void node_limit() {
    const ModelParallel& m = l_.model;
    if (!sends_once(m.dispatch))
      return refuse("node_limit",
                    fmt::format("{} sends a token for each of its experts, however few nodes they "
                                "are on",
                                to_string(m.dispatch)),
                    "dispatch: deepep, or leave out node_limit");
    if (m.node_limit >= m.expert_nodes)
      return refuse("node_limit",
                    fmt::format("the experts are on {} node{}: a limit of {} holds nothing back",
                                m.expert_nodes, m.expert_nodes == 1 ? "" : "s", m.node_limit),
                    "leave it out");
    const std::int64_t near = t_.experts->count * m.node_limit / m.expert_nodes;
    if (near < t_.experts->active)
      refuse("node_limit",
             fmt::format("{} of {} nodes have {} experts, of which a token passes {}", m.node_limit,
                         m.expert_nodes, near, t_.experts->active),
             "a higher limit");
  }

  void pipeline() {
    const int degree = l_.pipeline;
    if (l_.virtual_stages > 1 && degree == 1)
      refuse(
          "virtual_stages",
          fmt::format("virtual_stages {} needs pipeline_parallel of 2 or more", l_.virtual_stages),
          "leave it out", "virtual_stages need pipeline_parallel of 2 or more");
    const std::int64_t chunks = std::int64_t{degree} * l_.virtual_stages;
    if (l_.even_split && chunks > 1 && t_.layers % chunks != 0)
      refuse("pipeline_parallel",
             fmt::format("{} blocks make no {} even stages", t_.layers,
                         l_.virtual_stages > 1 ? fmt::format("{} x {}", degree, l_.virtual_stages)
                                               : fmt::format("{}", degree)),
             "give pipeline: {split: [...]}, or degrees that divide them",
             fmt::format("{} blocks make no even stages", t_.layers));
    // A first stage may have the embeddings alone, and a last one the loss.
    if (!l_.even_split && t_.layers + 2 < chunks)
      refuse("pipeline_parallel",
             fmt::format("{} blocks are too few for {} stages", t_.layers, chunks), "fewer stages",
             fmt::format("{} blocks are too few for the stages", t_.layers));
    if (l_.virtual_stages > 1 && l_.micro_batches > 0 && l_.micro_batches % degree != 0)
      refuse("virtual_stages",
             fmt::format("an interleaved schedule takes micro-batches in rounds of {} "
                         "(pipeline_parallel); got {}",
                         degree, l_.micro_batches),
             fmt::format("a multiple of {} micro-batches", degree),
             "virtual_stages take micro-batches in rounds of pipeline_parallel");
  }

  void ranks() {
    const ModelParallel& m = l_.model;
    const std::int64_t replica = std::int64_t{m.tensor} * m.context * l_.pipeline;
    if (l_.gpus < 1) return;
    if (l_.gpus % replica != 0)
      return refuse(
          "tensor_parallel",
          fmt::format("tensor {} x context {} x pipeline {} = {} GPUs of a replica do not "
                      "divide {} GPUs",
                      m.tensor, m.context, l_.pipeline, replica, l_.gpus),
          "degrees whose product divides them",
          fmt::format("a replica does not divide {} GPUs", l_.gpus));
    const std::int64_t stage = l_.gpus / l_.pipeline;
    const std::int64_t experts = std::int64_t{m.expert} * m.expert_tensor;
    if (t_.experts && stage % experts != 0)
      refuse("expert_parallel",
             fmt::format("expert {} x expert_tensor {} = {} GPUs do not divide a stage's {} GPUs",
                         m.expert, m.expert_tensor, experts, stage),
             fmt::format("degrees whose product divides {}", stage),
             "expert_parallel does not divide a stage's GPUs");
    else if (t_.experts && !l_.stages_agree)
      refuse("order",
             fmt::format(
                 "stages of experts would be other ranks: before pp, the order spans unlike "
                 "numbers of ranks with expert {} x expert_tensor {} and tensor {} x context {}",
                 m.expert, m.expert_tensor, m.tensor, m.context),
             "an order that ends with pp",
             "stages of experts would be other ranks: pp stands inside the order");
  }

  void doubts() {
    const ModelParallel& m = l_.model;
    if (l_.nvlink_domain > 0 && m.tensor > l_.nvlink_domain)
      doubt("tensor_parallel",
            fmt::format("tensor_parallel {} leaves NVLink, which joins {} GPUs: every block waits "
                        "for the network",
                        m.tensor, l_.nvlink_domain),
            fmt::format("tensor_parallel: {}, and more pipeline stages", l_.nvlink_domain));
    if (m.sequence_parallel && m.tensor == 1)
      doubt("sequence_parallel", "sequence_parallel does nothing without tensor_parallel",
            "leave it out");
    if (m.gather_logits && m.tensor == 1)
      doubt("gather_logits", "gather_logits does nothing without tensor_parallel", "leave it out");
    if (!t_.latent && m.tensor > t_.kv_heads && t_.kv_heads < t_.heads)
      doubt(
          "tensor_parallel",
          fmt::format("tensor_parallel {} exceeds {} key-value heads: each block gathers queries, "
                      "keys and values",
                      m.tensor, t_.kv_heads),
          fmt::format("tensor_parallel: {}", t_.kv_heads));
    if (l_.pipeline > 1 && l_.micro_batches > 0 && l_.micro_batches < l_.pipeline)
      doubt("pipeline_parallel",
            fmt::format("{} micro-batches never fill {} stages", l_.micro_batches, l_.pipeline),
            fmt::format("at least {} micro-batches", l_.pipeline));
  }

  const TransformerShape& t_;
  const LayoutDegrees& l_;
  std::vector<LayoutFinding> found_;
};

}  // namespace

std::vector<LayoutFinding> layout_findings(const TransformerShape& model,
                                           const LayoutDegrees& layout) {
  return Rules(model, layout).take();
}

}  // namespace rehearse::inline model
