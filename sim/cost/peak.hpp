#pragma once

#include "cluster/cluster.hpp"
#include "model/model.hpp"

namespace rehearse::inline cost {

/// Peak rate of convolutions: matrix_peak, but under `fp32` the GPU's tf32 rate if it has one.
FlopsPerSecond convolution_peak(const Gpu& gpu, Precision precision);

/// Peak rate of products in few bits: FP4's under `nvfp4`, else FP8's, where the GPU has it.
FlopsPerSecond narrow_peak(const Gpu& gpu, Precision precision);

/// True where convolutions run on tensor cores: the GPU has a rate of its own for their format.
bool convolves_on_tensor_cores(const Gpu& gpu, Precision precision);

/// The same of matrix products.
bool multiplies_on_tensor_cores(const Gpu& gpu, Precision precision);

/// The rate that MFU counts against: that of all of the model's FLOPs with every operator at the
/// peak of its own format (convolution_peak or matrix_peak). With one format this is the usual
/// definition.
FlopsPerSecond peak_for(const Model& model, const Gpu& gpu, Precision precision);

}  // namespace rehearse::inline cost
