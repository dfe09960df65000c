#include "report/would_fit.hpp"

#include <fmt/format.h>

#include <ranges>

namespace rehearse::inline report {
namespace {

using Json = nlohmann::ordered_json;

Json bytes(Bytes size) { return static_cast<std::int64_t>(size.value()); }

/// "+3.1 % time per sample, 61.2 GiB: FSDP full_shard"
std::string line_of(const FittingChange& one) {
  return fmt::format("{:+.1f} % time per sample, {}: {}{}{}", 100 * one.price, format(one.used),
                     one.change, one.at_risk ? " (at risk)" : "",
                     one.changes_training ? " (changes training)" : "");
}

}  // namespace

Json json_view(const std::vector<FittingChange>& changes) {
  Json list = Json::array();
  for (const FittingChange& one : changes) {
    list.push_back({{"change", one.change},
                    {"set", one.set},
                    {"changes_training", one.changes_training},
                    {"at_risk", one.at_risk},
                    {"allocated_peak_bytes", bytes(one.allocated_peak)},
                    {"reserved_peak_bytes", one.reserved_peak ? bytes(*one.reserved_peak) : Json()},
                    {"used_bytes", bytes(one.used)},
                    {"step_time_s", one.step_time.value()},
                    {"samples_per_s", one.samples_per_s},
                    {"price", one.price}});
  }
  return list;
}

void add_would_fit(const MemoryReport& memory, Page& page, std::size_t most) {
  const char* name = memory.fits ? "less memory" : "would fit";
  page.blank();
  if (memory.would_fit->empty()) {
    return page.wrapped_field(name, Ink::plain,
                              memory.fits ? "no single change that was tried takes less"
                                          : "no single change that was tried makes it fit");
  }
  for (const FittingChange& one : *memory.would_fit | std::views::take(most)) {
    page.wrapped_field(name, Ink::plain, line_of(one));
    page.field("", page.ink(Ink::faint, "  " + one.set));  // unbroken, to be pasted
    name = "";
  }
}

}  // namespace rehearse::inline report
