#include "comm/process_group.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace rehearse {
namespace {

using Milliseconds = std::chrono::milliseconds;

std::string meeting_place(const RankEnvironment& ranks) {
  if (!ranks.store_file.empty()) return "on this node";
  return fmt::format("at {}:{}", ranks.master_address, ranks.master_port);
}

Store make_store(const RankEnvironment& ranks, Milliseconds timeout) {
  if (!ranks.store_file.empty())
    return make_file_store(ranks.store_file, ranks.world_size, timeout);
  return make_tcp_store({.address = ranks.master_address,
                         .port = ranks.master_port,
                         .is_server = ranks.rank == 0,
                         .world_size = ranks.world_size,
                         .timeout = timeout});
}

/// The first line: LibTorch's errors go on with a stack of calls.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

ProcessGroup make_process_group(const RankEnvironment& ranks, const GroupOptions& options) {
  try {
    const GroupPlace place = {.store = make_store(ranks, options.timeout),
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
  } catch (const std::exception& error) {
    throw MissingError(fmt::format(
        "error: rank {} of {} did not meet the others {} within {} s: {}", ranks.rank,
        ranks.world_size, meeting_place(ranks),
        std::chrono::duration<double>(options.timeout).count(), first_line(error.what())));
  }
}

void barrier(const ProcessGroup& group) { group->barrier()->wait(); }

}  // namespace rehearse
