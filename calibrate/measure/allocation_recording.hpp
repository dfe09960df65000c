#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rehearse::inline calibrate {

/// A block that LibTorch took from the CPU allocator or gave back.
struct AllocationEvent {
  std::size_t block = 0;  ///< counts those taken, from 0; kUnknownBlock if it was taken before
  std::int64_t size = 0;  ///< bytes asked for
  bool takes = true;
  /// The operators that were running, outermost first: "ConvolutionBackward0/aten::sum".
  std::string operators;
};
constexpr std::size_t kUnknownBlock = static_cast<std::size_t>(-1);

/// Records what the counting allocator (which must be installed) takes and gives back, as long as
/// it lives. One at a time.
class AllocationRecording {
 public:
  AllocationRecording();
  AllocationRecording(const AllocationRecording&) = delete;
  AllocationRecording& operator=(const AllocationRecording&) = delete;
  ~AllocationRecording();

  /// Events since the last call.
  std::vector<AllocationEvent> take();

 private:
  std::uint64_t handle_ = 0;
};

}  // namespace rehearse::inline calibrate
