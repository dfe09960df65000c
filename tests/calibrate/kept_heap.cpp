// keep_freed_memory(): what was freed costs no page faults a second time.
#include <sys/resource.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <vector>

#include "measure/kept_heap.hpp"

using namespace rehearse;

namespace {

constexpr std::size_t kPage = 4096, kMiB = 1 << 20;

long page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

/// Page faults of taking blocks of these sizes, writing to all their pages, and freeing them.
long faults_of(const std::vector<std::size_t>& sizes) {
  const long before = page_faults();
  std::vector<void*> blocks;
  blocks.reserve(sizes.size());
  for (const std::size_t size : sizes) {
    blocks.push_back(std::malloc(size));
    auto* bytes = static_cast<volatile char*>(blocks.back());
    for (std::size_t at = 0; at < size; at += kPage) bytes[at] = 1;
  }
  for (void* block : blocks) std::free(block);
  return page_faults() - before;
}

}  // namespace

BOOST_AUTO_TEST_CASE(freed_memory_is_taken_again_without_a_page_fault) {
  BOOST_REQUIRE(keep_freed_memory());
  // The heap's end, and blocks that glibc would have the kernel map one by one.
  const std::vector<std::size_t> sizes = {16 * kMiB, 64 * 1024, 3 * kMiB, 24 * kMiB};
  BOOST_TEST(faults_of(sizes) > 15);  // 11,000, but where the kernel gives huge pages
  for (int again = 0; again < 3; ++again) BOOST_TEST(faults_of(sizes) < 10);
}
