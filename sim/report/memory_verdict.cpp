#include "report/memory_verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "report/common_errors.hpp"
#include "report/prediction_interval.hpp"

namespace rehearse::inline report {
namespace {

constexpr std::array kVerdicts = {MemoryVerdict::fits, MemoryVerdict::at_risk,
                                  MemoryVerdict::does_not_fit};

MemoryVerdict verdict_of(bool it_fits, const MemoryFit& fit) {
  using enum MemoryVerdict;
  if (fit.capacity == Bytes(0)) return unknown;
  const bool in_pieces = !it_fits && fit.used <= fit.capacity;
  if (in_pieces || !fit.interval) return it_fits ? fits : does_not_fit;
  // At the ends of a 90 % interval it fits with 5 and with 95 %.
  if (fit.interval->low > fit.capacity) return does_not_fit;
  return fit.interval->high > fit.capacity ? at_risk : fits;
}

/// PyTorch gives its cache back before it fails. So it is the peak's interval that decides, and not
/// that of what nvidia-smi shows: at best with no cache beside it, at worst with all of it.
Ends<Bytes> needed(const Ends<double>& allocated, Bytes cache, Bytes beside) {
  return {Bytes(allocated.low) + beside, Bytes(allocated.high) + cache + beside};
}

/// The cache of a play that could take what it liked: one that gave its cache back to find room
/// (`released`) would have had what was left at least.
Bytes cache_of(const MemoryFit& fit, Bytes cache, bool released) {
  return released ? std::max(cache, fit.capacity - (fit.used - cache)) : cache;
}

/// MemoryFit::needed, of a cache as above.
Bytes needed(const MemoryFit& fit, Bytes least, Bytes cache, bool it_fits) {
  if (fit.capacity == Bytes(0)) return fit.used;
  return it_fits ? least + cache / 2 : std::max(fit.capacity, least + cache / 2);
}

}  // namespace

std::optional<MemoryFit> memory_fit(const Report& report) {
  if (!report.memory) return std::nullopt;
  MemoryFit fit{.used = report.memory->used(),
                .capacity = report.memory->capacity,
                .needed = {},
                .interval = {}};
  const Bytes least = fit.used - report.memory->fragmentation();
  const Bytes cache =
      cache_of(fit, report.memory->fragmentation(), report.memory->alloc_retries > 0);
  fit.needed = needed(fit, least, cache, report.memory->fits);
  const Bytes beside = least - report.memory->allocated_peak;
  if (const auto ends = interval_of(report, "memory.allocated_peak_bytes"))
    fit.interval = needed(*ends, cache, beside);
  fit.verdict = verdict_of(report.memory->fits, fit);
  return fit;
}

std::optional<MemoryFit> memory_fit(const nlohmann::json& report) {
  const nlohmann::json& memory = report.at("memory");
  if (memory.is_null()) return std::nullopt;
  const nlohmann::json& capacity = memory.at("capacity_bytes");
  MemoryFit fit{.used = Bytes(memory.at("used_bytes").get<double>()),
                .capacity = Bytes(capacity.is_null() ? 0.0 : capacity.get<double>()),
                .needed = {},
                .interval = {}};
  const nlohmann::json& intervals = report.at("intervals");
  const auto bytes_of = [&](const char* key) {
    return Bytes(memory.at(key).is_null() ? 0.0 : memory.at(key).get<double>());
  };
  const Bytes least = fit.used - bytes_of("fragmentation_bytes");
  // Neither is known where the capacity is not.
  const auto retries = memory.find("alloc_retries"), fits = memory.find("fits");
  const bool released = retries != memory.end() && retries->is_number() && *retries > 0;
  const Bytes cache = cache_of(fit, bytes_of("fragmentation_bytes"), released);
  fit.needed = needed(fit, least, cache, !fits->is_boolean() || fits->get<bool>());
  const Bytes beside = least - bytes_of("allocated_peak_bytes");
  if (const auto ends = intervals.find("memory.allocated_peak_bytes"); ends != intervals.end())
    fit.interval = needed({ends->at(0).get<double>(), ends->at(1).get<double>()}, cache, beside);
  if (memory.at("verdict").is_string()) {
    const std::string key = memory.at("verdict");
    const auto found = std::ranges::find(kVerdicts, key, key_of);
    if (found != kVerdicts.end()) fit.verdict = *found;
  }
  return fit;
}

MemoryFit with_beside(MemoryFit fit, Bytes others) {
  const bool in_pieces = fit.verdict == MemoryVerdict::does_not_fit && fit.used <= fit.capacity &&
                         (!fit.interval || fit.interval->low <= fit.capacity);
  fit.used += others;
  fit.needed += others;
  if (fit.interval) fit.interval = {fit.interval->low + others, fit.interval->high + others};
  if (fit.capacity == Bytes(0) || in_pieces) return fit;
  fit.verdict = verdict_of(fit.used <= fit.capacity, fit);
  return fit;
}

MemoryFit exact_fit(Bytes used, Bytes capacity) {
  MemoryFit fit{.used = used, .capacity = capacity, .needed = used, .interval = {}};
  fit.verdict = verdict_of(used <= capacity, fit);
  return fit;
}

bool is_likely(const MemoryFit& fit) {
  return fit.verdict == MemoryVerdict::fits ||
         (fit.verdict == MemoryVerdict::at_risk && fit.needed <= fit.capacity);
}

std::optional<double> probability_of_fitting(const MemoryFit& fit) {
  if (fit.capacity <= Bytes(0) || !fit.interval || fit.interval->low <= Bytes(0))
    return std::nullopt;
  return chance_above_one(fit.capacity / fit.needed,
                          {fit.capacity / fit.interval->high, fit.capacity / fit.interval->low});
}

std::string to_string(MemoryVerdict verdict) {
  switch (verdict) {
    case MemoryVerdict::fits:
      return "fits";
    case MemoryVerdict::at_risk:
      return "at risk";
    case MemoryVerdict::does_not_fit:
      return "does not fit";
    case MemoryVerdict::unknown:
      break;
  }
  return "memory is not known";
}

std::string key_of(MemoryVerdict verdict) {
  if (verdict == MemoryVerdict::unknown) return "";
  std::string key = to_string(verdict);
  std::ranges::replace(key, ' ', '_');
  return key;
}

bool meets(MemoryVerdict verdict, const std::string& condition) {
  return verdict == MemoryVerdict::fits ||
         (condition == "may_fit" && verdict == MemoryVerdict::at_risk);
}

std::string details(const MemoryFit& fit) {
  if (fit.verdict == MemoryVerdict::unknown) return format(fit.used) + " per GPU";
  const std::string of = fmt::format("{} of {}, ", format(fit.used), format(fit.capacity));
  if (fit.verdict == MemoryVerdict::does_not_fit) {
    return of + (fit.used > fit.capacity ? format(fit.used - fit.capacity) + " too much"
                                         : "but in pieces that are too small");
  }
  if (fit.used > fit.capacity)
    return of + fmt::format("{} too much; from {} on (90 % interval)",
                            format(fit.used - fit.capacity), format(fit.interval->low));
  const std::string free = format(fit.capacity - fit.used) + " free";
  if (fit.verdict == MemoryVerdict::fits) return of + free;
  return of + free + fmt::format("; up to {} (90 % interval)", format(fit.interval->high));
}

}  // namespace rehearse::inline report
