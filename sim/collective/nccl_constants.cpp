#include "collective/nccl_constants.hpp"

namespace rehearse::nccl {

LlCap ll_cap(GpuArchitecture architecture) {
  const auto caps = [](double two, double more) {
    return LlCap{BytesPerSecond(two), BytesPerSecond(more)};
  };
  if (architecture == GpuArchitecture::blackwell) return caps(90e9, 70e9);
  if (architecture == GpuArchitecture::hopper) return caps(45e9, 35e9);
  return caps(22.5e9, 19e9);
}

const Generation& generation_of(GpuArchitecture architecture, bool by_nvlink) {
  if (!by_nvlink) return kCards;
  switch (architecture) {
    case GpuArchitecture::volta:
      return kVolta;
    case GpuArchitecture::hopper:
      return kHopper;
    case GpuArchitecture::blackwell:
      return kBlackwell;
    case GpuArchitecture::cdna:
      return kCdna;
    case GpuArchitecture::ampere:
    case GpuArchitecture::other:
      break;
  }
  return kAmpere;
}

}  // namespace rehearse::nccl
