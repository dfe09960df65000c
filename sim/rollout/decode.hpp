#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "collective/nccl_model.hpp"
#include "model/transformer.hpp"
#include "rollout/engine.hpp"

namespace rehearse::inline rollout {

/// Formats of a served network's weights. `fp8`: all products; `nvfp4`: experts (of a dense network
/// all products) in 4 bits, attention in 8; `mxfp4`: experts in 4 bits, all else in 16 (GPT-OSS).
enum class ServedFormat { bf16, fp8, nvfp4, mxfp4 };
std::vector<std::string> served_formats();
ServedFormat parse_served_format(const std::string& name);
std::string to_string(ServedFormat format);

/// How a network is laid out on the GPUs that serve one copy of it.
struct Serving {
  int tensor_parallel = 1;
  /// Groups of tensor ranks that attend to sequences of their own and share the experts.
  int attention_data_parallel = 1;
  /// Ranks between which whole experts are dealt; each of these shares is divided by columns.
  int expert_parallel = 1;
  ServedFormat format = ServedFormat::bf16;
  Bytes cache_element{2};  ///< of keys and values
  bool eager = false;      ///< no CUDA graphs: the host launches each step's kernels
  Seconds host{0};         ///< of each step, which nothing hides, beside the engine's own

  int ranks() const { return tensor_parallel * attention_data_parallel; }
};

/// Time of one step of an engine, by what takes it. All but `host` and `waits` is the GPU's.
struct DecodeStep {
  Seconds products, experts, cache, attention, head, kernels, all_reduce;
  Seconds waits;  ///< for a host that launches kernels one by one
  Seconds host;   ///< what the scheduler's work adds that nothing hides

  Seconds gpu() const {
    return products + experts + cache + attention + head + kernels + all_reduce;
  }
  Seconds total() const { return gpu() + waits + host; }
};

/// Whether it is a decoder of attention and feed-forward layers, which alone are served.
bool is_served(const TransformerShape& network);

/// What a step of an engine takes, of one network on one kind of GPU. Closed forms, with P and B
/// the GPU's peak and bandwidth, n tokens of a rank's step:
///   a product: ((bytes / wB)^3 + (2 n parameters / pP)^3)^(1/3), w and p the engine's shares
///   experts:   E (1 - (1 - k/E)^(s n)) of E experts are read, s the spread; w falls with the
///              columns that a rank has of each (ExpertKernel); g, the grouped share, is their p,
///              and each token's k copies move r bytes of each element
///   attention: each sequence's cache over its share of B; a window's layers read no more than that
///   a layer:   small kernels by the kind of network, two all_reduces (AllReduceTimes)
///   the host works beside the GPU: (gpu^o + host^o)^(1/o), o the engine's overlap
///   a step with a prompt's tokens takes at least the host's time for every layer
class DecodeModel {
 public:
  /// The first GPUs of `cluster` serve. Throws std::invalid_argument with a message for the user:
  /// a network that is no decoder of attention and feed-forward layers, more ranks than GPUs, GPUs
  /// that the engine does not run on.
  DecodeModel(const TransformerShape& network, const Cluster& cluster, const Engine& engine,
              const Serving& serving);

  /// A step of a tensor group that decodes a token of each of `sequences`, whose mean length is
  /// `context`, and takes `prompt_tokens` of prompts that are `prompt` long.
  DecodeStep step(double sequences, double context, double prompt_tokens = 0,
                  double prompt = 0) const;

  /// Steady state: `sequences` of a tensor group at a time, each of `prompt` and then `response`
  /// tokens; a new one takes the place of each that ends.
  struct Steady {
    DecodeStep decode;              ///< a step without a prompt
    Seconds time_per_output_token;  ///< the mean, prompts of others included
    Seconds time_to_first_token;    ///< of a prompt alone beside the others' decoding
    double prompt_steps = 0;        ///< share of steps that hold a part of a prompt
  };
  Steady steady(double sequences, double prompt, double response) const;

  Bytes cache_of_token() const { return cache_of_token_; }  ///< on one rank
  /// Kept of a sequence of so many tokens: layers with a window forget what lies before it.
  Bytes cache_of(double tokens) const;
  /// std::invalid_argument where a sequence has more tokens than the network has positions for.
  void check_positions(double tokens) const;
  /// Most tokens of a sequence; 0: not known.
  double positions() const { return static_cast<double>(network_.served_tokens); }
  Bytes weights() const { return weights_; }  ///< on one rank
  /// The rank's memory for the cache, where the engine may take `share` of the GPU's.
  Bytes cache_memory(double share) const;

  /// Whether it serves fp16 where 16 bits are asked for: the GPU has no unit for bf16 (vLLM's
  /// `dtype: auto`, SGLang's and TensorRT-LLM's default likewise).
  bool takes_fp16() const { return gpu_.bf16 <= FlopsPerSecond(0); }
  /// Whether kernels turn its weights to 16 bits: the GPU has no unit for their format.
  bool unpacks() const;

  const Engine& engine() const { return engine_; }
  const Serving& serving() const { return serving_; }
  const Gpu& gpu() const { return gpu_; }

 private:
  Seconds product(double parameters, double bytes, double tokens, FlopsPerSecond peak) const;
  Seconds prompt_attention(double tokens, double prompt) const;
  Bytes reduced(double tokens) const;  ///< by each all_reduce
  /// Whether the engine's own kernel does it: within its buffer, its ranks and NVLink of one node.
  bool own_all_reduce(double tokens) const;
  Seconds all_reduce(double tokens) const;
  double experts_read(double tokens) const;
  Bytes cache_read(double context) const;  ///< by a step, of one sequence

  TransformerShape network_;
  Engine engine_;
  Serving serving_;
  Gpu gpu_;
  double speed_ = 1;                    ///< of its kernels, times that of their kind
  std::optional<BytesPerSecond> link_;  ///< of NVLink
  NcclMachine machine_;
  bool blackwell_ = false;
  FlopsPerSecond dense_peak_, expert_peak_;
  double dense_element_ = 2, expert_element_ = 2;
  ExpertKernel expert_kernel_;
  BytesPerSecond expert_rate_;  ///< at which experts are read
  double grouped_share_ = 1;
  double attention_parameters_ = 0, feed_forward_parameters_ = 0;  ///< of a layer
  double expert_parameters_ = 0, shared_parameters_ = 0;
  double expert_layers_ = 0, dense_layers_ = 0, windowed_ = 0;  ///< layers
  double small_kernels_ = 0;                                    ///< of a step
  Bytes cache_of_token_, layer_cache_, weights_;
};

}  // namespace rehearse::inline rollout
