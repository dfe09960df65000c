#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "report/memory_verdict.hpp"
#include "report/prediction_interval.hpp"
#include "scenario/limits.hpp"
#include "view/answer.hpp"
#include "view/collectives.hpp"
#include "view/cost_views.hpp"
#include "view/grounds_view.hpp"
#include "view/memory_view.hpp"
#include "view/page.hpp"
#include "view/page_parts.hpp"
#include "view/views.hpp"
#include "view/would_fit.hpp"

namespace rehearse::inline view {
namespace {

constexpr int kNarrowestPage = 60;
constexpr int kWidestPage = 110;  ///< wider lines are hard to follow

std::string number(double value) {
  return value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

std::string counted(std::size_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// --- head and times ------------------------------------------------------------------------------

void add_head(const Report& report, Page& page) {
  const std::string cluster = report.cluster.empty() ? "inline cluster" : report.cluster;
  const std::string formats =
      report.precision +
      (report.param_dtype ? fmt::format(" (param_dtype {})", *report.param_dtype) : "");
  page.paragraph(Ink::strong, fmt::format("{} · {} · {}", report.model, report.strategy, cluster));
  page.paragraph(Ink::faint,
                 fmt::format("{} training on {}; {}, batch {} per GPU, {} per step; fidelity {}",
                             counted(report.ranks, "GPU"), counted(report.nodes, "node"), formats,
                             report.batch_per_gpu, report.global_batch, report.fidelity));
  page.paragraph(Ink::faint, report.description);
}

std::string cost_text(const CostReport& cost) {
  const std::string hours = number(cost.gpu_hours) + " GPU hours";
  return cost.usd ? hours + ", " + money(*cost.usd) + " USD" : hours;
}

std::string time_text(double value) { return format(Seconds(value)); }

/// "before 880 ms to 1.02 s after"; nothing for no range.
std::string framed(const char* before, const std::string& range, const char* after) {
  return range.empty() ? "" : before + range + after;
}

/// A number, and beside it what is said of its interval.
void add_ranged(const char* name, const std::string& value, const std::string& range, Page& page) {
  page.field(name, page.ink(Ink::strong, left(value, kValueColumns)) + range);
}

/// Of an asynchronous run, whose step time is that of a global batch.
void add_workers(const Report& report, Page& page) {
  if (!report.worker_step_time) return;
  const auto [least, most] = std::ranges::minmax_element(report.worker_step_times);
  std::string text = format(*report.worker_step_time) + " for a step of its own";
  if (format(*least) != format(*most))
    text += fmt::format(" on average, from {} to {}", format(*least), format(*most));
  page.wrapped_field("a worker", Ink::plain, text);
}

void add_steady_state(const Report& report, Page& page) {
  if (!report.steady) return;
  const SteadyReport& steady = *report.steady;
  page.wrapped_field(
      "steady state", steady.reached ? Ink::faint : Ink::bad,
      fmt::format("{}throughput to {:.1f} %, staleness to {:.2g}, {:.0f} steps of the slowest",
                  steady.reached ? "" : "not reached: ", 100 * steady.throughput_error,
                  steady.staleness_error, steady.slowest));
}

/// Goyal et al., "Accurate, Large Minibatch SGD", arXiv 1706.02677, figure 3; Shallue et al.,
/// "Measuring the Effects of Data Parallelism on Neural Network Training", JMLR 2019.
constexpr const char* kLengthIsGiven = "larger batches may need more samples";

void add_times(const Report& report, Page& page) {
  const auto range = [&](const char* key) { return range_text(report, key, time_text); };
  add_ranged("step time", format(report.step_time),
             framed("", range("step_time_s"), " (90 % interval)"), page);
  add_workers(report, page);
  const std::string low = format(report.step_time_spread.low);
  const std::string high = format(report.step_time_spread.high);
  if (low != high) {
    page.field("single steps", fmt::format("{} to {} (5th to 95th percentile)", low, high));
  }
  add_ranged("throughput", number(report.samples_per_s) + " samples/s",
             framed("", range_text(report, "samples_per_s", number), " samples/s"), page);
  if (report.tokens_per_s)
    page.field("", fmt::format("{:.0f} tokens/s, {:.0f} per GPU", *report.tokens_per_s,
                               *report.tokens_per_s_per_gpu));
  add_steady_state(report, page);
  if (report.epoch_time) {
    add_ranged("epoch", format(*report.epoch_time), range("epoch_time_s"), page);
  }
  if (!report.train_time) {
    page.wrapped_field("training", Ink::faint,
                       "no time and no cost: nobody says how long it is, as "
                       "--set train.steps=10000 or train.tokens=1T does");
    return;
  }
  add_ranged("training", format(*report.train_time), range("train_time_s"), page);
  const std::string cost =
      report.cost ? cost_text(*report.cost) +
                        framed(" (", range_text(report, "cost.usd", money), " USD)") + "; "
                  : "";
  page.wrapped_field("", Ink::plain, cost + kLengthIsGiven);
  if (!report.cost) return;
  for (const std::string& price : report.cost->prices)
    page.wrapped_field("price", Ink::plain, price);
}

// --- where a step goes ---------------------------------------------------------------------------

struct Part {
  const char* name;
  const char* block;
  Ink ink;
  Seconds time;
};

std::string repeated(const char* block, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += block;
  return text;
}

/// The parts side by side over the whole width: each ends at its rounded running share, so that
/// they always fill it.
std::string stacked_bar(const std::array<Part, 3>& parts, Seconds whole, const Page& page) {
  std::string text;
  Seconds sum;
  std::size_t begin = 0;
  for (const Part& part : parts) {
    sum += part.time;
    const double end_share = std::min(1.0, sum / whole);
    const auto end =
        static_cast<std::size_t>(std::lround(end_share * static_cast<double>(page.body_width())));
    text += page.ink(part.ink, repeated(part.block, end - begin));
    begin = end;
  }
  return text;
}

/// Of attention the pairs that masks leave; beside it all of them, as Megatron-LM's logs count.
void add_utilization(const Report& report, Page& page) {
  if (!report.mfu) return;
  const double all = report.mfu_all_pairs.value_or(*report.mfu);
  const bool masked = percent(all) != percent(*report.mfu);
  const std::string rate = number(*report.model_tflops_per_gpu) + " TFLOP/s per GPU";
  const auto line = [&](const char* name, double share, const std::string& remark) {
    page.field("",
               left(name, 33) + right(percent(share), 9) + (remark.empty() ? "" : "   " + remark));
  };
  line("  model FLOPs utilization", *report.mfu, masked ? "" : rate);
  if (report.hfu && *report.hfu > *report.mfu) line("  with what is recomputed", *report.hfu, "");
  if (masked) line("  unmasked, as Megatron-LM counts", all, rate);
}

void add_breakdown(const Report& report, Page& page) {
  const Breakdown& breakdown = report.breakdown;
  const std::array<Part, 3> parts{
      Part{"compute", "█", Ink::compute, breakdown.compute},
      Part{"exposed communication", "▒", Ink::communication, breakdown.exposed_communication},
      Part{"idle", "░", Ink::faint, breakdown.idle}};
  const Seconds whole = breakdown.compute + breakdown.exposed_communication + breakdown.idle;
  if (whole <= Seconds(0)) return;
  page.blank();
  page.field("a step", stacked_bar(parts, whole, page));
  for (const Part& part : parts) {
    page.field("", page.ink(part.ink, part.block) + " " + left(part.name, 22) +
                       right(format(part.time), 9) + right(percent(part.time / whole), 9));
  }
  page.field("", left("  hidden communication", 24) +
                     right(format(breakdown.hidden_communication), 9) +
                     page.ink(Ink::faint, "   while it computes"));
  add_utilization(report, page);
}

// --- grounds -------------------------------------------------------------------------------------

std::string joined(const std::vector<std::string>& texts, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += (i == 0 ? "" : "; ") + texts[i];
  if (count == texts.size()) return text;
  return text + fmt::format("; and {} more (--format json)", texts.size() - count);
}

/// As many of the texts as `kLines` lines hold (one at least), and how many were left out.
void add_folded(const char* name, const std::vector<std::string>& texts, Ink ink, Page& page) {
  constexpr std::size_t kLines = 3;
  if (texts.empty()) return;
  std::size_t count = texts.size();
  while (count > 1 && wrap(joined(texts, count), page.body_width()).size() > kLines) --count;
  page.wrapped_field(name, ink, joined(texts, count));
}

/// "3 threads on 2 cores, oversubscribed; each stands ready without one for 92 ms of a step".
void add_cores(const CoresReport& cores, Page& page) {
  std::string text = fmt::format(
      "{} {} on {} {}{}", cores.threads, cores.threads == 1 ? "thread" : "threads", cores.cores,
      cores.cores == 1 ? "core" : "cores", cores.oversubscribed() ? ", oversubscribed" : "");
  if (cores.ready)
    text += fmt::format("; each stands ready without one for {} of a step", format(*cores.ready));
  if (cores.recorded_ready)
    text += fmt::format("; as recorded for {} of {}", format(*cores.recorded_ready),
                        format(*cores.recorded_step));
  page.wrapped_field("cores", cores.oversubscribed() ? Ink::bad : Ink::plain, text);
}

/// "12 ms (the other jobs cost 20 %)", then "resnet50 (ddp) on nodes 1, 3: 14 ms a step" of each.
void add_other_jobs(const Report& report, Page& page) {
  if (report.step_time_alone) {
    const double more = report.step_time / *report.step_time_alone - 1;
    page.field("alone", fmt::format("{} (the other jobs cost {:.1f} %)",
                                    format(*report.step_time_alone), 100 * more));
  }
  for (const OtherJobReport& job : report.other_jobs) {
    const std::string pace = job.step_time ? fmt::format("{} a step, {} steps meanwhile",
                                                         format(*job.step_time), job.steps)
                                           : "not two steps meanwhile";
    page.wrapped_field(
        "other job", Ink::plain,
        fmt::format("{} ({}) on {} {}: {}", job.model, job.strategy,
                    job.nodes.size() == 1 ? "node" : "nodes", fmt::join(job.nodes, ", "), pace));
  }
}

std::string versions_text(const Report& report) {
  std::string text;
  for (const auto& [name, version] : report.versions) {
    text += (text.empty() ? "" : ", ") + name + " " + version;
  }
  text += fmt::format("{}seed {}", text.empty() ? "" : ", ", report.seed);
  if (report.replications > 1) text += fmt::format(", the median run of {}", report.replications);
  if (report.replications_error)
    text += fmt::format(" (known to {:.1f} %)", 100 * *report.replications_error);
  return text;
}

void add_framework(const FrameworkChoice& framework, Page& page) {
  page.wrapped_field("framework", Ink::faint, framework.line);
  std::vector<std::string> set;
  for (const FrameworkSetting& one : framework.set) set.push_back(one.key + " = " + one.value);
  add_folded("it sets", set, Ink::faint, page);
}

/// All of them, as each is asked for by its name.
void add_acting(const Report& report, Page& page) {
  if (!report.acting) return;
  std::vector<std::string> texts;
  for (const ActingMechanism& one : *report.acting)
    texts.push_back(fmt::format("{} ({})", one.name, one.key));
  page.wrapped_field("acts", Ink::plain, joined(texts, texts.size()));
}

void add_grounds(const Report& report, Page& page) {
  page.blank();
  page.wrapped_field("bottleneck", Ink::strong, report.bottleneck);
  page.blank();
  add_folded("uncalibrated", report.outside_calibration, Ink::bad, page);
  page.wrapped_field("costs from", Ink::faint, report.provenance);
  add_compute(report.compute, page);
  add_mechanisms("step time", report.mechanisms, page);
  add_mechanisms("peak of memory", report.memory_mechanisms.allocated, page);
  add_framework(report.framework, page);
  add_acting(report, page);
  add_folded("assumed", report.assumptions, Ink::faint, page);
  page.wrapped_field("made by", Ink::faint, versions_text(report));
}

// --- the answer ----------------------------------------------------------------------------------

bool is_in_doubt(const Report& report) {
  const std::optional<MemoryFit> fit = memory_fit(report);
  return fit &&
         (fit->verdict == MemoryVerdict::at_risk || fit->verdict == MemoryVerdict::does_not_fit);
}

void add_answer(const Report& report, Page& page) {
  page.paragraph(is_in_doubt(report) ? Ink::bad : Ink::strong, answer(report));
  page.blank();
}

/// Names what makes it fit, or what else could be asked.
void add_help(const Report& report, Page& page) {
  constexpr std::size_t kTold = 3;
  const char* name = "would help";
  if (report.memory && report.memory->would_fit) add_would_fit(*report.memory, page, kTold);
  const std::optional<std::int64_t> batch =
      report.memory ? report.memory->largest_batch_per_gpu : std::nullopt;
  if (batch && *batch > report.batch_per_gpu && *batch < kLargestBatch) {  // else none is known
    page.wrapped_field(
        name, Ink::plain,
        fmt::format("batches up to {} per GPU fit: --set model.batch_per_gpu={}, if they train as "
                    "well",
                    *batch, *batch));
    name = "";
  }
  page.field(name, "rehearse explain says what more of each resource buys");
}

/// How far to believe it, in a line or two.
void add_brief_grounds(const Report& report, Page& page) {
  page.wrapped_field("costs from", Ink::faint, report.provenance);
  const std::size_t doubts = report.outside_calibration.size();
  page.wrapped_field(
      "", doubts > 0 ? Ink::bad : Ink::faint,
      fmt::format("{} outside calibration, {} assumed, {}: -v names them", counted(doubts, "cost"),
                  counted(report.assumptions.size(), "value"),
                  report.framework.title.empty() ? "no framework" : report.framework.title));
}

void add_brief_memory(const Report& report, Page& page) {
  if (!report.memory) return;
  const MemoryReport& memory = *report.memory;
  const MemoryFit fit = *memory_fit(report);
  const auto& kinds = memory.at_peak.by_kind;
  const auto largest = std::ranges::max_element(kinds);
  std::string kind = to_string(static_cast<MemoryKind>(largest - kinds.begin()));
  std::ranges::replace(kind, '_', ' ');
  const bool known = fit.verdict != MemoryVerdict::unknown;
  page.wrapped_field(
      "memory", is_in_doubt(report) ? Ink::bad : Ink::plain,
      fmt::format("{}{}{}; {} {} ({})", known ? to_string(fit.verdict) : "", known ? ": " : "",
                  details(fit), *largest >= fit.used / 2 ? "most of it" : "largest part:", kind,
                  format(*largest)));
}

std::string brief(const Report& report, Page page) {
  add_answer(report, page);
  add_head(report, page);
  page.blank();
  add_times(report, page);
  if (report.cores) add_cores(*report.cores, page);
  add_breakdown(report, page);
  page.blank();
  add_brief_memory(report, page);
  add_help(report, page);
  add_brief_grounds(report, page);
  return page.text();
}

}  // namespace

std::string to_terminal(const Report& report, int width, bool color, Detail detail) {
  Page page(static_cast<std::size_t>(std::clamp(width, kNarrowestPage, kWidestPage)), color);
  if (detail == Detail::brief) return brief(report, std::move(page));
  add_answer(report, page);
  add_head(report, page);
  page.blank();
  if (rests_on_datasheet(report.compute))
    page.wrapped_field("DATASHEET", Ink::bad,
                       "these times come from peaks and bandwidths of a datasheet: no kernel like "
                       "these was measured on this GPU");
  add_times(report, page);
  if (report.cores) add_cores(*report.cores, page);
  add_other_jobs(report, page);
  add_breakdown(report, page);
  add_collectives(report.collectives, page);
  add_stages(report, page);
  if (report.memory) add_memory(report, *report.memory, page);
  if (report.staleness) add_staleness(report, *report.staleness, page);
  if (report.loss) add_loss(report, page);
  if (report.accuracy) add_accuracy(*report.accuracy, report.accuracy_from, page);
  add_economy(report, page);
  add_grounds(report, page);
  return page.text();
}

}  // namespace rehearse::inline view
