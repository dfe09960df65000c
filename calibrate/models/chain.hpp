#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace rehearse::inline calibrate {

/// A group of layers that is timed, sharded and bucketed together: a tensor in, a tensor out. It
/// leaves its input as it is (no in-place operation on it), as hooks on unit outputs need.
class UnitModule : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(const torch::Tensor& input) = 0;
};

struct ChainUnit {
  std::string name;  ///< as the unit of the simulator's architecture of the same name
  std::shared_ptr<UnitModule> module;
  std::string shares_with = {};  ///< the earlier unit whose parameters it reads too (tied weights)
};

/// Input that a chain takes, and the target that its loss compares with.
struct Batch {
  torch::Tensor input, target;
};

/// The network's input: images of 3 x side x side with one class each, sequences of tokens, or a
/// user's own sizes. The others of the three are 0 or empty.
struct InputShape {
  std::int64_t image = 0;
  std::int64_t sequence = 0;
  std::vector<std::int64_t> sizes = {};  ///< of one sample: tokens if `vocabulary` is above 0
  std::int64_t classes = 0;              ///< targets are below this
  std::int64_t vocabulary = 0;           ///< tokens are below this
  std::int64_t targets_per_sample = 1;   ///< target tokens of a sequence (BERT's masked ones)
};

/// Scalar loss of the last unit's output. It is part of the last unit: it may hold that unit's
/// layers where the unit has several heads.
using LossFunction =
    std::function<torch::Tensor(const torch::Tensor& output, const torch::Tensor& target)>;

/// A network as a chain of named units in forward order. Parameters stand in registration order,
/// each once (a tied weight belongs to the unit that registers it).
struct Chain {
  std::string name;
  InputShape input;
  std::vector<ChainUnit> units;
  LossFunction loss;
};

/// Output of the last unit.
torch::Tensor forward(const Chain& chain, const torch::Tensor& input);
/// Forward of all units, and the loss.
torch::Tensor forward_loss(const Chain& chain, const Batch& batch);

std::vector<torch::Tensor> parameters(const Chain& chain);
/// Running statistics of batch norms, without their step counters.
std::vector<torch::Tensor> buffers(const Chain& chain);
std::vector<torch::Tensor> buffers(const ChainUnit& unit);
std::int64_t parameter_count(const Chain& chain);

void move_to(const Chain& chain, torch::Device device);
void move_to(const Chain& chain, torch::ScalarType type);  ///< floating-point tensors
void zero_gradients(const Chain& chain);                   ///< to none, as zero_grad() does

/// A batch of random images (in `type`) or tokens with random targets, drawn from torch's default
/// generator.
Batch random_batch(const InputShape& shape, std::int64_t size, torch::Device device,
                   torch::ScalarType type = torch::kFloat32);

}  // namespace rehearse::inline calibrate
