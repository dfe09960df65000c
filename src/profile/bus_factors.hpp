#pragma once

#include <string>

#include "profile/collective_kind.hpp"

namespace rehearse::inline profile {

/// Values of a row of nccl-tests, which tell its collective without naming it.
struct UnnamedRow {
  double algbw = 0, busbw = 0;  ///< GB/s
  std::string operation;        ///< its redop: "sum", or "none"
  bool rooted = false;          ///< it names a root
};

/// The collectives whose bus factor, operation and root the row has: "all_gather or all_to_all".
/// Empty: none, or too slow to tell by two decimals.
std::string collectives_like(const UnnamedRow& row, int ranks);

/// The ranks whose bus factor is nearest to `factor`; 0 where it goes with none.
int ranks_of_factor(CollectiveKind kind, double factor);

/// Whether busbw / algbw is the factor of the collective, as far as decimals tell.
bool is_factor_of(double factor, CollectiveKind kind, double ranks);

}  // namespace rehearse::inline profile
