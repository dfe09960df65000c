#include "view/memory_view.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "report/memory_verdict.hpp"
#include "report/prediction_interval.hpp"
#include "view/would_fit.hpp"

namespace rehearse::inline view {
namespace {

Ink ink_of(MemoryVerdict verdict) { return verdict == MemoryVerdict::fits ? Ink::good : Ink::bad; }

std::string verdict(const MemoryFit& fit, const Page& page) {
  if (fit.verdict == MemoryVerdict::unknown) return page.ink(Ink::strong, details(fit));
  return page.ink(ink_of(fit.verdict), to_string(fit.verdict)) + ": " + details(fit);
}

void add_kind(const std::string& name, Bytes size, Bytes scale, Page& page) {
  constexpr std::size_t kBeside = 26;  // name, size and the spaces between
  const std::string blocks = bar(size / scale, page.body_width() - kBeside);
  page.field("", left(name, 15) + right(format(size), 9) + "  " + page.ink(Ink::compute, blocks));
}

std::string shares_text(const std::vector<MemoryShare>& shares) {
  constexpr std::size_t kNamed = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(shares.size(), kNamed); ++i) {
    std::string kind = to_string(shares[i].kind);
    std::ranges::replace(kind, '_', ' ');
    text += fmt::format("{}{} of {} ({})", i == 0 ? "" : ", ", kind, shares[i].owner,
                        format(shares[i].size));
  }
  return text;
}

std::string out_of_memory_text(const OutOfMemory& where) {
  return fmt::format("at {}: {}", where.at.empty() ? "the start" : where.at, where.message);
}

}  // namespace

void add_memory(const Report& report, const MemoryReport& memory, Page& page) {
  page.blank();
  page.field("memory", verdict(*memory_fit(report), page));
  const std::string range = range_text(report, "memory.allocated_peak_bytes",
                                       [](double size) { return format(Bytes(size)); });
  if (!range.empty()) page.field("", "allocated " + range + " (90 % interval)");
  const Bytes scale = std::max(memory.used(), memory.capacity);
  for (std::size_t kind = 0; kind < kMemoryKinds; ++kind) {
    const Bytes size = memory.at_peak.by_kind[kind];
    if (size <= Bytes(0)) continue;
    std::string name = to_string(static_cast<MemoryKind>(kind));
    std::ranges::replace(name, '_', ' ');
    add_kind(name, size, scale, page);
  }
  if (memory.reserved_peak) add_kind("reserved more", memory.fragmentation(), scale, page);
  if (memory.communicators > Bytes(0)) add_kind("NCCL", memory.communicators, scale, page);
  add_kind("CUDA context", memory.context, scale, page);
  if (!memory.peak_at.empty()) page.wrapped_field("", Ink::plain, "the most at " + memory.peak_at);
  if (!memory.shares.empty())
    page.wrapped_field("", Ink::faint, "the largest: " + shares_text(memory.shares));
  if (memory.out_of_memory)
    page.wrapped_field("", Ink::bad, out_of_memory_text(*memory.out_of_memory));
  if (memory.largest_batch_per_gpu) {
    page.field("",
               fmt::format("largest batch that fits: {} per GPU", *memory.largest_batch_per_gpu));
  }
  if (memory.would_fit) add_would_fit(memory, page);
}

}  // namespace rehearse::inline view
