#include "view/would_fit.hpp"

#include <fmt/format.h>

#include <ranges>

namespace rehearse::inline view {
namespace {

/// "+3.1 % time per sample, 61.2 GiB: FSDP full_shard"
std::string line_of(const FittingChange& one) {
  return fmt::format("{:+.1f} % time per sample, {}: {}{}{}", 100 * one.price, format(one.used),
                     one.change, one.at_risk ? " (at risk)" : "",
                     one.changes_training ? " (changes training)" : "");
}

}  // namespace

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

}  // namespace rehearse::inline view
