#pragma once

#include <cstdint>

namespace rehearse::inline engine {

/// An operation of a rank, by their indices.
struct RankOp {
  std::uint32_t rank = 0, op = 0;
  bool operator==(const RankOp&) const = default;
};

}  // namespace rehearse::inline engine
