#pragma once

#include "cluster/cluster.hpp"
#include "model/model.hpp"

namespace rehearse {

/// Peak rate of convolutions: matrix_peak, but under `fp32` the GPU's tf32 rate if it has one.
FlopsPerSecond convolution_peak(const Gpu& gpu, Precision precision);

/// True where convolutions run on tensor cores: the GPU has a rate of its own for their format.
bool convolves_on_tensor_cores(const Gpu& gpu, Precision precision);

/// The rate that MFU counts against: no product of the model has a higher peak. matrix_peak or,
/// where the model has convolutions, convolution_peak if that is higher.
FlopsPerSecond peak_for(const Model& model, const Gpu& gpu, Precision precision);

}  // namespace rehearse
