#pragma once

#include <optional>
#include <set>
#include <string>

#include "engine/collective_table.hpp"
#include "engine/engine.hpp"
#include "engine/machine.hpp"
#include "engine/plans.hpp"

namespace rehearse::inline explanation {

/// Cost of communication when nothing else uses its links.
class LinkCosts {
 public:
  explicit LinkCosts(const Machine& machine);
  LinkCosts(const LinkCosts&) = delete;
  LinkCosts& operator=(const LinkCosts&) = delete;

  struct Alone {
    std::string link;   ///< of the busiest port: "NIC", "NVLink", "PCIe", "host"
    std::string where;  ///< its node, "node 3"; "every node" where several are as busy
    Seconds latency, transfer;
  };
  /// Cost of an operation alone; nothing for one that does not travel, or stays where it is.
  std::optional<Alone> alone(RankId rank, OpId op);
  /// Kinds of ports that something crosses.
  const std::set<PortKind>& ports() const { return kinds_; }

 private:
  Alone collective(const PlannedCollective& planned) const;
  std::optional<Alone> transfer(RankId rank, const Transfer& transfer) const;
  void note_ports();

  Machine machine_;
  Plans plans_;
  CollectiveTable table_;
  std::set<PortKind> kinds_;
};

}  // namespace rehearse::inline explanation
