#pragma once

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

/// Error of predictions of models that the fit had not seen.
struct EngineError {
  double low = 0, high = 0;  ///< ln(measured / predicted): ends of 90 % of the rows
  double points = 0, median = 0, p90 = 0;
};

/// What a serving engine adds to the kernels of a step, and what its kernels reach
/// (platforms/engines/README.md).
struct Engine {
  std::string name, title, versions, source;
  Seconds step;         ///< host time of each step
  Seconds sequence;     ///< and of each sequence in it
  Seconds eager_layer;  ///< host time of a layer without CUDA graphs, in a step with a prompt
  ByGeneration<Seconds> kernel, all_reduce;
  Bytes all_reduce_until;
  double weights = 0, cache = 0;  ///< shares of the memory bandwidth
  ByGeneration<double> experts;
  double unpacked_experts = 0;  ///< of a format that the GPU has no unit for
  double products = 0;          ///< share of the peak
  double spread = 1;            ///< tokens that count in how many experts are read
  double prefill_tokens = 0;    ///< most tokens of a step
  double memory = 0;            ///< share of a GPU's memory
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
