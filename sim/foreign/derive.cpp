// Some facts follow from several others of a configuration.
#include <fmt/format.h>

#include <algorithm>

#include "config/document.hpp"
#include "foreign/assemble.hpp"

namespace rehearse::inline foreign {
namespace {

const std::string kDims = "model.transformer.";

void fail_of(const Facts& facts, const std::string& name, const std::string& message,
             const std::string& remedy = "") {
  const Fact& fact = facts.at(name);
  if (fact.place.source) fail_at(fact.place, fmt::format("{}: {}", fact.key, message), remedy);
}

/// Megatron-LM pads a vocabulary so that its ranks have equal parts
/// (megatron/training/tokenizer: _vocab_size_with_padding).
void pad_vocabulary(Facts& facts) {
  if (!has(facts, "vocab_divisor")) return;
  const std::int64_t divisor =
      count_of(facts, "vocab_divisor") *
      std::max<std::int64_t>(1, count_of(facts, "strategy.tensor_parallel"));
  facts.erase("vocab_divisor");
  const std::int64_t size = count_of(facts, kDims + "vocab_size");
  if (size > 0 && divisor > 0)
    say(facts, kDims + "vocab_size", std::to_string((size + divisor - 1) / divisor * divisor));
}

/// GPT-NeoX's gate and its input share two thirds of the width, each up to a multiple
/// (megatron/model/transformer.py: ParallelMLP); LLaMAParallelMLP's have as much each.
void fill_gated_width(Facts& facts, std::int64_t width, bool gated) {
  const std::int64_t multiple = count_of(facts, "ffn_multiple_of");
  const bool whole = facts.erase("gate_of_its_own") > 0;
  facts.erase("ffn_multiple_of");
  if (multiple == 0 || !gated) return;
  const std::int64_t said = count_of(facts, kDims + "intermediate_size");
  const std::int64_t gate = (said > 0 ? said : 4 * width) * 2 / 3 / (whole ? 1 : 2);
  say(facts, kDims + "intermediate_size",
      std::to_string((gate + multiple - 1) / multiple * multiple));
}

/// Megatron-LM's widths where they are not said (megatron/training/arguments.py).
void fill_dimensions(Facts& facts) {
  const std::int64_t width = count_of(facts, kDims + "hidden_size");
  if (width == 0) return;
  const std::string activation = value_of(facts, kDims + "activation");
  fill_gated_width(facts, width, activation == "swiglu" || activation == "geglu");
  if (!has(facts, kDims + "intermediate_size"))
    say(facts, kDims + "intermediate_size",
        std::to_string(activation == "swiglu" ? 4 * width * 2 / 3 / 64 * 64 : 4 * width));
  if (has(facts, "expansion_ratio")) {
    say(facts, kDims + "intermediate_size",
        std::to_string(count_of(facts, "expansion_ratio") * width));
    facts.erase("expansion_ratio");
  }
}

/// Shared experts are given by their width together, and layers with experts by a pattern.
void fill_experts(Facts& facts) {
  const std::string experts = kDims + "experts.";
  const bool named = has(facts, "model.hf") || has(facts, "model.use");
  // Nobody dispatches tokens where each rank has all experts, or there are none.
  const bool may_have = named || has(facts, experts + "count");
  if (!may_have || count_of(facts, "strategy.expert_parallel") <= 1)
    std::erase_if(facts,
                  [](const auto& fact) { return fact.first.starts_with("strategy.experts."); });
  if (!has(facts, experts + "count")) {
    std::erase_if(facts, [&](const auto& fact) {
      return fact.first.starts_with(experts) || fact.first == "shared_width" ||
             fact.first == "layer_freq";
    });
    return;
  }
  std::int64_t width = count_of(facts, experts + "intermediate_size");
  if (width == 0) width = count_of(facts, kDims + "intermediate_size");
  const std::int64_t shared = count_of(facts, "shared_width");
  if (shared > 0) {
    if (width == 0 || shared % width != 0)
      fail_of(facts, "shared_width",
              fmt::format("{} is no whole number of experts of {}", shared, width),
              "shared experts of another width cannot be said");
    else
      say(facts, experts + "shared", std::to_string(shared / width));
  }
  const std::string pattern = value_of(facts, "layer_freq");
  if (!pattern.empty()) {
    std::string plain = pattern;
    std::erase_if(plain,
                  [](char c) { return c == ' ' || c == '(' || c == ')' || c == '"' || c == '\''; });
    int first = 0, others = 0, used = 0;
    if (plain.find('[') == std::string::npos) {
      if (count_of(facts, "layer_freq") > 1) say(facts, experts + "interval", plain);
    } else if (std::sscanf(plain.c_str(), "[0]*%d+[1]*%d%n", &first, &others, &used) == 2 &&
               used == static_cast<int>(plain.size())) {
      say(facts, experts + "first_dense", std::to_string(first));
    } else if (std::ranges::any_of(plain, [](char c) { return c == '0'; })) {
      // A list, as dumps have it: [0, 1, 1].
      std::string bits = plain;
      std::erase_if(bits, [](char c) { return c != '0' && c != '1'; });
      const std::size_t dense = std::min(bits.find('1'), bits.size());
      if (bits.find('0', dense) != std::string::npos)
        fail_of(facts, "layer_freq", "of layers with experts one after the other can be said",
                "such as ([0]*3+[1]*58)");
      say(facts, experts + "first_dense", std::to_string(dense));
    }
  }
  facts.erase("shared_width");
  facts.erase("layer_freq");
}

/// Layers of each virtual stage, as Megatron-LM counts them; options of degrees that are 1 go.
void fill_pipeline(Facts& facts) {
  if (count_of(facts, "strategy.tensor_parallel") <= 1)
    for (const char* key :
         {"sequence_parallel", "tp_comm_overlap", "async_tensor_model_parallel_allreduce"})
      facts.erase(std::string("strategy.") + key);
  const std::int64_t stages = count_of(facts, "strategy.pipeline_parallel");
  const std::int64_t each = count_of(facts, "layers_per_virtual_stage");
  const std::int64_t layers = layers_in(facts);
  if (stages > 1 && each > 0 && layers > 0) {
    if (layers % (stages * each) != 0)
      fail_of(
          facts, "layers_per_virtual_stage",
          fmt::format("{} layers are no whole number of {} stages of {}", layers, stages, each));
    say(facts, "strategy.pipeline.virtual_stages", std::to_string(layers / (stages * each)));
  }
  if (stages > 1 && each > 0 && layers == 0)
    fail_of(facts, "layers_per_virtual_stage", "the file does not say how many layers there are",
            "leave it out and write strategy.pipeline.virtual_stages");
  facts.erase("layers_per_virtual_stage");
  if (count_of(facts, "strategy.pipeline.virtual_stages") > 1 &&
      !has(facts, "strategy.pipeline.schedule"))
    say(facts, "strategy.pipeline.schedule", "interleaved_1f1b");
  if (stages > 1) return;
  std::erase_if(facts, [](const auto& fact) {
    return fact.first.starts_with("strategy.pipeline.") ||
           fact.first == "strategy.micro_batch_size";
  });
}

/// Ranks that share an expert go where they are the framework's own, and where nobody has experts.
void fill_expert_ranks(Facts& facts, const std::string& framework) {
  const std::string key = "strategy.expert_tensor_parallel";
  const std::int64_t tensor =
      std::max<std::int64_t>(1, count_of(facts, "strategy.tensor_parallel"));
  const bool apart = framework == "torchtitan" || framework == "deepspeed";
  const std::int64_t usual = apart ? 1 : tensor;
  const bool dense = has(facts, kDims + "layers") && !has(facts, kDims + "experts.count");
  if (dense || count_of(facts, key) == usual) facts.erase(key);
}

/// Whose of the two a key of FSDP is.
void fill_sharding(Facts& facts) {
  const std::string sync = value_of(facts, "sync");
  if (sync == "zero" && !has(facts, "sync.stage"))
    fail_of(facts, "sync", "it does not say which stage of ZeRO",
            "name DeepSpeed's own file, too: rehearse import config THIS THAT.json");
  // DeepSpeed without ZeRO reduces all gradients behind the last backward, as its `ddp` here does.
  if (sync == "zero" && value_of(facts, "sync.stage") == "0") {
    say(facts, "sync", "ddp");
    std::erase_if(facts, [](const auto& fact) { return fact.first.starts_with("sync."); });
    return;
  }
  // Replicas of shards: HSDP.
  const std::int64_t replicas = count_of(facts, "replicas");
  const std::int64_t shards = count_of(facts, "shards");
  if (replicas > 1 && shards == 1) {
    say(facts, "sync", "ddp");
    std::erase_if(facts, [](const auto& fact) { return fact.first.starts_with("sync."); });
  } else if (replicas > 1 && shards > 1 && sync == "fsdp2") {
    say(facts, "sync.shard_group", std::to_string(shards));
  }
}

/// Options of one strategy that a file has beside another.
void drop_strange_options(Facts& facts) {
  const std::string sync = value_of(facts, "sync");
  const auto drop = [&](std::initializer_list<const char*> names) {
    for (const char* name : names) facts.erase(std::string("sync.") + name);
  };
  if (sync != "ddp" && sync != "zero")
    drop({"bucket_cap_mb", "overlap_grad_reduce", "overlap_param_gather", "check_for_nan_in_grad"});
  if (sync != "megatron_fsdp") drop({"data_parallel_sharding_strategy"});
  if (sync != "ddp" && sync != "zero" && sync != "megatron_fsdp") drop({"grad_reduce_in_fp32"});
  // One kernel, or one for many tensors, is PyTorch's own choice.
  const std::string optimizer = value_of(facts, "opt");
  if (optimizer != "adam" && optimizer != "adamw" && optimizer != "sgd")
    for (const char* key : {"opt.fused", "opt.foreach"}) facts.erase(key);
  if (sync != "zero") drop({"stage"});
  if (sync != "fsdp" || value_of(facts, "sync.wrap") == "blocks") drop({"wrap"});
  // FSDP2 says with reshard_after_forward what FSDP says with its sharding.
  if (sync == "fsdp2") drop({"sharding", "buffer_dtype", "backward_prefetch", "forward_prefetch"});
  if (sync == "ddp" || sync == "zero")
    drop({"param_dtype", "reduce_dtype", "buffer_dtype", "cpu_offload", "sharding",
          "reshard_after_forward", "backward_prefetch", "forward_prefetch"});
}

/// Names and lists that files write in a form of their own.
void fill_model(Facts& facts) {
  if (has(facts, "model.hf") || has(facts, "model.use")) {
    // A file that names a network and says a dimension changes that one.
    for (const char* name :
         {"layers", "hidden_size", "heads", "kv_heads", "intermediate_size", "vocab_size"})
      if (const auto found = facts.find(kDims + name);
          found != facts.end() && !found->second.key.empty())
        facts[std::string("model.") + name] = found->second;
    std::erase_if(facts, [](const auto& fact) { return fact.first.starts_with(kDims); });
  }
  fill_adapters(facts);
  // Fused kernels of attention have no softmax of their own.
  if (has(facts, "model.attention") && value_of(facts, "model.attention") != "eager")
    facts.erase("model.fused_softmax");
  const std::string modules = value_of(facts, "model.activation_checkpointing.modules");
  if (!modules.empty() && !modules.starts_with('['))
    say(facts, "model.activation_checkpointing.modules", "[" + modules + "]");
}

/// torchtitan checkpoints every so many layers, and counts micro-batches in tokens.
void fill_layer_counts(Facts& facts) {
  if (value_of(facts, "every_layer") == "true") {
    const std::string every = value_of(facts, "every");
    say(facts, "model.activation_checkpointing",
        every == "1" ? "per_unit" : "{every_layer: " + every + "}");
  }
  const std::int64_t tokens = count_of(facts, "micro_tokens");
  const std::int64_t length = count_of(facts, "model.sequence");
  if (tokens > 0 && length > 0) {
    if (tokens % length != 0)
      fail_of(facts, "micro_tokens",
              fmt::format("{} tokens are no whole number of sequences of {}", tokens, length));
    say(facts, "micro_batch", std::to_string(tokens / length));
  }
}

/// Megatron-DeepSpeed ends at its tokens; samples beside them are a bound that is not reached
/// (megatron/training.py: args.consumed_train_tokens < args.train_tokens).
void fill_length(Facts& facts) {
  if (!has(facts, "train.tokens")) return;
  facts.erase("train.samples");
  facts.erase("train.steps");
}

/// GPUs that degrees alone tell.
void fill_gpus(Facts& facts) {
  if (const std::int64_t replicas = count_of(facts, "replicas_of_degrees"); replicas > 0) {
    std::int64_t gpus = replicas;
    for (const char* degree : {"tensor_parallel", "pipeline_parallel", "context_parallel.degree"})
      gpus *= std::max<std::int64_t>(1, count_of(facts, std::string("strategy.") + degree));
    say(facts, "gpus", std::to_string(gpus));
    facts.erase("replicas_of_degrees");
  }
  if (!has(facts, "gpus") && has(facts, "gpus_per_node")) {
    const std::int64_t nodes = std::max<std::int64_t>(1, count_of(facts, "nodes"));
    say(facts, "gpus", std::to_string(nodes * count_of(facts, "gpus_per_node")));
  }
  const std::int64_t batch = count_of(facts, "global_batch");
  const std::int64_t micro = count_of(facts, "micro_batch");
  const std::int64_t steps = count_of(facts, "accumulation");
  if (!has(facts, "gpus") && batch > 0 && micro > 0 && steps > 0 && batch % (micro * steps) == 0 &&
      has(facts, "batch_tells_gpus"))
    say(facts, "gpus", std::to_string(batch / (micro * steps)));
  facts.erase("batch_tells_gpus");
}

}  // namespace

void fill_precision(Facts& facts, const std::string& framework) {
  if (has(facts, "model.precision")) {
    facts.erase("amp");
    facts.erase("dtype");
    return;
  }
  const std::string amp = value_of(facts, "amp");
  const std::string dtype = value_of(facts, "dtype");
  const bool mixed = amp == "bf16" || amp == "fp16";
  const std::string sync = value_of(facts, "sync");
  std::string precision = "fp32";
  if (amp == "fp8") {
    precision = "fp8";
  } else if (framework == "deepspeed" || sync == "zero") {
    if (mixed) precision = amp + "_master";
  } else if (mixed && sync.starts_with("fsdp")) {
    // accelerate widens the parameters of a 16-bit model that it shards in mixed precision.
    precision = amp;
    if (!has(facts, "sync.param_dtype")) say(facts, "sync.param_dtype", amp);
  } else if (dtype == "bf16") {
    precision = mixed ? "bf16_pure_autocast" : "bf16_pure";
  } else if (mixed) {
    precision = amp;
  } else if (value_of(facts, "tf32") == "true") {
    precision = "tf32";
  }
  say(facts, "model.precision", precision);
  for (const char* name : {"amp", "dtype", "tf32"}) facts.erase(name);
}

std::int64_t layers_in(const Facts& facts) {
  for (const std::string& name : {std::string("model.layers"), std::string("network_layers")})
    if (const std::int64_t layers = count_of(facts, name); layers > 0) return layers;
  return count_of(facts, kDims + "layers");
}

void derive(Facts& facts, const std::string& framework) {
  fill_model(facts);
  pad_vocabulary(facts);
  fill_dimensions(facts);
  fill_experts(facts);
  fill_layer_counts(facts);
  fill_sharding(facts);
  fill_precision(facts, framework);
  drop_strange_options(facts);
  fill_split(facts);
  fill_pipeline(facts);
  fill_expert_ranks(facts, framework);
  fill_gpus(facts);
  fill_length(facts);
}

}  // namespace rehearse::inline foreign
