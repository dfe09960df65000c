#pragma once

#include <string>
#include <vector>

#include "collective/nccl_model.hpp"

namespace rehearse {

/// One measured point of tests/data/collectives, on the machine that it was measured on.
struct OpenPoint {
  std::string machine_name;
  NcclMachine machine;
  CollectiveKind kind = CollectiveKind::all_reduce;
  Bytes size{};
  Seconds measured{};
  Seconds launches{0};  ///< what one process for all GPUs adds to each launch

  /// What the model says of it.
  Seconds predicted() const { return launches + nccl_estimate(machine, kind, size).total(); }
};

/// All of them; read once.
const std::vector<OpenPoint>& open_points();

/// A prediction of a point between nodes by a fit without its machine's curve (fit.py left-out).
struct LeftOut {
  std::string machine_name;
  Bytes size;
  Seconds measured, shipped, left_out;
};
std::vector<LeftOut> left_out_points();

/// < 64 KiB, 64 KiB to 1 MiB, 1 to 64 MiB, more.
inline constexpr int kBands = 4;
int band_of(Bytes size);

/// Pairs of prediction and measurement of one band.
struct Errors {
  std::vector<double> relative;  ///< predicted / measured - 1
  int inside = 0;                ///< within the prediction's interval

  void add(Seconds predicted, Seconds measured, double half_width);
  double mean_absolute() const;  ///< in per cent
  double coverage() const { return 100.0 * inside / static_cast<double>(relative.size()); }
};

}  // namespace rehearse
