#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/quantity.hpp"

namespace rehearse::inline measured {

/// Something that was measured: a median with its spread.
struct MeasuredPart {
  /// "step", "forward", "backward", "optimizer", "waiting" (for collectives, and for the loader),
  /// "core" (of all these: a thread was ready and others had the cores), "unit forward",
  /// "unit backward", "collective" or "kernel".
  std::string kind;
  std::string name;      ///< of the unit, the collective with its size and ranks, the kernel
  Seconds time;          ///< the median; of a kernel all of its calls in a step
  double spread = 0;     ///< quartiles apart over the median; 0: not known, or nothing varied
  double in_a_step = 1;  ///< how often

  bool operator==(const MeasuredPart&) const = default;
};

/// Measurements of a folder of `rehearse calibrate` or `rehearse record`, which write the same
/// files, or of a profile alone.
struct MeasuredFolder {
  std::string name{};                          ///< as it was asked for
  std::string command{}, device{}, library{};  ///< who measured, on what, with which LibTorch
  std::string model{}, precision{};
  std::int64_t batch = 0;  ///< of a record; else the largest that was measured; 0: none was
  std::int64_t ranks = 0;  ///< of a record; 0: it is none
  std::vector<MeasuredPart> parts{};
};

/// A kernel of recorded steps, as `kernels.csv` of `rehearse record` has it: of a GPU's run a
/// kernel, of CPUs an operator of PyTorch.
struct RecordedKernel {
  std::string pass;           ///< "forward", "backward" or "optimizer"
  std::string name, op;       ///< `op`: which operator launched it; empty on CPUs
  std::string shapes, types;  ///< of the operator's inputs: "[16,64] [512,256]", "int float"
  double calls = 0;           ///< of one step, all micro-batches
  Seconds time;               ///< the median over steps of all these calls
  double spread = 0;          ///< quartiles apart over the median
};
/// InputError with the line where a line is none of a record's.
std::vector<RecordedKernel> read_recorded_kernels(const std::filesystem::path& file);

/// Reads a folder with `profile.yaml` or `compute/*.yaml`, `comm.yaml`, `record.yaml` and
/// `kernels.csv`, each where it is there; or one such profile, or a report of `calibrate step`.
/// InputError where nothing of it is
/// there, or where a file is wrong.
MeasuredFolder read_measured(const std::filesystem::path& place);
/// Whether a folder holds measurements: a record, or what `calibrate` writes.
bool is_measured_folder(const std::filesystem::path& place);

/// A part on both sides; one that is missing on a side has no time there.
struct MeasuredChange {
  MeasuredPart first, second;
  bool both = true;  ///< whether both sides have it

  Seconds change() const { return second.time - first.time; }
  /// Whether the middle halves of what was measured, the quartiles around each median, are apart.
  bool is_beyond_spread() const;
};

struct MeasuredComparison {
  MeasuredFolder first, second;
  std::vector<MeasuredChange> changes;  ///< by kind as in MeasuredPart, within it the largest first
};
/// InputError where the sides have no part in common.
MeasuredComparison compare_measured(MeasuredFolder first, MeasuredFolder second);

/// Sums it up in a few sentences.
std::string answer(const MeasuredFolder& measured);
std::string answer(const MeasuredComparison& both);
/// `rehearse.measured/1` and `rehearse.measured_comparison/1`, and their JSON Schemas.
std::string to_json(const MeasuredFolder& measured);
std::string to_json(const MeasuredComparison& both);
nlohmann::ordered_json measured_schema();
nlohmann::ordered_json measured_comparison_schema();
std::string to_csv(const MeasuredFolder& measured);
std::string to_csv(const MeasuredComparison& both);
/// For people: columns fit `width`; ANSI colours if `color`. Kernels beyond the longest twelve are
/// left out, and of two what is equal.
std::string to_terminal(const MeasuredFolder& measured, int width, bool color);
std::string to_terminal(const MeasuredComparison& both, int width, bool color);

}  // namespace rehearse::inline measured
