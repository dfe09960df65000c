#pragma once

#include <vector>

#include "model/model.hpp"

namespace rehearse::inline cost {

/// The model's units, with the kernels of PyTorch's eager mode as their operators, one by one, as
/// the tape plays them (model/tape). They are timed as those of a captured model, so that a network
/// takes as long whoever read it (tests/capture/both_readers).
///
/// Units stay as they are where the tape lacks kernels, or where kernels one by one were further
/// from recorded runs (tests/capture/README.md). These are fused units, units of 32 bits and under
/// autocast, adapters and quantized weights, ranks that share layers, experts in a loop, packed
/// documents, chunks of a pipeline, and units of which a part runs again.
std::vector<Unit> units_of_kernels(const Model& model, Precision precision, double batch);

}  // namespace rehearse::inline cost
