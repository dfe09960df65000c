#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace rehearse::inline foreign {

/// A training's steps, as a log tells them.
struct TrainingLog {
  std::string what;                   ///< "a log of Megatron-LM"
  std::string format;                 ///< "megatron_log"
  std::vector<double> step_times;     ///< seconds, in the order of the file; empty: it says rates
  std::vector<double> samples_per_s;  ///< of all GPUs
  std::vector<double> tokens_per_s_per_gpu;
  std::vector<double> tflops_per_gpu;                     ///< as that framework counts them
  std::optional<std::int64_t> global_batch;               ///< samples of a step
  double batch_error = 0;                                 ///< share that it may be off by
  std::optional<double> allocated_bytes, reserved_bytes;  ///< the highest
};

/// InputError with the line of what cannot be read, or where no line tells of a step.
TrainingLog read_log(const std::filesystem::path& file);

/// The part of a run that is steady.
struct SteadyPart {
  std::size_t first = 0, count = 0;  ///< entries of the list
  double median = 0;
  double spread = 0;  ///< quartiles apart, over the median
};
/// The second half's median says what is steady: from the first entry within a tenth of it on.
SteadyPart steady_part(const std::vector<double>& entries);

}  // namespace rehearse::inline foreign
