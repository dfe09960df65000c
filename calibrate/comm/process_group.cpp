#include "comm/process_group.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "base/error.hpp"
#include "server/socket.hpp"

namespace rehearse::inline calibrate {
namespace {

using Milliseconds = std::chrono::milliseconds;

std::string meeting_place(const RankEnvironment& ranks) {
  if (!ranks.store_file.empty()) return "on this node";
  return fmt::format("at {}:{}", ranks.master_address, ranks.master_port);
}

/// A socket for the store of rank 0; -1: it may listen at every address.
int bound_socket(const RankEnvironment& ranks) {
  if (ranks.rank != 0 || ranks.store_address.empty()) return -1;
  return bind_to({ranks.store_address, static_cast<std::uint16_t>(ranks.master_port)}).release();
}

Store make_store(const RankEnvironment& ranks, Milliseconds timeout) {
  if (!ranks.store_file.empty())
    return make_file_store(ranks.store_file, ranks.world_size, timeout);
  return make_tcp_store({.address = ranks.master_address,
                         .port = ranks.master_port,
                         .is_server = ranks.rank == 0,
                         .bound_socket = bound_socket(ranks),
                         .world_size = ranks.world_size,
                         .timeout = timeout});
}

std::string line_at(const std::string& text, std::size_t begin) {
  return text.substr(begin, text.find('\n', begin) - begin);
}

/// The first line, as LibTorch's errors go on with a stack of calls; and NCCL's own words, which
/// stand below.
std::string reason(const std::string& text) {
  constexpr std::string_view kNccl = "Last error:\n";
  const std::size_t nccl = text.find(kNccl);
  if (nccl == std::string::npos) return line_at(text, 0);
  return line_at(text, 0) + ": " + line_at(text, nccl + kNccl.size());
}

/// The store, once all ranks are at it. Throws after the time limit, where NCCL would wait for ever
/// for a rank that never comes.
Store meet_at_store(const RankEnvironment& ranks, Milliseconds timeout) {
  const Store store = make_store(ranks, timeout);
  const auto key = [](int rank) { return fmt::format("rehearse/rank {} is here", rank); };
  store->set(key(ranks.rank), std::vector<std::uint8_t>{1});
  std::vector<std::string> keys;
  for (int rank = 0; rank < ranks.world_size; ++rank) keys.push_back(key(rank));
  store->wait(keys, timeout);
  return store;
}

/// NCCL's barrier guesses the GPU from the rank's number: this one is on the current GPU.
void nccl_barrier(const ProcessGroup& group) {
  std::vector<torch::Tensor> token = {torch::zeros({1}, torch::kCUDA)};
  group->allreduce(token)->wait();
  token.front().cpu();
}

[[noreturn]] void fail_shared_gpu(const RankEnvironment& ranks) {
  throw MissingError(
      fmt::format("error: rank {} of {} shares its GPU with another, which this NCCL cannot do\n"
                  "remedy: one rank per GPU; a parameter server's workers may share one",
                  ranks.rank, ranks.world_size));
}

}  // namespace

ProcessGroup make_process_group(const RankEnvironment& ranks, const GroupOptions& options) {
  try {
    const GroupPlace place = {.store = meet_at_store(ranks, options.timeout),
                              .rank = ranks.rank,
                              .world_size = ranks.world_size,
                              .timeout = options.timeout,
                              .address = ranks.own_address};
    const ProcessGroup group =
        options.backend == CommBackend::gloo ? make_gloo_group(place) : make_nccl_group(place);
    // A back end may connect at its first collective; a peer that never comes is found here.
    barrier(group);
    return group;
  } catch (const Error&) {
    throw;
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    if (text.find("Duplicate GPU") != std::string::npos) fail_shared_gpu(ranks);
    throw MissingError(
        fmt::format("error: rank {} of {} did not meet the others {} within {} s: {}", ranks.rank,
                    ranks.world_size, meeting_place(ranks),
                    std::chrono::duration<double>(options.timeout).count(), reason(text)));
  }
}

void barrier(const ProcessGroup& group) {
  if (group->getBackendName() == "nccl") {
    nccl_barrier(group);
  } else {
    group->barrier()->wait();
  }
}

void leave(const ProcessGroup& group) {
  barrier(group);
  shut_down(group);
}

}  // namespace rehearse::inline calibrate
