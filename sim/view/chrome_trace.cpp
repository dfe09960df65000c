#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "config/json/json_text.hpp"
#include "report/memory_timeline.hpp"
#include "view/views.hpp"

namespace rehearse::inline view {
namespace {

/// Whole nanoseconds: rounding keeps the order of moments, so that neighbours on a thread never
/// overlap by a rounding error.
std::int64_t nanoseconds(Seconds time) { return std::llround(time.value() * 1e9); }

/// The format's microseconds: "12.345".
std::string microseconds(std::int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

std::string quoted(const std::string& text) { return json_text(nlohmann::json(text)); }

const char* phase_name(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::optimizer:
      return "optimizer";
    case Phase::communication:
      return "communication";
    case Phase::host:
      return "host";
    case Phase::loading:
      return "loading";
    case Phase::server:
      return "server";
  }
  return "?";
}

/// Events of one thread must not overlap. A process is a rank, or a pipeline's stage with the ranks
/// that have it: of each rank lanes come first, then the queues that it owns, then as many threads
/// as it takes for operations that are bound to neither.
struct ThreadKey {
  enum class Kind { lane, queue, free };
  std::size_t process = 0, rank = 0;
  Kind kind = Kind::lane;
  std::size_t index = 0;
  auto operator<=>(const ThreadKey&) const = default;
};

class Writer {
 public:
  Writer(const Schedule& schedule, const Trace& trace, std::uint32_t first, std::uint32_t last,
         const std::vector<MemoryDevice>& devices, const std::vector<CollectiveAnswer>& answers)
      : schedule_(schedule), trace_(trace), first_(first), last_(last), devices_(devices) {
    for (const CollectiveAnswer& one : answers)
      answers_.try_emplace({one.group, one.kind, one.size.value()}, &one);
    by_stage_ = std::ranges::any_of(schedule.programs,
                                    [](const Program& program) { return program.stage > 0U; });
  }

  std::string write() {
    place_spans();
    number_threads();
    write_names();
    for (const auto& [span, key] : placed_) {
      write_span(*span, key);
      write_arrow(*span, key);
    }
    write_memory();
    return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + events_ + "\n]}\n";
  }

 private:
  const Op& op_of(const Span& span) const {
    return schedule_.program_of(span.rank).ops[span.op.index()];
  }
  std::size_t process_of(RankId rank) const {
    return by_stage_ ? schedule_.program_of(rank).stage.value_or(0) : rank.index();
  }
  bool shown(const Span& span) const {
    return span.rank.index() < trace_.recorded_ranks && span.iteration >= first_ &&
           span.iteration < last_;
  }

  void place_spans();
  ThreadKey thread_of(const Span& span);
  std::size_t free_thread(const Span& span);
  void number_threads();
  void write_names();
  std::string process_name(std::size_t process) const;
  std::string rank_name(RankId rank) const;
  std::string thread_name(const ThreadKey& key) const;
  void write_span(const Span& span, const ThreadKey& key);
  void write_arrow(const Span& span, const ThreadKey& key);
  std::size_t number_of(const Span& span, const Collective& message) const;
  std::string arguments(const Span& span) const;
  std::string arguments_of(const Collective& collective, const Span& span) const;
  void write_memory();
  void write_counters(RankId rank, const MemorySample& sample);

  void event(const std::string& json) {
    if (!events_.empty()) events_ += ",\n";
    events_ += json;
  }

  const Schedule& schedule_;
  const Trace& trace_;
  std::uint32_t first_, last_;
  bool by_stage_ = false;
  const std::vector<MemoryDevice>& devices_;  ///< by program; empty: sizes as asked for
  std::map<std::tuple<GroupId, CollectiveKind, double>, const CollectiveAnswer*> answers_;
  std::vector<std::pair<const Span*, ThreadKey>> placed_;
  std::map<std::size_t, std::vector<Seconds>>
      free_until_;  ///< by rank: when each free thread is idle again
  std::map<ThreadKey, std::size_t> thread_numbers_;
  std::string events_;
};

void Writer::place_spans() {
  for (const Span& span : trace_.spans) {
    if (!shown(span) || std::holds_alternative<Join>(op_of(span).work)) continue;
    placed_.emplace_back(&span, thread_of(span));
  }
}

ThreadKey Writer::thread_of(const Span& span) {
  const Op& op = op_of(span);
  const RankId rank = op.queue && !op.lane ? schedule_.queues[op.queue->index()].owner : span.rank;
  const std::size_t process = process_of(rank);
  if (op.lane) return {process, rank.index(), ThreadKey::Kind::lane, op.lane->index()};
  if (op.queue) return {process, rank.index(), ThreadKey::Kind::queue, op.queue->index()};
  return {process, rank.index(), ThreadKey::Kind::free, free_thread(span)};
}

std::size_t Writer::free_thread(const Span& span) {
  std::vector<Seconds>& until = free_until_[span.rank.index()];
  const auto idle = std::ranges::find_if(until, [&](Seconds end) { return end <= span.start; });
  if (idle != until.end()) {
    *idle = span.end;
    return static_cast<std::size_t>(idle - until.begin());
  }
  until.push_back(span.end);
  return until.size() - 1;
}

void Writer::number_threads() {
  for (const auto& [span, key] : placed_) thread_numbers_[key] = 0;
  std::map<std::size_t, std::size_t> next;
  for (auto& [key, number] : thread_numbers_) number = ++next[key.process];
}

void Writer::write_names() {
  std::set<std::size_t> processes;
  for (const auto& [key, number] : thread_numbers_) processes.insert(key.process);
  for (const std::size_t process : processes) {
    event(fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})",
                      process, quoted(process_name(process))));
    event(fmt::format(
        R"({{"ph":"M","name":"process_sort_index","pid":{0},"args":{{"sort_index":{0}}}}})",
        process));
  }
  for (const auto& [key, number] : thread_numbers_) {
    event(fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})",
                      key.process, number, quoted(thread_name(key))));
    event(fmt::format(
        R"({{"ph":"M","name":"thread_sort_index","pid":{0},"tid":{1},"args":{{"sort_index":{1}}}}})",
        key.process, number));
  }
}

std::string Writer::process_name(std::size_t process) const {
  return by_stage_ ? fmt::format("stage {}", process) : rank_name(RankId(process));
}

std::string Writer::rank_name(RankId rank) const {
  const Place& place = schedule_.ranks[rank.index()].place;
  const std::string unit = place.gpu < 0 ? "cpu" : fmt::format("gpu{}", place.gpu);
  return fmt::format("rank {} (node{} {})", rank.index(), place.node.index(), unit);
}

std::string Writer::thread_name(const ThreadKey& key) const {
  const std::string of = by_stage_ ? rank_name(RankId(key.rank)) + ": " : "";
  switch (key.kind) {
    case ThreadKey::Kind::lane:
      return of + schedule_.program_of(RankId(key.rank)).lanes[key.index].name;
    case ThreadKey::Kind::queue:
      return of + schedule_.queues[key.index].name;
    case ThreadKey::Kind::free:
      break;
  }
  return of + (key.index == 0 ? "transfers" : fmt::format("transfers {}", key.index + 1));
}

void Writer::write_span(const Span& span, const ThreadKey& key) {
  const Op& op = op_of(span);
  const std::int64_t start = nanoseconds(span.start);
  // A queue's thread shows the work of many ranks.
  const std::string from =
      key.kind == ThreadKey::Kind::queue ? fmt::format(" (rank {})", span.rank.index()) : "";
  event(fmt::format(
      R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}})",
      quoted(op.label() + from), phase_name(op.phase), key.process, thread_numbers_.at(key),
      microseconds(start), microseconds(nanoseconds(span.end) - start), arguments(span)));
}

/// `busbw_GBps` is what it reached, beside all else that ran.
std::string Writer::arguments_of(const Collective& collective, const Span& span) const {
  const GroupId id = schedule_.ranks[span.rank.index()].groups[collective.group];
  const Group& group = schedule_.groups[id.index()];
  const auto found = answers_.find({id, collective.kind, collective.size.value()});
  const CollectiveAnswer* answer = found == answers_.end() ? nullptr : found->second;
  std::string text = fmt::format(R"(,"bytes":{:.0f},"algorithm":"{}","group":{},"ranks":{})",
                                 collective.size.value(),
                                 answer ? answer->algorithm() : to_string(collective.algorithm),
                                 quoted(group.name), group.ranks);
  if (!answer) return text;
  const double factor = bus_factor(collective.kind, static_cast<double>(group.ranks));
  if (!answer->protocol().empty()) text += fmt::format(R"(,"protocol":"{}")", answer->protocol());
  text += fmt::format(R"(,"answered_by":"{}")", to_string(answer->cost.basis));
  if (span.end > span.start)
    text += fmt::format(R"(,"busbw_GBps":{:.4g})",
                        (collective.size * factor / (span.end - span.start)).value() / 1e9);
  return text;
}

/// How many messages the rank's group has had in the iteration.
std::size_t Writer::number_of(const Span& span, const Collective& message) const {
  const auto& ops = schedule_.program_of(span.rank).ops;
  return static_cast<std::size_t>(std::count_if(
      ops.begin(), ops.begin() + static_cast<std::ptrdiff_t>(span.op.index()), [&](const Op& op) {
        const auto* other = std::get_if<Collective>(&op.work);
        return other && other->group == message.group;
      }));
}

/// From who sends, the first of a pair's group, to who receives.
void Writer::write_arrow(const Span& span, const ThreadKey& key) {
  const auto* message = std::get_if<Collective>(&op_of(span).work);
  if (message == nullptr || message->kind != CollectiveKind::send_recv) return;
  const GroupId group = schedule_.ranks[span.rank.index()].groups[message->group];
  const bool sends = schedule_.groups[group.index()].members.front() == span.rank;
  event(fmt::format(
      R"x({{"ph":"{}","name":"message","cat":"message","id":"{}.{}.{}","pid":{},"tid":{},"ts":{}{}}})x",
      sends ? "s" : "f", group.index(), span.iteration, number_of(span, *message), key.process,
      thread_numbers_.at(key), microseconds(nanoseconds(sends ? span.start : span.end)),
      sends ? "" : R"(,"bp":"e")"));
}

std::string Writer::arguments(const Span& span) const {
  const Op& op = op_of(span);
  std::string text = fmt::format(R"("iteration":{})", span.iteration);
  if (const auto* collective = std::get_if<Collective>(&op.work)) {
    text += arguments_of(*collective, span);
  } else if (const auto* transfer = std::get_if<Transfer>(&op.work)) {
    text += fmt::format(R"(,"bytes":{:.0f},"source":{},"target":{})", transfer->size.value(),
                        transfer->source.value_or(span.rank).index(),
                        transfer->target.value_or(span.rank).index());
  }
  const std::int64_t waited = nanoseconds(span.start) - nanoseconds(span.ready);
  if (waited > 0) text += fmt::format(R"(,"waited_us":{})", microseconds(waited));
  return text;
}

/// Of the first rank of each program: like ranks hold alike.
void Writer::write_memory() {
  std::map<ProgramId, RankId> first_ranks;
  for (std::size_t rank = 0; rank < trace_.recorded_ranks; ++rank)
    first_ranks.try_emplace(schedule_.ranks[rank].program, RankId(rank));
  for (const auto& [program, rank] : first_ranks) {
    std::vector<const Span*> spans;
    for (const Span& span : trace_.spans)
      if (span.rank == rank && !op_of(span).memory.empty()) spans.push_back(&span);
    const MemoryDevice device =
        devices_.empty() ? MemoryDevice{.caching = false} : devices_[program.index()];
    for (const MemorySample& sample :
         memory_timeline(schedule_.programs[program.index()], device, spans))
      if (sample.iteration >= first_ && sample.iteration < last_) write_counters(rank, sample);
  }
}

void Writer::write_counters(RankId rank, const MemorySample& sample) {
  const std::string time = microseconds(nanoseconds(sample.time));
  const auto counter = [&](const char* name, const std::string& values) {
    const std::string of = by_stage_ ? fmt::format(" of rank {}", rank.index()) : "";
    event(fmt::format(R"x({{"ph":"C","name":"{}{} (bytes)","pid":{},"ts":{},"args":{{{}}}}})x",
                      name, of, process_of(rank), time, values));
  };
  std::string values;
  for (std::size_t kind = 0; kind < kMemoryKinds; ++kind) {
    values +=
        fmt::format("{}\"{}\":{:.0f}", kind == 0 ? "" : ",",
                    to_string(static_cast<MemoryKind>(kind)), sample.use.by_kind[kind].value());
  }
  counter("memory", values);
  if (!sample.reserved) return;
  counter("reserved memory",
          fmt::format("\"allocated\":{:.0f},\"unused\":{:.0f}", sample.use.total().value(),
                      std::max(0.0, (*sample.reserved - sample.use.total()).value())));
}

}  // namespace

std::string to_chrome_trace(const Schedule& schedule, const Trace& trace,
                            std::uint32_t first_iteration, std::uint32_t last_iteration,
                            const std::vector<MemoryDevice>& devices,
                            const std::vector<CollectiveAnswer>& answers) {
  return Writer(schedule, trace, first_iteration, last_iteration, devices, answers).write();
}

}  // namespace rehearse::inline view
