#include "measure/kept_heap.hpp"

#include <malloc.h>

#include <limits>

namespace rehearse::inline calibrate {

bool keep_freed_memory() {
  constexpr int kUnlimited = std::numeric_limits<int>::max(), kMiB = 1 << 20;
  // Older versions of glibc take no more than half of an arena's heap; 2.36 takes any.
  constexpr int kMostBefore = 32 * kMiB;
  const bool from_heap =
      mallopt(M_MMAP_THRESHOLD, kUnlimited) == 1 || mallopt(M_MMAP_THRESHOLD, kMostBefore) == 1;
  const bool untrimmed = mallopt(M_TRIM_THRESHOLD, kUnlimited) == 1;
  return mallopt(M_TOP_PAD, 64 * kMiB) == 1 && from_heap && untrimmed;
}

}  // namespace rehearse::inline calibrate
