#pragma once

#include <string>
#include <vector>

#include "validation/summary.hpp"

namespace rehearse {

/// What people read instead of a report's key: "step time", "peak memory"; the key itself where it
/// has no such words.
std::string metric_words(const std::string& metric);

/// The same of a compared number, and who says so: "accuracy, replay of own log".
std::string metric_words(const ComparedMetric& metric);

/// A metric's value with its unit: "12.3 ms", "1.98 updates", "1133 samples/s".
std::string value_words(const std::string& metric, double value);

// The cells of one compared number; "-" where there is nothing to say.
std::string predicted_words(const ComparedMetric& metric);
std::string measured_words(const ComparedMetric& metric);
/// "11.8 to 12.9 ms"; of a forecast's verdict its odds: "24.0 % fail".
std::string interval_words(const ComparedMetric& metric);
/// "-3.1 %", "+0.12", "0.08", "-0.85 points", "right".
std::string error_words(const ComparedMetric& metric);
std::string inside_words(const ComparedMetric& metric);  ///< "yes" or "no"

/// A summary line of accuracy after its group: by whom, runs, mean and largest error, worst
/// setting, ends and points inside, verdicts; "-" where there is nothing to say.
std::vector<std::string> accuracy_cells(const AccuracySummary& one);
inline const std::vector<std::string> kAccuracyTitles = {
    "by", "runs", "mean off by", "most", "worst setting", "ends in", "points in", "right"};

/// A line of what fits after its set: runs that fit and of these predicted so, the same of runs out
/// of memory, F1 of both.
std::vector<std::string> fit_cells(const FitSummary& one);
inline const std::vector<std::string> kFitTitles = {"fit, and said so", "out of memory, and said so",
                                                    "F1 fits", "F1 out of memory"};

/// A line of what forecasts said of failures after their verdict: runs, how many of them their odds
/// let fail with its standard deviation, and how many did.
std::vector<std::string> failure_cells(const FailureSummary& one);
inline const std::vector<std::string> kFailureTitles = {"runs", "expected to fail", "fail"};

/// A line of a setting after its name: real runs and replays that fail, with the odds that this is
/// chance; mean ends in percent with standard errors, of all runs and of those that train; real
/// ends within their own replays.
std::vector<std::string> setting_cells(const SettingSummary& one);
inline const std::vector<std::string> kSettingTitles = {
    "real fail", "replays fail", "p",       "real ends", "replays end",
    "off by",    "trained real", "replays", "off by",    "within"};

/// A line of rivals after their name: how many, tau-b, regret, who is predicted and who was measured
/// to be the best.
std::vector<std::string> ranking_cells(const RankingSummary& one);
inline const std::vector<std::string> kRankingTitles = {"cases", "tau-b", "regret",
                                                        "predicted best", "best"};

/// "92 % (11 of 12)".
std::string coverage_words(std::size_t inside, std::size_t intervals);

/// "2 cases have no prediction."
std::string failed_words(std::size_t failed);

/// "3 runs on AMD EPYC, 2026-11-20" for the recorded ones of a file; empty if there are none.
std::string measured_on(const CaseFile& file);

}  // namespace rehearse
