#pragma once

#include <cstdint>
#include <string>

#include "base/id.hpp"
#include "base/quantity.hpp"

namespace rehearse::inline schedule {

/// Purposes of memory.
enum class MemoryKind {
  parameters,       ///< and buffers
  gradients,        ///< of parameters, FSDP's flat ones among them
  optimizer_state,  ///< the master copy of 16-bit parameters among it
  activations,      ///< what forward keeps for backward; the batch
  buckets,          ///< DDP's flat gradients
  gathered,         ///< FSDP's units that are whole
  workspace,        ///< temporaries of kernels, of autograd and of the optimizer
  communication     ///< copies that travel
};
inline constexpr std::size_t kMemoryKinds = 8;
std::string to_string(MemoryKind kind);

using TensorId = Id<struct TensorTag>;  ///< into Program::tensors

/// A tensor that a rank asks its allocator for.
struct Tensor {
  MemoryKind kind = MemoryKind::workspace;
  Bytes size;                ///< as asked for; nothing is taken for one of 0 bytes
  std::uint32_t owner = 0;   ///< index into Program::owners
  std::uint32_t stream = 0;  ///< whose pool it comes from; 0: the stream that computes
};

/// Action of the host on a tensor.
struct TensorEvent {
  enum class Action : std::uint8_t {
    take,
    give,         ///< back to the allocator
    give_in_use,  ///< back, while another stream still works on it (Tensor.record_stream)
    finish        ///< the host can see that this stream is done with it
  };
  TensorId tensor{};
  Action action = Action::take;
  bool once = false;  ///< in the first iteration only

  bool operator==(const TensorEvent&) const = default;
};

}  // namespace rehearse::inline schedule
