#pragma once

#include <memory>

#include "train/trainer.hpp"

namespace rehearse::inline calibrate {

/// As torch.nn.parallel.DistributedDataParallel names them.
struct DdpOptions {
  double bucket_cap_mb = 25;
  double first_bucket_mb = 1;  ///< the bucket that is ready first is small, to start early
  bool gradient_as_bucket_view = false;
};

/// DistributedDataParallel by c10d's own Reducer, the one that Python's runs on. The first step has
/// one bucket, and the second rebuilds them by the order of readiness: drop both from measurements.
std::unique_ptr<Trainer> make_ddp(TrainerParts parts, const DdpOptions& options = {});

}  // namespace rehearse::inline calibrate
