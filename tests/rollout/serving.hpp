#pragma once

#include "rollout/decode.hpp"

namespace rehearse {

/// Llama 3 8B on GPUs of an H100's kind.
inline DecodeModel served_llama(int tensor_parallel = 1) {
  Cluster cluster;
  Node node;
  node.gpus = 8;
  node.gpu = known_gpu("H100-SXM");
  node.nvlink = NvLink{.bandwidth = BytesPerSecond(450e9), .latency = Seconds(1e-6)};
  node.nic_bandwidth = BytesPerSecond(50e9);
  cluster.groups.push_back({.name = "gpus", .nodes = 1, .node = node});
  return {*built_in_shape("llama_3_8b"),
          cluster,
          read_engine("vllm"),
          {.tensor_parallel = tensor_parallel}};
}

}  // namespace rehearse
