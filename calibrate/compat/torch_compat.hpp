#pragma once

// The one place that knows how LibTorch's versions differ. Features are found by what compiles.

#include <c10/core/Event.h>
#include <torch/torch.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace rehearse::inline calibrate {

using ProcessGroup = c10::intrusive_ptr<c10d::ProcessGroup>;
using Store = c10::intrusive_ptr<c10d::Store>;

struct TcpStoreOptions {
  std::string address;
  int port = 0;
  bool is_server = false;
  /// The server's socket, bound to the port, which it takes over where LibTorch can (from 2.0 on).
  /// -1: it listens at every address. Otherwise nobody closes it.
  int bound_socket = -1;
  int world_size = 1;
  std::chrono::milliseconds timeout{};
};

/// A store at a TCP port; the server waits for no one.
Store make_tcp_store(const TcpStoreOptions& options);
/// A store in a file of this node.
Store make_file_store(const std::string& path, int world_size, std::chrono::milliseconds timeout);

struct GroupPlace {
  Store store;
  int rank = 0;
  int world_size = 1;
  std::chrono::milliseconds timeout{};
  std::string address = {};  ///< of this node, for Gloo; empty: what its name resolves to
};

/// Gloo's process group over TCP, for tensors on CPUs.
ProcessGroup make_gloo_group(const GroupPlace& place);
/// NCCL's process group. Throws MissingError where LibTorch was built without it.
ProcessGroup make_nccl_group(const GroupPlace& place);

/// Ends the group's connections and threads, where LibTorch wants to be told.
void shut_down(const ProcessGroup& group);

/// Options that c10d's Reducer is built with; names as in
/// torch.nn.parallel.DistributedDataParallel.
struct ReducerOptions {
  std::vector<torch::Tensor> parameters;
  std::int64_t first_bucket_bytes = 0;
  std::int64_t bucket_cap_bytes = 0;
  bool gradient_as_bucket_view = false;
};

/// The Reducer behind DistributedDataParallel, its buckets assigned in reverse order of parameters.
std::shared_ptr<c10d::Reducer> make_reducer(const ReducerOptions& options,
                                            const ProcessGroup& group);

using Work = decltype(std::declval<c10d::ProcessGroup&>().barrier());

/// Launches an all_gather of each rank's `part` into `whole`.
Work gather_parts(const ProcessGroup& group, torch::Tensor whole, torch::Tensor part);
/// Launches a reduce_scatter (sum) of each rank's `whole` into its `part`. NCCL only: Gloo's is an
/// all_reduce inside, of twice the bytes, or throws.
Work reduce_parts(const ProcessGroup& group, torch::Tensor part, torch::Tensor whole);
/// Launches the exchange of equal parts: part i of `input` goes to rank i, and into `output` at
/// this rank's own place there.
Work exchange_parts(const ProcessGroup& group, torch::Tensor output, torch::Tensor input);

/// The node of autograd that adds to a parameter's gradient. Keep it: the parameter does not.
using GradientAccumulator = decltype(torch::autograd::impl::grad_accumulator(torch::Tensor()));

/// Waits on the host until the device has come to the event.
void wait_on_host(const c10::Event& event);

/// Frees the memory of a tensor that owns its storage; views of it stay, and are valid again after
/// allocate_storage().
void free_storage(const torch::Tensor& tensor);
/// Gives a freed tensor memory again, with undefined content.
void allocate_storage(const torch::Tensor& tensor);

}  // namespace rehearse::inline calibrate
