#include "foreign/traces/kernel_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/error.hpp"

namespace rehearse::inline foreign {
namespace {

/// The name that an operator and its variants share: in place or not, of one kernel or another.
std::string plain_name(std::string name) {
  if (name.starts_with("aten::")) name = name.substr(6);
  const bool backward = name.find("backward") != std::string::npos;
  if (name.find("_attention") != std::string::npos)
    return backward ? "attention_backward" : "attention";
  if (name.find("batch_norm") != std::string::npos)
    return backward ? "batch_norm_backward" : "batch_norm";
  if (name.size() > 1 && name.back() == '_' && !name.ends_with("__")) name.pop_back();
  return name;
}

/// "[2, 128, 8, 64]" with its numbers in order: attention's kernels have heads before tokens, or
/// behind them.
std::string in_order(const std::string& size) {
  std::vector<long long> numbers;
  for (std::size_t at = 1; at < size.size(); at = size.find_first_of(",]", at) + 1)
    numbers.push_back(std::strtoll(size.c_str() + at, nullptr, 10));
  std::ranges::sort(numbers);
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

/// Sizes in any order: "[1024] [2, 128]".
std::string sorted_sizes(const std::string& op, std::vector<std::string> sizes) {
  if (op.starts_with("attention"))
    for (std::string& size : sizes) size = in_order(size);
  std::ranges::sort(sizes);
  return fmt::format("{}", fmt::join(sizes, " "));
}

/// "bf16[2, 128]" without its type; those of no dimension are left out.
std::string sizes_of(const std::string& op, const KernelRow& row) {
  std::vector<std::string> sizes;
  for (const std::string& read : row.reads)
    if (const std::string size = read.substr(read.find('[')); size != "[]") sizes.push_back(size);
  return sorted_sizes(op, std::move(sizes));
}

std::string traced_sizes(const std::string& op, const std::string& text) {
  std::vector<std::string> sizes;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(']', at), text.size() - 1);
    sizes.push_back(text.substr(at, end + 1 - at));
    at = end + 2;
  }
  return sorted_sizes(op, std::move(sizes));
}

struct Calls {
  double calls = 0;
  Seconds time;
};
using ByKind = std::map<std::pair<std::string, std::string>, Calls>;  // operator, sizes

ByKind expected(const KernelTable& table) {
  ByKind kinds;
  for (const KernelRow& row : table.rows) {
    const std::string op = plain_name(row.op);
    Calls& calls = kinds[{op, sizes_of(op, row)}];
    calls.calls += row.calls;
    calls.time += row.cost.time;
  }
  return kinds;
}

/// Times that one of some spans covers.
class Covered {
 public:
  explicit Covered(std::vector<TraceSpan> spans) : spans_(std::move(spans)) {
    std::ranges::sort(spans_, {}, &TraceSpan::begin);
    for (const TraceSpan& span : spans_)
      ends_.push_back(std::max(ends_.empty() ? span.end() : ends_.back(), span.end()));
  }
  bool empty() const { return spans_.empty(); }
  std::size_t size() const { return spans_.size(); }
  bool holds(double at) const {
    const auto next = std::ranges::upper_bound(spans_, at, {}, &TraceSpan::begin);
    return next != spans_.begin() &&
           at < ends_[static_cast<std::size_t>(next - spans_.begin()) - 1];
  }

 private:
  std::vector<TraceSpan> spans_;
  std::vector<double> ends_;  ///< the last one of all until here
};

/// What FSDP writes into a trace around its own work (torch/distributed/fsdp): of the first one's
/// spans that of its forward holds the module's, too.
bool is_sharding(const std::string& note) {
  return note.starts_with("FSDP::") ||
         (note.starts_with("FullyShardedDataParallel.") && !note.ends_with(".forward"));
}

Covered notes_of(const KinetoTrace& trace, bool (*wanted)(const std::string&)) {
  std::vector<TraceSpan> found;
  for (const TraceSpan& note : trace.notes)
    if (wanted(trace.name_of(note))) found.push_back(note);
  return Covered(std::move(found));
}

/// Assigns a trace's time to operators, thread by thread.
class TracedCalls {
 public:
  TracedCalls(const KinetoTrace& trace, const std::set<std::string>& known)
      : trace_(trace),
        known_(known),
        steps_(
            notes_of(trace, [](const std::string& n) { return n.starts_with("ProfilerStep#"); })),
        optimizers_(
            notes_of(trace, [](const std::string& n) { return n.starts_with("Optimizer.step"); })),
        sharding_(notes_of(trace, is_sharding)) {
    for (const TraceSpan& kernel : trace.kernels) durations_[kernel.tie] += kernel.duration;
  }

  void run() {
    std::map<std::uint32_t, std::vector<std::size_t>> threads;
    for (std::size_t i = 0; i < trace_.operators.size(); ++i)
      threads[trace_.operators[i].thread].push_back(i);
    std::map<std::uint32_t, std::vector<TraceSpan>> launches;
    for (const TraceSpan& launch : trace_.launches) launches[launch.thread].push_back(launch);
    for (auto& [thread, operators] : threads) run_thread(operators, launches[thread]);
  }

  std::size_t steps() const { return std::max<std::size_t>(1, steps_.size()); }
  bool on_gpu() const { return !trace_.kernels.empty(); }
  ByKind kinds;
  Seconds optimizer, sharding;

 private:
  const TraceSpan& span(std::size_t index) const { return trace_.operators[index]; }

  void run_thread(std::vector<std::size_t>& operators, std::vector<TraceSpan>& launches) {
    const auto outer_first = [&](std::size_t a, std::size_t b) {
      if (span(a).begin != span(b).begin) return span(a).begin < span(b).begin;
      return span(a).duration > span(b).duration;
    };
    std::ranges::stable_sort(operators, outer_first);
    std::ranges::stable_sort(launches, {}, &TraceSpan::begin);
    std::size_t launch = 0;
    const auto leave_until = [&](double now) {
      for (; launch < launches.size() && launches[launch].begin < now; ++launch) {
        while (!open_.empty() && span(open_.back()).end() < launches[launch].begin) close();
        const auto found = durations_.find(launches[launch].tie);
        if (found != durations_.end()) assign(launches[launch].begin, found->second);
      }
      while (!open_.empty() && span(open_.back()).end() <= now) close();
    };
    for (const std::size_t index : operators) {
      leave_until(span(index).begin);
      open_.push_back(index);
      inside_.push_back(0);
    }
    leave_until(1e300);
  }

  /// On a CPU an operator's own time is what others within it leave.
  void close() {
    const std::size_t index = open_.back();
    if (!on_gpu()) assign(span(index).begin, span(index).duration - inside_.back());
    open_.pop_back();
    inside_.pop_back();
    if (!inside_.empty()) inside_.back() += span(index).duration;
  }

  /// The innermost open operator that is one of those that are expected (autocast's conversions
  /// stand inside of products), but for what others are made of; else the innermost.
  std::size_t operator_of() const {
    static const std::set<std::string> kParts = {"copy", "zeros", "zero", "fill", "empty"};
    std::optional<std::size_t> part;
    for (auto open = open_.rbegin(); open != open_.rend(); ++open) {
      const std::string name = plain_name(trace_.name_of(span(*open)));
      if (!known_.contains(name)) continue;
      if (!kParts.contains(name)) return *open;
      if (!part) part = *open;
    }
    if (part) return *part;
    return open_.empty() ? trace_.operators.size() : open_.back();
  }

  void assign(double at, double microseconds) {
    if (!steps_.empty() && !steps_.holds(at)) return;
    const Seconds time(microseconds * 1e-6);
    if (optimizers_.holds(at) || sharding_.holds(at)) {
      (optimizers_.holds(at) ? optimizer : sharding) += time;
      return;
    }
    const std::size_t chosen = operator_of();
    const bool outside = chosen == trace_.operators.size();
    const std::string name = outside ? "(no operator)" : plain_name(trace_.name_of(span(chosen)));
    const std::string sizes = outside || trace_.shapes.empty()
                                  ? ""
                                  : traced_sizes(name, trace_.names[trace_.shapes[chosen]]);
    Calls& calls = kinds[{name, sizes}];
    calls.time += time;
    if (outside || counted_.insert(chosen).second) calls.calls += 1;
  }

  const KinetoTrace& trace_;
  const std::set<std::string>& known_;
  Covered steps_, optimizers_, sharding_;
  std::unordered_map<std::int64_t, double> durations_;  ///< of kernels, by correlation
  std::vector<std::size_t> open_;
  std::vector<double> inside_;  ///< microseconds of what is inside each of `open_`
  std::set<std::size_t> counted_;
};

void add_matched(KernelComparison& both, ByKind& ours, ByKind& traced) {
  for (auto& [kind, mine] : ours) {
    const auto found = traced.find(kind);
    if (found == traced.end()) continue;
    both.rows.push_back({KernelMatch::matched, kind.first, kind.second, mine.calls,
                         found->second.calls, mine.time, found->second.time});
    both.matched_shapes += found->second.time;
    mine.calls = 0;
    traced.erase(found);
  }
  std::erase_if(ours, [](const auto& one) { return one.second.calls == 0; });
}

/// What is left of an operator on both sides.
void add_other_sizes(KernelComparison& both, ByKind& ours, ByKind& traced) {
  std::map<std::string, ComparedKernel> sums;
  std::set<std::string> known;
  for (const auto& [kind, mine] : ours) known.insert(kind.first);
  for (const auto& row : both.rows) known.insert(row.op);
  for (auto entry = traced.begin(); entry != traced.end();) {
    if (!known.contains(entry->first.first)) {
      ++entry;
      continue;
    }
    ComparedKernel& sum = sums[entry->first.first];
    sum.traced_calls += entry->second.calls;
    if (entry->second.time >= sum.traced) sum.shapes = entry->first.second;
    sum.traced += entry->second.time;
    entry = traced.erase(entry);
  }
  for (auto entry = ours.begin(); entry != ours.end();) {
    const auto found = sums.find(entry->first.first);
    if (found == sums.end()) {
      ++entry;
      continue;
    }
    found->second.calls += entry->second.calls;
    found->second.time += entry->second.time;
    entry = ours.erase(entry);
  }
  for (auto& [op, sum] : sums) {
    sum.match = KernelMatch::other_sizes;
    sum.op = op;
    both.matched += sum.traced;
    both.rows.push_back(std::move(sum));
  }
}

/// Sizes of the three products that take longest.
std::vector<std::string> longest_products(const ByKind& kinds) {
  std::vector<std::pair<Seconds, std::string>> found;
  for (const auto& [kind, calls] : kinds)
    if (kind.first == "mm" || kind.first == "addmm" || kind.first == "convolution")
      found.emplace_back(calls.time, kind.second);
  std::ranges::sort(found, std::ranges::greater{});
  std::vector<std::string> sizes;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, found.size()); ++i)
    sizes.push_back(found[i].second);
  return sizes;
}

}  // namespace

std::string to_string(KernelMatch match) {
  switch (match) {
    case KernelMatch::matched:
      return "matched";
    case KernelMatch::other_sizes:
      return "other sizes";
    case KernelMatch::missing:
      return "missing in the trace";
    case KernelMatch::surplus:
      return "surplus in the trace";
  }
  return "";
}

KernelComparison compare_kernels(const KernelTable& table, const KinetoTrace& trace) {
  if (trace.operators.empty())
    throw InputError(trace.file +
                     ": error: no operators (cpu_op): record with ProfilerActivity.CPU, too");
  ByKind ours = expected(table);
  std::set<std::string> known;
  for (const auto& [kind, calls] : ours) known.insert(kind.first);
  TracedCalls traced(trace, known);
  traced.run();
  const auto steps = static_cast<double>(traced.steps());
  KernelComparison both{.scenario = table.scenario,
                        .model = table.model,
                        .trace = trace.file,
                        .device = trace.device,
                        .steps = traced.steps(),
                        .time = table.time,
                        .optimizer = traced.optimizer * (1 / steps),
                        .sharding = traced.sharding * (1 / steps),
                        .on_gpu = traced.on_gpu()};
  bool has_sizes = false;
  for (auto& [kind, calls] : traced.kinds) {
    calls.calls /= steps;
    calls.time = calls.time * (1 / steps);
    both.traced += calls.time;
    has_sizes = has_sizes || !kind.second.empty();
  }
  if (!has_sizes)
    throw InputError(trace.file +
                     ": error: no sizes of tensors (Input Dims): record with record_shapes=True");
  const ByKind all = traced.kinds;
  add_matched(both, ours, traced.kinds);
  if (both.matched_shapes < 0.5 * both.traced) both.other_products = longest_products(all);
  both.matched = both.matched_shapes;
  add_other_sizes(both, ours, traced.kinds);
  for (const auto& [kind, mine] : ours)
    both.rows.push_back(
        {KernelMatch::missing, kind.first, kind.second, mine.calls, 0, mine.time, Seconds(0)});
  for (const auto& [kind, theirs] : traced.kinds)
    both.rows.push_back(
        {KernelMatch::surplus, kind.first, kind.second, 0, theirs.calls, Seconds(0), theirs.time});
  std::ranges::stable_sort(both.rows, std::ranges::greater{}, [](const ComparedKernel& one) {
    return std::max(one.time, one.traced);
  });
  return both;
}

}  // namespace rehearse::inline foreign
