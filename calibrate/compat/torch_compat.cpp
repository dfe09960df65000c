#include "compat/torch_compat.hpp"

#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO
#endif
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#ifdef USE_C10D_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

#include <algorithm>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "base/error.hpp"

namespace rehearse::inline calibrate {
namespace {

// Every check is a template, because only there is what does not compile left out.

template <class Options>
void without_libuv(Options& options) {
  // From 2.0 on; Debian's builds lack it, and the plain back end is as good for a few ranks.
  if constexpr (requires { options.useLibUV; }) options.useLibUV = false;
}

/// Before 2.0 a store listens at every address.
template <class Options>
void listen_at(Options& options, int bound_socket) {
  if constexpr (requires { options.masterListenFd = bound_socket; }) {
    if (bound_socket >= 0) options.masterListenFd = bound_socket;
  }
}

/// Before 2.0 a back end is a process group; since then it is put into one, whose constructor took
/// its options along before 2.6.
template <class Group, class Backend>
c10::intrusive_ptr<Group> as_group(const c10::intrusive_ptr<Backend>& backend,
                                   const GroupPlace& place, c10::DeviceType device, bool is_gloo) {
  if constexpr (std::is_base_of_v<Group, Backend>) {
    return backend;
  } else {
    const auto type = is_gloo ? Group::BackendType::GLOO : Group::BackendType::NCCL;
    const auto empty_group = [&] {
      if constexpr (std::is_constructible_v<Group, Store, int, int>) {
        return c10::make_intrusive<Group>(place.store, place.rank, place.world_size);
      } else {
        return c10::make_intrusive<Group>(place.store, place.rank, place.world_size,
                                          Group::Options::create(is_gloo ? "gloo" : "nccl"));
      }
    };
    auto group = empty_group();
    group->setBackend(device, type, backend);
    if constexpr (requires { group->setDefaultBackend(type); }) group->setDefaultBackend(type);
    return group;
  }
}

template <class Group>
void shut_down_group(Group& group) {
  if constexpr (requires { group.shutdown(); }) group.shutdown();
}

template <class Event>
void wait_for_event(const Event& event) {
  if constexpr (requires { event.synchronize(); }) {
    event.synchronize();
  } else {
    while (!event.query()) std::this_thread::sleep_for(std::chrono::microseconds(10));
  }
}

using Buckets = std::vector<std::vector<std::size_t>>;
using Limits = std::vector<std::size_t>;
using Names = std::unordered_map<std::size_t, std::string>;

template <class>
constexpr bool kNoKnownConstructor = false;

template <class Reducer>
std::shared_ptr<Reducer> construct_reducer(const ReducerOptions& options, const ProcessGroup& group,
                                           const Buckets& buckets, const Limits& limits) {
  using Tensors = std::vector<torch::Tensor>;
  using Flags = std::vector<bool>;
  using Caps = std::vector<std::int64_t>;
  const Flags sparse(options.parameters.size(), false);
  const std::int64_t cap = options.bucket_cap_bytes, first = options.first_bucket_bytes;
  const bool view = options.gradient_as_bucket_view;
  const Names names;
  if constexpr (std::is_constructible_v<Reducer, Tensors, Buckets, Limits, ProcessGroup, Flags,
                                        std::int64_t, bool, bool, Names, std::int64_t>) {
    return std::make_shared<Reducer>(options.parameters, buckets, limits, group, sparse, cap, false,
                                     view, names, first);
  } else if constexpr (std::is_constructible_v<Reducer, Tensors, Buckets, ProcessGroup, Flags,
                                               std::int64_t, bool, bool, Names, std::int64_t>) {
    return std::make_shared<Reducer>(options.parameters, buckets, group, sparse, cap, false, view,
                                     names, first);
  } else if constexpr (std::is_constructible_v<Reducer, Tensors, Buckets, ProcessGroup, Flags,
                                               std::int64_t, bool, bool, Names, std::int64_t, bool,
                                               bool>) {
    return std::make_shared<Reducer>(options.parameters, buckets, group, sparse, cap, false, view,
                                     names, first, false, false);
  } else if constexpr (std::is_constructible_v<Reducer, Tensors, Buckets, ProcessGroup, Flags,
                                               std::int64_t, bool, bool, Names, std::int64_t, bool,
                                               bool, Caps>) {
    return std::make_shared<Reducer>(options.parameters, buckets, group, sparse, cap, false, view,
                                     names, first, false, false, Caps());
  } else {
    static_assert(kNoKnownConstructor<Reducer>, "this LibTorch's Reducer has a new constructor");
  }
}

/// LibTorch 2.13 renamed the collectives that take whole buffers.
template <class Group>
Work all_gather(Group& group, torch::Tensor& whole, torch::Tensor& part) {
  if constexpr (requires { group.all_gather_single(whole, part); }) {
    return group.all_gather_single(whole, part);
  } else {
    return group._allgather_base(whole, part);
  }
}

template <class Group>
Work reduce_scatter(Group& group, torch::Tensor& part, torch::Tensor& whole) {
  if constexpr (requires { group.reduce_scatter_single(part, whole); }) {
    return group.reduce_scatter_single(part, whole);
  } else {
    return group._reduce_scatter_base(part, whole);
  }
}

template <class Group>
Work all_to_all(Group& group, torch::Tensor& output, torch::Tensor& input) {
  std::vector<std::int64_t> equal;
  if constexpr (requires { group.all_to_all_single(output, input, equal, equal); }) {
    return group.all_to_all_single(output, input, equal, equal);
  } else {
    return group.alltoall_base(output, input, equal, equal);
  }
}

}  // namespace

Store make_tcp_store(const TcpStoreOptions& options) {
  c10d::TCPStoreOptions given;
  given.port = static_cast<std::uint16_t>(options.port);
  given.isServer = options.is_server;
  given.numWorkers = static_cast<std::size_t>(options.world_size);
  // The group's own meeting has its time limit; the server's wait for workers has a worse message.
  given.waitWorkers = false;
  given.timeout = options.timeout;
  without_libuv(given);
  listen_at(given, options.bound_socket);
  return c10::make_intrusive<c10d::TCPStore>(options.address, given);
}

Store make_file_store(const std::string& path, int world_size, std::chrono::milliseconds timeout) {
  auto store = c10::make_intrusive<c10d::FileStore>(path, world_size);
  store->setTimeout(timeout);
  return store;
}

ProcessGroup make_gloo_group(const GroupPlace& place) {
  using Gloo = c10d::ProcessGroupGloo;
  auto options = c10::make_intrusive<Gloo::Options>(place.timeout);
  options->devices.push_back(place.address.empty() ? Gloo::createDefaultDevice()
                                                   : Gloo::createDeviceForHostname(place.address));
  const auto gloo = c10::make_intrusive<Gloo>(place.store, place.rank, place.world_size, options);
  return as_group<c10d::ProcessGroup>(gloo, place, c10::DeviceType::CPU, true);
}

ProcessGroup make_nccl_group([[maybe_unused]] const GroupPlace& place) {
#ifdef USE_C10D_NCCL
  using Nccl = c10d::ProcessGroupNCCL;
  auto options = Nccl::Options::create();
  options->timeout = place.timeout;
  const auto nccl = c10::make_intrusive<Nccl>(place.store, place.rank, place.world_size, options);
  return as_group<c10d::ProcessGroup>(nccl, place, c10::DeviceType::CUDA, false);
#else
  throw MissingError("error: this LibTorch has no NCCL; use a build with CUDA, or the CPU");
#endif
}

void shut_down(const ProcessGroup& group) { shut_down_group(*group); }

std::shared_ptr<c10d::Reducer> make_reducer(const ReducerOptions& options,
                                            const ProcessGroup& group) {
  auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(
      options.parameters, {static_cast<std::size_t>(options.first_bucket_bytes),
                           static_cast<std::size_t>(options.bucket_cap_bytes)});
  std::reverse(buckets.begin(), buckets.end());
  std::reverse(limits.begin(), limits.end());
  return construct_reducer<c10d::Reducer>(options, group, buckets, limits);
}

Work gather_parts(const ProcessGroup& group, torch::Tensor whole, torch::Tensor part) {
  if (whole.is_cuda()) return all_gather(*group, whole, part);
  // Gloo in LibTorch 1.13 gathers only into a list.
  std::vector<std::vector<torch::Tensor>> parts = {whole.chunk(group->getSize())};
  std::vector<torch::Tensor> own = {part};
  return group->allgather(parts, own);
}

Work reduce_parts(const ProcessGroup& group, torch::Tensor part, torch::Tensor whole) {
  return reduce_scatter(*group, part, whole);
}

Work exchange_parts(const ProcessGroup& group, torch::Tensor output, torch::Tensor input) {
  return all_to_all(*group, output, input);
}

void wait_on_host(const c10::Event& event) { wait_for_event(event); }

void free_storage(const torch::Tensor& tensor) {
  auto* storage = tensor.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(c10::DataPtr(nullptr, storage->device()));
  storage->set_nbytes(0);
}

void allocate_storage(const torch::Tensor& tensor) {
  auto* storage = tensor.storage().unsafeGetStorageImpl();
  const auto bytes = static_cast<std::size_t>(tensor.numel() * tensor.element_size());
  storage->set_data_ptr_noswap(storage->allocator()->allocate(bytes));
  storage->set_nbytes(bytes);
}

}  // namespace rehearse::inline calibrate
