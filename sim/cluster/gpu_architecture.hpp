#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "config/document.hpp"

namespace rehearse::inline cluster {

/// NCCL's times on a generation of GPUs; rates are shares of what a GPU's port gives.
struct NcclGeneration {
  Seconds launch;  ///< before the first step
  Seconds step;    ///< of LL through an edge inside, its link's usual latency included
  double ll = 0, ll128 = 0, simple = 0;
  double nvls = 0;  ///< where the switch adds up; may pass 1, as no port sends twice
  double all_to_all = 0;
  /// Few ranks copy more of their own data: all_to_all's rate goes by (1 - q/n) / (1 - q/8).
  double all_to_all_own = 0;
};

/// How many channels NCCL takes, and what bounds it.
struct NcclBounds {
  bool measured = true;                  ///< false: no open curve, and no count of blocks
  BytesPerSecond ll_cap, ll_cap_beyond;  ///< busbw of LL between two nodes, and between more
  BytesPerSecond link;                   ///< one NVLink in one direction
  int max_channels = 0;                  ///< of a communicator
  int channels_between = 0;              ///< between nodes at least, where links allow; 0: no rule
  int nvls_channels = 0, nvls_tree_channels = 0;  ///< 0: the switch adds nothing up
};

/// How the GPUs of a node are linked.
enum class GpuLinks { switched, cube_mesh, full_mesh };

/// A generation of GPUs, as platforms/architectures.yaml describes it.
struct GpuArchitecture {
  std::string name;
  GpuLinks links = GpuLinks::switched;
  NcclGeneration nccl{};
  NcclBounds bounds{};
  Bytes cublas_workspace;               ///< of a handle of cuBLAS
  bool sdpa_is_cudnn = false;           ///< PyTorch's attention takes cuDNN's first
  bool cudnn_attention_faster = false;  ///< than FlashAttention-2
  bool flash_attention_3 = false;       ///< which is written for it
  bool block_formats = false;           ///< it multiplies MXFP8, and NVFP4 where it has FP4
  int fp8_copies = 2;                   ///< of a weight, for its products by rows and by columns
  double shares_hold_from = 1;          ///< the least width that shares of square products hold for
};

/// A name of platforms/architectures.yaml, or a map with its keys and `like`. InputError at what
/// is wrong.
std::shared_ptr<const GpuArchitecture> read_gpu_architecture(const Value& value);

/// The names of platforms/architectures.yaml.
std::vector<std::string> architecture_kinds();

/// One of platforms/architectures.yaml; it must be there.
std::shared_ptr<const GpuArchitecture> gpu_architecture(const std::string& name);

/// "other", read once: of a GPU that nobody describes.
const std::shared_ptr<const GpuArchitecture>& unknown_architecture();

}  // namespace rehearse::inline cluster
