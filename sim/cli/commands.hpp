#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/output.hpp"
#include "validation/summary.hpp"

namespace rehearse {

/// `rehearse run SCENARIO`: simulates one scenario and prints its report.
struct RunCommand {
  std::filesystem::path scenario;
  std::vector<std::string> overrides;     ///< "cluster.nodes=8", in order
  std::string format = "table";           ///< table, json or csv
  std::filesystem::path output;           ///< empty: standard output
  std::filesystem::path trace;            ///< Chrome trace; empty: none
  std::filesystem::path memory_snapshot;  ///< of rank 0, for PyTorch's memory_viz; empty: none
  bool quiet = false;
  bool dry_run = false;
  ColorChoice color = ColorChoice::automatic;
};
void run_command(const RunCommand& command);

/// `rehearse list models|clusters|strategies|profiles|scenarios`: a name and a line about each.
void list_command(const std::string& what);

/// `rehearse import nccl-tests FILE...` and `rehearse import points FILE...`: a communication
/// profile from measurements.
struct ImportCommand {
  std::string form;  ///< "nccl-tests" or "points"
  std::vector<std::filesystem::path> files;
  std::string name, hardware, source;  ///< empty: as the files say
  std::string collective;              ///< what an nccl-tests log leaves out; empty: it says so
  std::optional<int> ranks, nodes;
  bool in_place = false;
  std::filesystem::path output;  ///< empty: standard output
};
void import_command(const ImportCommand& command);

/// `rehearse validate [FILE...]`: predictions beside measurements, with their errors.
struct ValidateCommand {
  std::vector<std::filesystem::path> files;  ///< of cases, or their folders; none: what is shipped
  std::vector<std::string> metrics;          ///< only these; none: all
  std::string format = "table";              ///< table, json, csv or markdown
  std::filesystem::path output;              ///< empty: standard output
  ErrorBounds bounds;                        ///< an Error (ExitCode::refuted) beyond them
  int jobs = 0;                              ///< child processes side by side; 0: one per core
  bool quiet = false;
  bool live = false;  ///< the launcher's: this program refuses it
  ColorChoice color = ColorChoice::automatic;
};
void validate_command(const ValidateCommand& command);

}  // namespace rehearse
