#include <fmt/format.h>

#include <algorithm>

#include "cluster/parts.hpp"

namespace rehearse {
namespace {

double share(Map& map, const std::string& key) {
  const Value value = map.require(key);
  const double share = value.as_positive_number();
  if (share > 1) value.fail("no kernel reaches more than all of it; got \"" + value.shown() + "\"");
  return share;
}

/// The row of a relative, which must say its shares itself.
KernelShares read_relative(const Value& value) {
  const std::string name = value.as_choice(gpu_names());
  std::optional<KernelShares> kernels = known_gpu(name).kernels;
  if (!kernels || !kernels->relative.empty()) {
    value.fail(fmt::format("of {} itself no shares are known", name),
               "name a GPU whose `kernels` are a map in platforms/gpus.yaml, such as A100-SXM-80");
  }
  kernels->relative = name;
  return *kernels;
}

}  // namespace

KernelShares read_kernel_shares(const Value& value) {
  if (value.is_scalar()) return read_relative(value);
  Map map = value.as_map();
  KernelShares kernels;
  kernels.matrix = share(map, "matrix");
  kernels.matrix_fp32 = map.has("matrix_fp32") ? share(map, "matrix_fp32") : kernels.matrix;
  kernels.memory = share(map, "memory");
  kernels.matrix_memory = map.has("matrix_memory") ? share(map, "matrix_memory") : kernels.memory;
  kernels.attention = share(map, "attention");
  kernels.launch = map.require("launch").as_seconds();
  const std::optional<Value> source = map.optional("source");
  kernels.source = source ? source->as_string() : "given";
  map.finish();
  return kernels;
}

}  // namespace rehearse
