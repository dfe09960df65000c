#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "cluster/cluster.hpp"

namespace rehearse::inline rollout {

/// A value by generation of GPU.
template <class T>
struct ByGeneration {
  T hopper{}, blackwell{};
  const T& of(bool is_blackwell) const { return is_blackwell ? blackwell : hopper; }
};

/// Grouped experts take this long where few tokens come to each: `launch`, and then the bytes of
/// those that are read over `share` w / (w + narrow) of the memory bandwidth, w the columns that a
/// rank has of an expert; at most at `most`, where weights are unpacked on their way.
struct ExpertKernel {
  double share = 0, narrow = 0;
  Seconds launch;
  std::optional<BytesPerSecond> most;

  BytesPerSecond rate(BytesPerSecond bandwidth, double columns) const;
};

/// By generation where weights have 16 or 8 bits, and by format where they have 4.
struct ExpertKernels {
  ByGeneration<ExpertKernel> of;
  ExpertKernel nvfp4, mxfp4, unpacked;
};

/// An engine's own all_reduce, as measured: by sizes, between 2, 4 and 8 GPUs of a node.
struct AllReduceTimes {
  std::vector<Bytes> sizes;            ///< rising
  ByGeneration<BytesPerSecond> links;  ///< a GPU's NVLink there
  ByGeneration<std::vector<Seconds>> two, four, eight;

  bool has(double ranks, Bytes size) const { return ranks <= 8 && size <= sizes.back(); }
  /// Straight between the logarithms of sizes and times; below the first as of the first, and
  /// beyond the last by bytes. On another link it takes what bytes by its rate take on these.
  Seconds of(bool is_blackwell, double ranks, Bytes size, BytesPerSecond link) const;
};

/// Shares of the peak that grouped experts reach where many tokens come to each: 16- or 8-bit ones
/// by generation, NVFP4, and MXFP4 with a unit for 8 bits or unpacked to 16.
struct GroupedShares {
  ByGeneration<double> of;
  double nvfp4 = 0, mxfp4 = 0, unpacked = 0;
};

/// Error of predictions of models that the fit had not seen.
struct EngineError {
  double low = 0, high = 0;  ///< ln(measured / predicted): ends of 90 % of the rows
  double points = 0, median = 0, p90 = 0;
};

/// Small kernels of a layer, and what each kind of network has more: of a layer of experts, of
/// their inputs' conversion to 8 or 4 bits, of norms of heads, of latent attention and of its
/// indexer; `fused_norms`: fewer for each all_reduce that holds its norm.
struct KernelCounts {
  double layer = 0, experts = 0, quantized = 0, head_norms = 0, latent = 0, indexer = 0;
  double fused_norms = 0;
};

/// What a serving engine adds to the kernels of a step, and what its kernels reach
/// (platforms/engines/README.md).
struct Engine {
  std::string name, title, versions, source;
  Seconds step;         ///< host time of each step
  Seconds sequence;     ///< and of each sequence in it
  double overlap = 1;   ///< power p of (gpu^p + host^p)^(1/p): 1 adds them, many hides the shorter
  Seconds answer;       ///< of each sequence that nothing runs beside: its token's way out
  Seconds eager_layer;  ///< host time of a layer without CUDA graphs, in a step with a prompt
  KernelCounts kernels;
  ByGeneration<Seconds> kernel;
  AllReduceTimes all_reduce;
  ByGeneration<Seconds> all_reduce_wait;  ///< of each all_reduce, for ranks that are not alike
  double weights = 0, cache = 0;          ///< shares of the memory bandwidth
  ExpertKernels experts;
  GroupedShares grouped;
  double routed = 0;            ///< bytes moved of an element of each token's copy for an expert
  double products = 0;          ///< share of the peak
  double prompt_products = 0;   ///< the same in a step with a prompt
  double prompt_attention = 0;  ///< share of the peak of 16 bits
  bool prompts_alone = false;   ///< steps that take prompts decode nothing
  double spread = 1;            ///< tokens that count in how many experts are read
  double prefill_tokens = 0;    ///< most tokens of a step
  double memory = 0;            ///< share of a GPU's memory
  std::vector<std::string> runs_on;  ///< generations of GPUs (platforms/architectures.yaml)
  std::vector<std::string> unpacks;  ///< formats of weights that run where a GPU has no unit
  EngineError off;
};

/// "sglang", "tensorrt_llm", "vllm".
std::vector<std::string> engine_names();
/// One of engine_names(), which must be there. InputError where its file has mistakes.
Engine read_engine(const std::string& name);

/// Whether a GPU is of Blackwell's generation; older ones take Hopper's numbers.
bool is_blackwell(const Gpu& gpu);
/// Whether rows of its generation were measured.
bool is_measured(const Gpu& gpu);

}  // namespace rehearse::inline rollout
