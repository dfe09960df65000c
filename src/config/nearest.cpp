#include <algorithm>
#include <boost/algorithm/string/case_conv.hpp>
#include <optional>
#include <string_view>

#include "config/document.hpp"

namespace rehearse {

namespace {

// Damerau-Levenshtein in its restricted form (optimal string alignment): insertions, deletions,
// substitutions and swaps of neighbours cost 1 each. Three rows of the table are enough.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, above);
    std::swap(above, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({substituted, above[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::size_t allowed_distance(std::size_t length) {
  return std::max<std::size_t>(length / 3, length >= 4 ? 2 : 1);
}

constexpr std::size_t kLongestWord = 200;  // the distance takes length x length steps

// "A100" is more likely the begin of "A100-SXM-80" than "A10" with a letter too many: what a word
// begins costs less than any edit.
constexpr std::size_t kShortestBegin = 3, kEdit = 8;
// Letters in the other case cost least of all, however many they are.
constexpr std::size_t kBegin = 4, kPart = 6, kCase = 2;
// Of equals, the one with the same letters: "gpsu" is "gpus" rather than "gpu".
constexpr std::size_t kOther = 1;

/// What people coming from other programs call it.
struct Synonym {
  std::string_view word, meant;
};
constexpr Synonym kSynonyms[] = {{"price", "usd_per_hour"},
                                 {"cost", "usd_per_hour"},
                                 {"usd", "usd_per_hour"},
                                 {"price_per_hour", "usd_per_hour"},
                                 {"cost_per_hour", "usd_per_hour"},
                                 {"hourly_price", "usd_per_hour"},
                                 {"batch", "batch_per_gpu"},
                                 {"batch_size", "batch_per_gpu"},
                                 {"micro_batch", "batch_per_gpu"},
                                 {"micro_batch_size", "batch_per_gpu"},
                                 {"per_device_train_batch_size", "batch_per_gpu"},
                                 {"train_micro_batch_size_per_gpu", "batch_per_gpu"},
                                 {"seq_len", "sequence"},
                                 {"seq_length", "sequence"},
                                 {"sequence_length", "sequence"},
                                 {"max_seq_len", "sequence"},
                                 {"max_seq_length", "sequence"},
                                 {"context_length", "sequence"},
                                 {"image_size", "image"},
                                 {"resolution", "image"},
                                 {"num_classes", "classes"},
                                 {"dtype", "precision"},
                                 {"bfloat16", "bf16"},
                                 {"float16", "fp16"},
                                 {"half", "fp16"},
                                 {"float32", "fp32"},
                                 {"float", "fp32"},
                                 {"single", "fp32"},
                                 {"tensorfloat32", "tf32"},
                                 {"gradient_checkpointing", "activation_checkpointing"},
                                 {"recompute", "activation_checkpointing"},
                                 {"adapters", "lora"},
                                 {"adapter", "lora"},
                                 {"peft", "lora"},
                                 {"qlora", "lora"},
                                 {"r", "rank"},
                                 {"lora_r", "rank"},
                                 {"lora_rank", "rank"},
                                 {"target_modules", "targets"},
                                 {"lora_target_modules", "targets"},
                                 {"lora_alpha", "alpha"},
                                 {"lora_dropout", "dropout"},
                                 {"load_in_4bit", "quantization"},
                                 {"load_in_8bit", "quantization"},
                                 {"max_length", "sequence"},
                                 {"max_position_embeddings", "sequence"},
                                 {"recompute_granularity", "activation_checkpointing"},
                                 {"activation_recompute", "activation_checkpointing"},
                                 {"true", "per_unit"},
                                 {"full", "per_unit"},
                                 {"false", "none"},
                                 {"tp", "tensor_parallel"},
                                 {"tensor_model_parallel_size", "tensor_parallel"},
                                 {"tensor_parallel_degree", "tensor_parallel"},
                                 {"pp", "pipeline_parallel"},
                                 {"pipeline_model_parallel_size", "pipeline_parallel"},
                                 {"pipeline_parallel_degree", "pipeline_parallel"},
                                 {"cp", "context_parallel"},
                                 {"context_parallel_size", "context_parallel"},
                                 {"context_parallel_degree", "context_parallel"},
                                 {"ep", "expert_parallel"},
                                 {"expert_model_parallel_size", "expert_parallel"},
                                 {"expert_parallel_degree", "expert_parallel"},
                                 {"num_microbatches", "micro_batches"},
                                 {"num_micro_batches", "micro_batches"},
                                 {"dim", "hidden_size"},
                                 {"d_model", "hidden_size"},
                                 {"n_embd", "hidden_size"},
                                 {"n_layers", "layers"},
                                 {"n_layer", "layers"},
                                 {"n_heads", "heads"},
                                 {"n_head", "heads"},
                                 {"n_kv_heads", "kv_heads"},
                                 {"num_kv_heads", "kv_heads"},
                                 {"ffn_dim", "intermediate_size"},
                                 {"d_ff", "intermediate_size"},
                                 {"sliding_window", "attention"},
                                 {"flash_attn", "flash_attention"},
                                 {"use_flash_attn", "flash_attention"},
                                 {"num_experts", "count"},
                                 {"num_local_experts", "count"},
                                 {"n_routed_experts", "count"},
                                 {"num_experts_per_tok", "active"},
                                 {"moe_router_topk", "active"},
                                 {"top_k", "active"},
                                 {"use_distributed_optimizer", "zero"},
                                 {"distributed_optimizer", "zero"},
                                 {"global_batch_size", "global_batch"},
                                 {"train_batch_size", "global_batch"},
                                 {"num_nodes", "nodes"},
                                 {"nnodes", "nodes"},
                                 {"num_gpus", "gpus"},
                                 {"nproc_per_node", "gpus_per_node"},
                                 {"bandwidth", "nic"},
                                 {"network", "nic"},
                                 {"nic_bandwidth", "nic"},
                                 {"nic_speed", "nic"},
                                 {"network_bandwidth", "nic"},
                                 {"latency", "nic_latency"},
                                 {"gradient_accumulation_steps", "gradient_accumulation"},
                                 {"accumulation", "gradient_accumulation"},
                                 {"accumulate_grad_batches", "gradient_accumulation"},
                                 {"sharding_strategy", "sharding"},
                                 {"zero2", "shard_grad_op"},
                                 {"zero3", "full_shard"},
                                 {"deepspeed", "zero"},
                                 {"horovod", "ddp"},
                                 {"data_parallel", "ddp"},
                                 {"fully_sharded", "fsdp"},
                                 {"parameter_server", "ps"},
                                 {"num_epochs", "epochs"},
                                 {"num_train_epochs", "epochs"},
                                 {"max_epochs", "epochs"},
                                 {"samples", "samples_per_epoch"},
                                 {"dataset_size", "samples_per_epoch"},
                                 {"num_samples", "samples_per_epoch"},
                                 {"num_steps", "steps"},
                                 {"max_steps", "steps"},
                                 {"iterations", "steps"},
                                 {"warmup", "warmup_steps"}};

/// What a word is elsewhere for one of the candidates; nothing for a word without synonyms, empty
/// where the candidates have none of them.
std::optional<std::string> meant_by(const std::string& lower,
                                    const std::vector<std::string>& candidates) {
  std::optional<std::string> meant;
  for (const Synonym& one : kSynonyms) {
    if (one.word != lower) continue;
    if (std::ranges::find(candidates, one.meant) != candidates.end()) return std::string(one.meant);
    meant = "";
  }
  return meant;
}

bool is_swapped(std::string a, std::string b) {
  std::ranges::sort(a);
  std::ranges::sort(b);
  return a == b;
}

/// Whether a longer name has the word as one of the parts that "_" and "-" join.
bool is_part(const std::string& word, const std::string& name) {
  const auto joins = [&](std::size_t at) {
    return at >= name.size() || name[at] == '_' || name[at] == '-';
  };
  for (std::size_t at = name.find(word); at != std::string::npos; at = name.find(word, at + 1)) {
    if ((at == 0 || joins(at - 1)) && joins(at + word.size())) return true;
  }
  return false;
}

}  // namespace

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_cost = kEdit * (allowed_distance(word.size()) + 1);
  if (word.size() > kLongestWord) return best;
  const std::string lower = boost::to_lower_copy(word);
  const std::optional<std::string> meant = meant_by(lower, candidates);
  if (meant && !meant->empty()) return *meant;
  // Only a slip of a letter: what it is elsewhere is none of these.
  if (meant) best_cost = kEdit + kCase;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongestWord) continue;
    const std::string lower_candidate = boost::to_lower_copy(candidate);
    const std::size_t distance = edit_distance(lower, lower_candidate);
    // A word that shares no letter with the candidate is not a misspelling of it.
    if (distance >= std::max(word.size(), candidate.size())) continue;
    const bool is_begin = word.size() >= kShortestBegin && lower_candidate.starts_with(lower);
    const bool same_case = edit_distance(word, candidate) == distance;
    const std::size_t named = is_begin ? std::min(2 * distance, kBegin) : kEdit * distance;
    const bool is_part_of = word.size() >= kShortestBegin && is_part(lower, lower_candidate);
    const std::size_t edits = is_part_of ? std::min(named, kPart) : named;
    const std::size_t cost = edits + (same_case ? 0 : kCase) +
                             (is_swapped(lower, lower_candidate) ? 0 : kOther);
    if (cost >= best_cost) continue;
    best = candidate;
    best_cost = cost;
  }
  return best;
}

}  // namespace rehearse
