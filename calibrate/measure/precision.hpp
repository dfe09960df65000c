#pragma once

#include <torch/torch.h>

#include <string>

#include "model/model.hpp"
#include "models/chain.hpp"

namespace rehearse::inline calibrate {

/// Why `precision` cannot be measured on `device`; empty where it can. tf32 and fp16 need a
/// GPU, and master weights are no matter of what is measured.
std::string unsupported(Precision precision, torch::Device device);

/// Sets what holds for the whole process (tf32 matrix products) and converts the chain's parameters
/// (bf16_pure, bf16_pure_autocast).
void apply_precision(Precision precision, const Chain& chain);

/// The type of a batch's images.
torch::ScalarType input_type(Precision precision);

/// Autocast for as long as it lives, where `precision` asks for it: around forward and loss.
class AutocastScope {
 public:
  AutocastScope(Precision precision, torch::Device device);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  bool enabled_;
  torch::DeviceType device_;
  torch::ScalarType type_;
};

}  // namespace rehearse::inline calibrate
