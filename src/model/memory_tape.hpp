#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/kernel.hpp"
#include "model/model.hpp"

namespace rehearse::inline model {

/// Whose kernels run: what they take besides their outputs differs.
enum class TapeDevice : std::uint8_t { cpu, cuda };

/// Role of a tensor of the tape in a training step.
enum class TensorRole : std::uint8_t {
  activation,           ///< an output, or what else forward keeps for backward
  activation_gradient,  ///< the loss's derivative by an activation
  parameter_gradient,   ///< as backward's kernel hands it to AccumulateGrad
  autocast_copy,        ///< a parameter in 16 bits, kept by autocast until forward ends
  workspace             ///< a kernel's own, or a temporary within one operator
};

/// A tensor that a step takes from the allocator.
struct TapeTensor {
  TensorRole role = TensorRole::activation;
  Bytes size;                   ///< as the kernel asks for it, before the allocator rounds
  std::uint32_t unit = 0;       ///< that takes it
  std::uint32_t parameter = 0;  ///< parameter_gradient, autocast_copy: index into Unit::tensors
  /// States of forward's tensors. `remade`: given back at its unit's end and made again before the
  /// unit's backward. `kept`: kept until then although nothing reads it (recomputation.hpp).
  bool remade = false, kept = false;
  /// A collective that the host does not wait for reads or writes it.
  bool travels = false;

  bool operator==(const TapeTensor&) const = default;
};

/// The tensor (an index into MemoryTape::tensors) is taken from the allocator or given back to it.
struct TapeEvent {
  std::uint32_t tensor = 0;
  bool takes = true;

  bool operator==(const TapeEvent&) const = default;
};

struct UnitTape {
  std::vector<TapeEvent> forward;
  std::vector<TapeEvent> backward;
};

/// Tensors that a chunk of a pipeline is given and hands over: indices into MemoryTape::tensors.
/// Empty for the first chunk's input and the last one's output.
struct ChunkTape {
  /// Taken by the first unit's forward, and kept until the chunk's backward is over.
  std::optional<std::uint32_t> received;
  std::optional<std::uint32_t> sent;  ///< of the last unit's forward; never given back
  bool keeps_sent = false;  ///< but the chunk's backward reads what it sent, and gives it back
  std::optional<std::uint32_t> received_gradient;  ///< taken by the last unit's backward
  std::optional<std::uint32_t> sent_gradient;      ///< of the first unit's; never given back
};

/// Every tensor that one forward and backward pass takes and gives back, in the order in which the
/// host asks: all units' forward, then all units' backward from the last to the first.
///
/// Played in this order each tensor is taken once and given back once, possibly by another unit
/// (an activation that the next unit saved), and nothing is left, but for parameter gradients:
/// they are only taken, because what becomes of them is the strategy's affair (kept as `.grad`
/// where there is none yet, or added to it and given back at once). The batch and the parameters
/// are not on the tape.
struct MemoryTape {
  std::vector<TapeTensor> tensors;
  std::vector<UnitTape> units;            ///< as Model::units
  std::vector<ChunkTape> chunks = {};     ///< as Model::chunks
  std::vector<UnitKernels> kernels = {};  ///< as Model::units; empty: nobody asked
};

struct TapeOptions {
  Precision precision = Precision::fp32;
  std::int64_t batch = 1;  ///< samples
  TapeDevice device = TapeDevice::cuda;
  bool kernels = false;   ///< kernels are written down, too
  bool gradients = true;  ///< false: forward alone, under torch.no_grad
};

/// The tape of a model. Units whose activations were given rather than computed (inline models)
/// take one tensor of that size, and a gradient per parameter tensor. Chunks are played one by one,
/// each forward and backward.
MemoryTape memory_tape(const Model& model, const TapeOptions& options);

}  // namespace rehearse::inline model
