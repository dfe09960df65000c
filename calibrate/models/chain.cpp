#include "models/chain.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearse::inline calibrate {

torch::Tensor forward(const Chain& chain, const torch::Tensor& input) {
  torch::Tensor value = input;
  for (const ChainUnit& unit : chain.units) value = unit.module->forward(value);
  return value;
}

torch::Tensor forward_loss(const Chain& chain, const Batch& batch) {
  return chain.loss(forward(chain, batch.input), batch.target);
}

std::vector<torch::Tensor> parameters(const Chain& chain) {
  std::vector<torch::Tensor> all;
  for (const ChainUnit& unit : chain.units) {
    for (const torch::Tensor& tensor : unit.module->parameters()) all.push_back(tensor);
  }
  return all;
}

std::vector<torch::Tensor> buffers(const ChainUnit& unit) {
  std::vector<torch::Tensor> all;
  for (const torch::Tensor& tensor : unit.module->buffers()) {
    if (tensor.is_floating_point()) all.push_back(tensor);
  }
  return all;
}

std::vector<torch::Tensor> buffers(const Chain& chain) {
  std::vector<torch::Tensor> all;
  for (const ChainUnit& unit : chain.units) {
    for (const torch::Tensor& tensor : buffers(unit)) all.push_back(tensor);
  }
  return all;
}

std::int64_t parameter_count(const Chain& chain) {
  std::int64_t count = 0;
  for (const torch::Tensor& tensor : parameters(chain)) count += tensor.numel();
  return count;
}

void move_to(const Chain& chain, torch::Device device) {
  for (const ChainUnit& unit : chain.units) unit.module->to(device);
}

void move_to(const Chain& chain, torch::ScalarType type) {
  for (const ChainUnit& unit : chain.units) unit.module->to(type);
}

void zero_gradients(const Chain& chain) {
  for (torch::Tensor& tensor : parameters(chain)) tensor.mutable_grad() = torch::Tensor();
}

Batch random_batch(const InputShape& shape, std::int64_t size, torch::Device device,
                   torch::ScalarType type) {
  const auto whole = torch::TensorOptions().dtype(torch::kInt64).device(device);
  if (shape.image > 0) {
    return {torch::rand({size, 3, shape.image, shape.image},
                        torch::TensorOptions().dtype(type).device(device)),
            torch::randint(shape.classes, {size}, whole)};
  }
  if (shape.sizes.empty()) {
    check(shape.sequence > 0, "a chain takes images, sequences or sizes of its own");
    return {torch::randint(shape.vocabulary, {size, shape.sequence}, whole),
            torch::randint(shape.vocabulary, {size, shape.targets_per_sample}, whole)};
  }
  std::vector<std::int64_t> sizes = {size};
  sizes.insert(sizes.end(), shape.sizes.begin(), shape.sizes.end());
  return {shape.vocabulary > 0
              ? torch::randint(shape.vocabulary, sizes, whole)
              : torch::rand(sizes, torch::TensorOptions().dtype(type).device(device)),
          torch::randint(std::max<std::int64_t>(shape.classes, 1), {size, shape.targets_per_sample},
                         whole)};
}

}  // namespace rehearse::inline calibrate
