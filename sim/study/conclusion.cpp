#include "study/conclusion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/quantity.hpp"
#include "config/count.hpp"
#include "config/json/json_text.hpp"
#include "report/training_kind.hpp"
#include "view/digits.hpp"

namespace rehearse::inline study {
namespace {

using Json = nlohmann::json;

/// Values that differ by less are not worth a sentence.
constexpr double kSame = 1.02;
/// From here on "2 times", not "100 %".
constexpr double kTimes = 1.995;

/// A point's figures that are compared.
struct Entry {
  std::size_t point = 0;
  std::vector<std::string> labels;
  double samples_per_s = 0, step = 0, ranks = 0, batch = 0;
  std::optional<double> usd{};
  bool has_length = false;  ///< the scenario says how long the training is
  std::string verdict{};    ///< as the report has it; empty: not known
  std::string cluster{};
  TrainingKind kind{};
  std::optional<double> time{};  ///< to equal loss, where that is asked

  bool fits() const { return verdict != "does_not_fit"; }
};

struct Overview {
  std::vector<std::string> axes;
  std::vector<Entry> entries{};
  std::size_t points = 0;
  bool priced = false;  ///< every entry has a price
};

/// Nothing where the report lacks a figure.
std::optional<Entry> entry_of(std::size_t point, const StudyPoint& known, const Json& report) {
  for (const char* key :
       {"samples_per_s", "step_time_s", "ranks", "global_batch", "cluster", "cost", "memory"})
    if (!report.is_object() || !report.contains(key)) return std::nullopt;
  Entry entry{.point = point, .labels = known.labels};
  entry.samples_per_s = report.at("samples_per_s");
  entry.step = report.at("step_time_s");
  entry.ranks = report.at("ranks");
  entry.batch = report.at("global_batch");
  entry.cluster = report.at("cluster");
  const Json &cost = report.at("cost"), &memory = report.at("memory");
  entry.kind = training_kind(report);
  if (entry.kind.like_tokens > 0) entry.time = report.at("train_time_s").get<double>();
  entry.has_length = !cost.is_null();
  if (entry.has_length && !cost.at("usd").is_null()) entry.usd = cost.at("usd").get<double>();
  if (!memory.is_null() && memory.at("verdict").is_string())
    entry.verdict = memory.at("verdict").get<std::string>();
  return entry;
}

Overview overview_of(const ResultStore& store) {
  Overview all{.axes = store.identity().value().axes};
  for (const StudyPoint& point : store.points()) {
    const auto outcome = store.find(point.key);
    if (outcome && outcome->code == ExitCode::success) {
      const Json report = tried_json(outcome->text);
      if (const auto entry = entry_of(all.points, point, report)) all.entries.push_back(*entry);
    }
    ++all.points;
  }
  all.priced = !all.entries.empty() && std::ranges::all_of(all.entries, [](const Entry& one) {
    return one.usd.has_value();
  });
  return all;
}

/// "cluster.nodes 16, strategy fsdp": of axes with several labels.
std::string name_of(const Entry& entry, const Overview& all) {
  std::string text;
  for (std::size_t axis = 0; axis < all.axes.size(); ++axis) {
    const bool varies = std::ranges::any_of(
        all.entries, [&](const Entry& other) { return other.labels[axis] != entry.labels[axis]; });
    if (varies)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", all.axes[axis], entry.labels[axis]);
  }
  return text.empty() ? "the only point" : text;
}

std::string figures_of(const Entry& entry) {
  std::string text = fmt::format("{} a step, {} samples/s", format(Seconds(entry.step)),
                                 rounded(entry.samples_per_s, place_of(entry.samples_per_s, {})));
  if (entry.time)
    text += fmt::format(", {} to the loss of {} plain tokens", format(Seconds(*entry.time)),
                        count_text(entry.kind.like_tokens));
  if (entry.usd) text += fmt::format(", {} USD", rounded(*entry.usd, place_of(*entry.usd, {})));
  return text;
}

const Entry* best_of(const Overview& all, double (*badness)(const Entry&)) {
  const Entry* best = nullptr;
  for (const Entry& one : all.entries)
    if (one.fits() && (best == nullptr || badness(one) < badness(*best))) best = &one;
  return best;
}

/// By time to equal loss where every point has it (all ask for the same), else by samples.
double slowness(const Entry& entry) { return entry.time ? *entry.time : -entry.samples_per_s; }
double price(const Entry& entry) {
  return entry.usd.value_or(std::numeric_limits<double>::infinity());
}

/// By numbers of GPUs, the fastest that fits.
std::map<double, const Entry*> fastest_by_ranks(const Overview& all) {
  std::map<double, const Entry*> fastest;
  for (const Entry& one : all.entries) {
    if (!one.fits()) continue;
    const Entry*& known = fastest[one.ranks];
    if (known == nullptr || one.samples_per_s > known->samples_per_s) known = &one;
  }
  return fastest;
}

void find_knee(const Overview& all, Conclusion& told) {
  const auto fastest = fastest_by_ranks(all);
  if (fastest.size() < 2) return;
  const Entry &first = *fastest.begin()->second, *knee = &first;
  const auto share = [&](const Entry& one) {
    return one.samples_per_s / one.ranks * first.ranks / first.samples_per_s;
  };
  for (const auto& [ranks, entry] : fastest)
    if (share(*entry) >= Conclusion::kWorthwhile) knee = entry;
  told.knee = knee->point;
  std::string text =
      fmt::format("Knee: {:.0f} GPUs, each at {:.0f} % of the throughput per GPU of {:.0f} GPU{}",
                  knee->ranks, 100 * share(*knee), first.ranks, first.ranks == 1 ? "" : "s");
  const auto beyond = std::next(fastest.find(knee->ranks));
  if (beyond != fastest.end())
    text +=
        fmt::format("; {:.0f} GPUs are at {:.0f} %", beyond->first, 100 * share(*beyond->second));
  told.words.push_back(text + ".");
}

/// A label of an axis has it, among points that fit: the mean of ln(value over the best of those
/// that differ in this axis alone), and the largest.
struct Effect {
  double sum = 0, most = 0;
  std::size_t groups = 0;

  double mean() const {
    return std::exp(sum / static_cast<double>(std::max<std::size_t>(1, groups)));
  }
};

std::map<std::string, Effect> effects_of(const Overview& all, std::size_t axis) {
  const auto badness = [&](const Entry& one) {
    return all.priced ? *one.usd : 1 / one.samples_per_s;
  };
  std::map<std::vector<std::string>, std::vector<const Entry*>> groups;
  for (const Entry& one : all.entries) {
    if (!one.fits()) continue;
    std::vector<std::string> others = one.labels;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(axis));
    if (badness(one) > 0) groups[others].push_back(&one);
  }
  std::map<std::string, Effect> effects;
  for (const auto& [others, group] : groups) {
    if (group.size() < 2) continue;
    double best = std::numeric_limits<double>::infinity();
    for (const Entry* one : group) best = std::min(best, badness(*one));
    for (const Entry* one : group) {
      Effect& effect = effects[one->labels[axis]];
      effect.sum += std::log(badness(*one) / best);
      effect.most = std::max(effect.most, badness(*one) / best);
      ++effect.groups;
    }
  }
  return effects;
}

std::string times(double ratio) {
  return ratio < kTimes ? fmt::format("{:.0f} %", 100 * (ratio - 1))
                        : fmt::format("{:.2g} times", ratio);
}

/// "network: 25 GbE costs 13 times as much as 400 GbE (at most 15 times)."
std::string axis_sentence(const Overview& all, std::size_t axis) {
  const auto effects = effects_of(all, axis);
  if (effects.size() < 2) return "";
  const auto by_mean = [](const auto& a, const auto& b) {
    return a.second.mean() < b.second.mean();
  };
  const auto [best, worst] = std::ranges::minmax_element(effects, by_mean);
  const double ratio = worst->second.mean() / best->second.mean();
  if (ratio < kSame) return fmt::format("{}: its values hardly matter.", all.axes[axis]);
  const char* comparison = all.priced ? "costs {} more than" : "takes {} longer than";
  if (ratio >= kTimes) comparison = all.priced ? "costs {} as much as" : "takes {} as long as";
  std::string text = fmt::format("{}: {} {} {}", all.axes[axis], worst->first,
                                 fmt::format(fmt::runtime(comparison), times(ratio)), best->first);
  if (worst->second.groups > 1 && worst->second.most > ratio * 1.1)
    text += fmt::format(" in the mean, at most {}", times(worst->second.most));
  return text + ".";
}

std::string missing_price(const Overview& all) {
  for (const Entry& one : all.entries) {
    if (!one.has_length)
      return "No costs: nobody says how long the training is (train.tokens, train.epochs).";
    if (!one.usd)
      return fmt::format("No price for {}: cluster.usd_per_hour gives one.",
                         one.cluster.empty() ? "the cluster" : one.cluster);
  }
  return "";
}

std::string counts_sentence(const Overview& all) {
  const auto count = [&](const char* verdict) {
    return std::ranges::count(all.entries, verdict, &Entry::verdict);
  };
  const auto failing = count("does_not_fit"), risky = count("at_risk");
  const std::size_t without = all.points - all.entries.size();
  if (failing == 0 && risky == 0 && without == 0) return "";
  std::string text;
  const auto add = [&](std::size_t number, const char* words) {
    if (number > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", number, words);
  };
  add(static_cast<std::size_t>(failing), "do not fit");
  add(static_cast<std::size_t>(risky), "may not fit");
  add(without, "have no result");
  return fmt::format("Of {} points {}.", all.points, text);
}

/// Empty where all train with one global batch, or nobody says for how long.
std::string batches_sentence(const Overview& all) {
  const bool priced = std::ranges::any_of(all.entries, &Entry::has_length);
  const auto [least, most] = std::ranges::minmax(all.entries, {}, &Entry::batch);
  if (!priced || least.batch == most.batch) return "";
  return fmt::format(
      "Global batches of {:.0f} to {:.0f} samples are compared as if every sample "
      "trained as much.",
      least.batch, most.batch);
}

}  // namespace

std::string Conclusion::answer() const {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(2, words.size()); ++i)
    text += (i == 0 ? "" : " ") + words[i];
  return text;
}

Conclusion conclude(const ResultStore& store) {
  const Overview all = overview_of(store);
  Conclusion told;
  const auto add = [&](const std::string& sentence) {
    if (!sentence.empty()) told.words.push_back(sentence);
  };
  const Entry *fastest = best_of(all, slowness), *cheapest = best_of(all, price);
  if (fastest == nullptr) {
    add(all.entries.empty() ? "No point has a result." : "No point fits.");
    add(counts_sentence(all));
    return told;
  }
  told.fastest = fastest->point;
  add(fmt::format("Fastest that fits: {} ({}).", name_of(*fastest, all), figures_of(*fastest)));
  if (cheapest->usd) {
    told.cheapest = cheapest->point;
    add(cheapest == fastest
            ? "It is the cheapest, too."
            : fmt::format("Cheapest: {} ({}).", name_of(*cheapest, all), figures_of(*cheapest)));
  }
  std::vector<TrainingKind> kinds;
  for (const Entry& one : all.entries) kinds.push_back(one.kind);
  add(left_out_line(kinds));
  find_knee(all, told);
  for (std::size_t axis = 0; axis < all.axes.size(); ++axis) add(axis_sentence(all, axis));
  add(batches_sentence(all));
  add(counts_sentence(all));
  add(missing_price(all));
  return told;
}

}  // namespace rehearse::inline study
