#include "memory/reference_allocator.hpp"

#include <algorithm>
#include <cmath>

namespace rehearse {
namespace {

constexpr std::int64_t kKiB = 1024, kMiB = 1024 * kKiB;

std::int64_t up(std::int64_t size, std::int64_t unit) { return (size + unit - 1) / unit * unit; }

}  // namespace

std::int64_t ReferenceAllocator::rounded(std::int64_t size) const {
  const std::int64_t steps = settings_.roundup_power2_divisions;
  if (steps <= 1 || size <= 512 * steps) return std::max<std::int64_t>(512, up(size, 512));
  std::int64_t power = 1;
  while (2 * power <= size) power *= 2;
  for (std::int64_t step = 0;; ++step)
    if (power + step * (power / steps) >= size) return power + step * (power / steps);
}

bool ReferenceAllocator::is_mapped(const Segment& segment, std::int64_t place) const {
  return segment.page == 0 || segment.mapped[static_cast<std::size_t>(place / segment.page)];
}

std::vector<ReferenceAllocator::Gap> ReferenceAllocator::gaps(std::size_t index) const {
  const Segment& segment = segments_[index];
  std::vector<Gap> found;
  const auto add = [&](std::int64_t begin, std::int64_t end) {
    // Cut at the borders of pages without memory.
    while (begin < end) {
      std::int64_t to = begin;
      const bool here = is_mapped(segment, begin);
      while (to < end && is_mapped(segment, to) == here)
        to = segment.page == 0 ? end : std::min(end, (to / segment.page + 1) * segment.page);
      if (here) found.push_back({index, begin, to});
      begin = to;
    }
  };
  std::int64_t at = 0;
  for (const Used& used : segment.used) {
    add(at, used.begin);
    at = used.end;
  }
  add(at, segment.size);
  return found;
}

std::int64_t ReferenceAllocator::can_become(const Gap& gap) const {
  const Segment& segment = segments_[gap.segment];
  std::int64_t end = gap.end;
  const auto is_used = [&](std::int64_t place) {
    return std::ranges::any_of(segment.used,
                               [&](const Used& u) { return u.begin <= place && place < u.end; });
  };
  if (segment.page > 0)
    while (end < segment.size && !is_used(end) && !is_mapped(segment, end)) end += segment.page;
  return end - gap.begin;
}

std::optional<ReferenceAllocator::Gap> ReferenceAllocator::find(std::int64_t size,
                                                                std::uint32_t stream, bool small) {
  if (!small) ++large_searches_;
  std::vector<Gap> candidates;
  for (std::size_t s = 0; s < segments_.size(); ++s) {
    if (segments_[s].stream != stream || segments_[s].small != small) continue;
    for (const Gap& gap : gaps(s))
      if (gap.end - gap.begin >= size) candidates.push_back(gap);
  }
  std::ranges::stable_sort(candidates, {}, [](const Gap& gap) { return gap.end - gap.begin; });
  if (candidates.empty()) return std::nullopt;
  std::size_t best = 0;
  if (settings_.expandable_segments)
    while (best + 1 < candidates.size() &&
           can_become(candidates[best + 1]) < can_become(candidates[best]))
      ++best;
  const std::int64_t length = candidates[best].end - candidates[best].begin;
  const bool oversize = size >= settings_.max_split_size;
  if (!oversize && length >= settings_.max_split_size) return std::nullopt;
  if (oversize && length >= size + 20 * kMiB) return std::nullopt;
  return candidates[best];
}

std::optional<ReferenceAllocator::Gap> ReferenceAllocator::obtain(std::int64_t size,
                                                                  std::uint32_t stream,
                                                                  bool small) {
  const std::int64_t segment =
      small ? 2 * kMiB : (size < 10 * kMiB ? 20 * kMiB : up(size, 2 * kMiB));
  if (settings_.memory_fraction && reserved() + segment > allowed()) return std::nullopt;
  if (settings_.expandable_segments) return expand(size, stream, small);
  if (segment > device_left()) return std::nullopt;
  segments_.push_back({.base = top_,
                       .size = segment,
                       .page = 0,
                       .stream = stream,
                       .small = small,
                       .mapped = {},
                       .used = {}});
  top_ += segment;
  ++device_allocations_;
  return Gap{segments_.size() - 1, 0, segment};
}

std::optional<ReferenceAllocator::Gap> ReferenceAllocator::expand(std::int64_t size,
                                                                  std::uint32_t stream,
                                                                  bool small) {
  const std::int64_t page = (small ? 2 : 20) * kMiB;
  for (std::size_t s = 0;; ++s) {
    if (s == segments_.size()) {
      const std::int64_t space = up(device_.memory + device_.memory / 8, page);
      segments_.push_back({.base = top_,
                           .size = space,
                           .page = page,
                           .stream = stream,
                           .small = small,
                           .mapped = std::vector<bool>(static_cast<std::size_t>(space / page)),
                           .used = {}});
      top_ += space;
    }
    Segment& segment = segments_[s];
    if (segment.stream != stream || segment.small != small) continue;
    // Every range between tensors; in it the first that leaves room and begins at, or right
    // before, a page without memory.
    std::vector<Used> fence = segment.used;
    fence.push_back({segment.size, segment.size, 0, false});
    std::int64_t from = 0;
    for (const Used& next : fence) {
      std::int64_t start = from;
      for (std::int64_t place = from; place < next.begin;) {
        const bool here = is_mapped(segment, place);
        std::int64_t end = place;
        while (end < next.begin && is_mapped(segment, end) == here)
          end = std::min(next.begin, (end / page + 1) * page);
        if (!here && next.begin - start >= size) {
          // Map run by run what the tensor covers.
          std::int64_t at = start;
          while (at < start + size) {
            if (is_mapped(segment, at)) {
              at = (at / page + 1) * page;
              continue;
            }
            std::int64_t run = at;
            while (run < start + size && !is_mapped(segment, run)) run += page;
            if (run - at > device_left()) return std::nullopt;
            for (std::int64_t p = at; p < run; p += page)
              segment.mapped[static_cast<std::size_t>(p / page)] = true;
            ++device_allocations_;
            at = run;
          }
          for (const Gap& gap : gaps(s))
            if (gap.begin == start) return gap;
        }
        start = here ? place : end;  // a free range may stand before the next one
        place = end;
      }
      from = next.end;
    }
  }
}

std::optional<int> ReferenceAllocator::malloc(std::int64_t requested, std::uint32_t stream) {
  const std::int64_t size = rounded(requested);
  const bool small = size <= kMiB;
  std::optional<Gap> gap = find(size, stream, small);
  if (!gap) {
    if (settings_.garbage_collection_threshold > 0 && settings_.memory_fraction) collect_garbage();
    gap = obtain(size, stream, small);
  }
  if (!gap && release_oversize(size, stream, small)) gap = obtain(size, stream, small);
  if (!gap) {
    release_cached();
    gap = obtain(size, stream, small);
  }
  if (!gap) return std::nullopt;
  const std::int64_t rest = gap->end - gap->begin - size;
  const bool split = small || settings_.expandable_segments
                         ? rest >= 512
                         : size < settings_.max_split_size && rest > kMiB;
  auto& used = segments_[gap->segment].used;
  used.push_back({gap->begin, split ? gap->begin + size : gap->end, next_block_, false});
  std::ranges::sort(used, {}, &Used::begin);
  return next_block_++;
}

void ReferenceAllocator::free(int block, bool in_use_elsewhere) {
  for (Segment& segment : segments_) {
    for (Used& used : segment.used)
      if (used.block == block) used.freed = true;
    if (in_use_elsewhere) continue;
    const auto gone = std::erase_if(segment.used, [&](const Used& u) { return u.block == block; });
    if (gone > 0) segment.idle_since = large_searches_;
  }
}

void ReferenceAllocator::finish(int block) {
  for (Segment& segment : segments_)
    for (const Used& used : segment.used)
      if (used.block == block && used.freed) return free(block);
}

std::int64_t ReferenceAllocator::allocated() const {
  std::int64_t sum = 0;
  for (const Segment& segment : segments_)
    for (const Used& used : segment.used)
      if (!used.freed) sum += used.end - used.begin;
  return sum;
}

std::int64_t ReferenceAllocator::reserved() const {
  std::int64_t sum = 0;
  for (const Segment& segment : segments_)
    sum +=
        segment.page == 0 ? segment.size : segment.page * std::ranges::count(segment.mapped, true);
  return sum;
}

std::int64_t ReferenceAllocator::device_left() const {
  return device_.memory - device_.outside - reserved();
}

std::int64_t ReferenceAllocator::allowed() const {
  return static_cast<std::int64_t>(*settings_.memory_fraction *
                                   static_cast<double>(device_.memory));
}

bool ReferenceAllocator::whole_and_free(const Segment& segment) const {
  return segment.page == 0 && segment.used.empty();
}

void ReferenceAllocator::remove(std::size_t segment) {
  segments_.erase(segments_.begin() + static_cast<std::ptrdiff_t>(segment));
}

void ReferenceAllocator::collect_garbage() {
  const auto threshold = static_cast<std::int64_t>(settings_.garbage_collection_threshold *
                                                   static_cast<double>(allowed()));
  const std::int64_t target = reserved() - threshold;
  std::int64_t reclaimed = 0;
  for (bool any = true; any && reclaimed < target;) {
    any = false;
    double ages = 0, count = 0;
    for (const Segment& segment : segments_)
      if (!segment.small && whole_and_free(segment)) {
        ages += static_cast<double>(large_searches_ - segment.idle_since);
        ++count;
      }
    const double average = count > 0 ? ages / count : 0;
    for (std::size_t s = segments_.size(); s-- > 0;) {
      const Segment& segment = segments_[s];
      if (segment.small || !whole_and_free(segment)) continue;
      if (static_cast<double>(large_searches_ - segment.idle_since) < average) continue;
      reclaimed += segment.size;
      any = true;
      remove(s);
    }
  }
}

bool ReferenceAllocator::release_oversize(std::int64_t size, std::uint32_t stream, bool small) {
  const std::int64_t limit = settings_.max_split_size;
  if (limit == AllocatorSettings{}.max_split_size || settings_.expandable_segments) return false;
  const std::int64_t wanted = std::max(size, limit);
  // Blocks of that size are never split: whole segments.
  std::vector<Gap> large;
  for (std::size_t s = 0; s < segments_.size(); ++s)
    if (segments_[s].stream == stream && segments_[s].small == small)
      for (const Gap& gap : gaps(s))
        if (gap.end - gap.begin >= limit) large.push_back(gap);
  std::ranges::stable_sort(large, {}, [](const Gap& gap) { return gap.end - gap.begin; });
  const auto length = [](const Gap& gap) { return gap.end - gap.begin; };
  for (const Gap& gap : large)
    if (length(gap) >= wanted) {
      remove(gap.segment);
      return true;
    }
  std::vector<std::size_t> gone;
  std::int64_t released = 0;
  while (released < wanted && !large.empty()) {
    released += length(large.back());
    gone.push_back(large.back().segment);
    large.pop_back();
  }
  std::ranges::sort(gone, std::greater<>());
  for (const std::size_t segment : gone) remove(segment);
  return released >= wanted;
}

void ReferenceAllocator::release_cached() {
  for (Segment& segment : segments_)
    std::erase_if(segment.used, [](const Used& used) { return used.freed; });
  for (std::size_t s = segments_.size(); s-- > 0;) {
    Segment& segment = segments_[s];
    if (segment.page > 0) {
      for (const Gap& gap : gaps(s))
        for (std::int64_t p = up(gap.begin, segment.page); p + segment.page <= gap.end;
             p += segment.page)
          segment.mapped[static_cast<std::size_t>(p / segment.page)] = false;
      if (segment.used.empty()) remove(s);
    } else if (segment.used.empty()) {
      remove(s);
    }
  }
}

}  // namespace rehearse
