#pragma once

#include <string>
#include <vector>

#include "strategy/strategy.hpp"

namespace rehearse::inline strategy {

/// What one message between a worker and a server carries: some of the parameters of units [first,
/// last], all of which live on one server.
struct Part {
  std::size_t server = 0;
  std::size_t first = 0, last = 0;
  Bytes size;
  std::string name;
};

/// Each unit's, on one server, spread over all, or in slices on servers in turn.
std::vector<Part> layer_parts(const ParameterServer& options, const Job& job);
/// One per server: all that it holds.
std::vector<Part> server_parts(const ParameterServer& options, const Job& job);

}  // namespace rehearse::inline strategy
