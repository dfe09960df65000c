#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "explain/kernel_table.hpp"
#include "foreign/traces/kineto.hpp"

namespace rehearse::inline foreign {

/// Kernels of a kind, as they are expected and as a trace has them.
enum class KernelMatch : std::uint8_t {
  matched,      ///< the same operator and sizes
  other_sizes,  ///< the same operator, and no sizes of it are left that would match
  missing,      ///< the trace has none
  surplus       ///< nobody expects it
};
std::string to_string(KernelMatch match);

struct ComparedKernel {
  KernelMatch match = KernelMatch::matched;
  std::string op, shapes;  ///< "[256, 1024] [1024, 4096]"
  double calls = 0, traced_calls = 0;
  Seconds time, traced;
};

/// Calls of one step beside those of a trace's step, the mean of its steps.
struct KernelComparison {
  std::string scenario, model, trace, device;
  std::size_t steps = 1;
  std::vector<ComparedKernel> rows{};   ///< what costs most first, in either
  Seconds time{}, traced{};             ///< of all, but for the two below
  Seconds optimizer{};                  ///< traced
  Seconds sharding{};                   ///< traced: FSDP's copies around its collectives
  Seconds matched{}, matched_shapes{};  ///< traced: by operator, by operator and sizes
  bool on_gpu = true;                   ///< else operators' own time on a CPU
  /// Sizes of the trace's products, the longest first, where less than half of its time is matched
  /// by sizes: it is of another network, or of other samples.
  std::vector<std::string> other_products{};
};

/// Operators are told apart by name and by the sizes of what they read, in any order. Times of the
/// trace are those of the kernels that an operator launches. InputError where the trace has no
/// operators, or none with sizes (record_shapes=True).
KernelComparison compare_kernels(const KernelTable& table, const KinetoTrace& trace);

/// `rehearse.kernel_comparison/1`, and its JSON Schema.
std::string to_json(const KernelComparison& both);
nlohmann::ordered_json kernel_comparison_schema();
std::string to_csv(const KernelComparison& both);
std::string to_terminal(const KernelComparison& both, int width, bool color, Detail detail);

}  // namespace rehearse::inline foreign
