#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "report/report.hpp"

namespace rehearse::inline report {

/// Whether a GPU's memory suffices, as every view says it.
enum class MemoryVerdict {
  unknown,  ///< the cluster does not say how much memory its GPUs have
  fits,
  at_risk,  ///< it fits with 5 to 95 %
  does_not_fit
};

/// Grounds of a verdict: the GPU with the least room.
struct MemoryFit {
  MemoryVerdict verdict = MemoryVerdict::unknown;
  Bytes used;      ///< MemoryReport::used(): reserved (on a CPU allocated), context, communicators
  Bytes capacity;  ///< 0: not known
  /// So much must be there: the peak, what lies beside the allocator, and half of its cache, of
  /// which it can give back some. A play that fills the GPU ends with as much cache as there was
  /// room for, and one that fails needed all of the GPU at least. So more tensors never need less.
  Bytes needed;
  /// 90 % interval of the bytes needed: the low end of the peak with no cache beside it, the high
  /// end with all of it, and context and communicators.
  std::optional<Ends<Bytes>> interval;
};

/// The probability that a GPU's memory suffices; nothing where the capacity or the interval is not
/// known.
std::optional<double> probability_of_fitting(const MemoryFit& fit);

/// The verdict on a report; nothing where it has no memory.
std::optional<MemoryFit> memory_fit(const Report& report);
/// The verdict where `others` take so much of the same GPU meanwhile.
MemoryFit with_beside(MemoryFit fit, Bytes others);
/// The verdict on what takes exactly so much.
MemoryFit exact_fit(Bytes used, Bytes capacity);
/// The same of a `rehearse.report/1`.
std::optional<MemoryFit> memory_fit(const nlohmann::json& report);

/// "fits", "at risk", "does not fit"; "memory is not known".
std::string to_string(MemoryVerdict verdict);
/// As the JSON has it: "fits", "at_risk", "does_not_fit"; empty for one that is unknown.
std::string key_of(MemoryVerdict verdict);
/// The figures behind the verdict: "57.6 GiB of 39.5 GiB, 18.1 GiB too much".
std::string details(const MemoryFit& fit);

/// Whether it is likelier that it fits than that it does not.
bool is_likely(const MemoryFit& fit);

/// Meets `--fail-unless`: "fits" means surely, and "may_fit" takes what is at risk, too.
bool meets(MemoryVerdict verdict, const std::string& condition);

}  // namespace rehearse::inline report
