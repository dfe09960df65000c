#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace rehearse::inline base {

/// An index into one particular table; ids of different tables do not mix.
template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(std::size_t index) : index_(static_cast<std::uint32_t>(index)) {}
  constexpr std::size_t index() const { return index_; }
  constexpr auto operator<=>(const Id&) const = default;

 private:
  std::uint32_t index_ = 0;
};

using RankId = Id<struct RankTag>;        ///< into Schedule::ranks
using NodeId = Id<struct NodeTag>;        ///< nodes of a cluster, in order of its groups
using GroupId = Id<struct GroupTag>;      ///< into Schedule::groups
using ProgramId = Id<struct ProgramTag>;  ///< into Schedule::programs
using OpId = Id<struct OpTag>;            ///< into Program::ops
using LaneId = Id<struct LaneTag>;        ///< into Program::lanes
using QueueId = Id<struct QueueTag>;      ///< into Schedule::queues
using EventId = Id<struct EventTag>;      ///< into Schedule::events

}  // namespace rehearse::inline base

template <class Tag>
struct std::hash<rehearse::Id<Tag>> {
  std::size_t operator()(rehearse::Id<Tag> id) const noexcept { return id.index(); }
};
