#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/memory_tape.hpp"
#include "model/model.hpp"

// Models that Python's `rehearse_sim.capture` wrote: any PyTorch module's kernels and memory, as
// one training step calls them.
namespace rehearse::captured {

/// A number that the batch changes: `constant` + `each` x batch.
struct Size {
  double constant = 0, each = 0;
  double at(double batch) const { return std::max(0.0, constant + each * batch); }
};

struct Tensor {
  std::string format;  ///< "bf16", "fp32", "int64"
  std::vector<Size> shape{};
  bool strided = false, channels_last = false;

  double elements(double batch) const;
  Bytes element() const;
  Bytes bytes(double batch) const { return elements(batch) * element(); }
  bool is_wide() const { return format == "fp32" || format == "fp64"; }
  bool is_narrow() const { return format == "bf16" || format == "fp16"; }
};

/// Calls of one operator of PyTorch (aten) that are alike, in one pass of a unit.
struct Kernel {
  std::string name;
  std::vector<Tensor> reads, writes;
  /// Options of convolutions, pooling and attention, by PyTorch's names.
  std::map<std::string, std::vector<double>> options{};
  bool backward = false;
  bool first_of_node = true;  ///< else another kernel of the same node of autograd
  double calls = 1;
  std::optional<KernelRole> role{};  ///< as the tape says; nothing: sizes tell

  double option(const std::string& key, std::size_t place, double otherwise) const;
};

/// Memory that the step takes, by unit and pass, in the order of the host.
struct UnitStep {
  std::string block{};  ///< class of the module, of those that a network repeats; empty: the rest
  /// Numbers of tensors: taken as such, given back as -1 - number.
  std::vector<std::int64_t> forward{}, backward{};
  std::vector<std::uint32_t> enters{};  ///< tensors of units before that its forward reads
  std::vector<std::int64_t> rows{};     ///< of its parameters: the size of dimension 0
};
struct StepTensor {
  std::uint32_t kind = 0;  ///< into Step::kinds
  TensorRole role = TensorRole::activation;
  std::uint32_t unit = 0, parameter = 0;  ///< of the taking, or the parameter's
};
struct Step {
  std::string file;
  std::vector<Tensor> kinds;
  std::vector<StepTensor> tensors;
  std::vector<UnitStep> units;
  std::vector<Tensor> inputs;  ///< the batch and its targets
  std::int64_t batch = 0;      ///< the only one that it is known at; 0: any
  std::int64_t length = 0;     ///< tokens of a sample that it was read at; 0: as captured
  int tensor_parallel = 1;     ///< tensor ranks, of which it is one
  int embedding_parallel = 1;  ///< ranks that share tables, of which it is one
  Precision precision = Precision::fp32;
};

/// Reads the file. `length`: tokens of a sample, where the file holds at any; 0: as captured.
/// InputError where the file is none, has mistakes, or is of one length and another is asked for.
Model read_captured(const std::filesystem::path& file, std::int64_t length);

/// What one of so many ranks runs of a captured model: of tensor ranks NAME.tpN.model.json beside
/// its file, of those that share embedding tables NAME.epN.model.json. InputError where there is
/// none, or it is of another network.
Model rank_of(const Model& whole, ExchangeAxis axis, int ranks);

/// The tape of a model that was captured, whole or of a pipeline's rank.
MemoryTape tape_of(const Model& model, double batch);

/// Elements of a parameter with as much behind its dimension 0 as makes that a multiple of `ranks`,
/// as FSDP2 shards each by itself (_fsdp_param.py: padded_sharded_param_size). Of a network that
/// was not captured, shapes are not known: its elements.
std::int64_t padded_elements(const Model& model, std::size_t unit, std::size_t tensor,
                             std::int64_t ranks);

/// The batch and its targets.
Bytes batch_bytes(const Step& step, double batch);

/// Whether the unit is a block: a module of a class that the network repeats, which FSDP wraps and
/// checkpointing runs again.
bool is_block(const Model& model, std::size_t unit);

/// Whether all that comes before the unit is known to it and those after by one tensor.
bool can_cut_before(const Model& model, std::size_t unit);

}  // namespace rehearse::captured
