#include "convergence/loss_law.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <sstream>

#include "base/error.hpp"
#include "base/number.hpp"
#include "config/count.hpp"
#include "config/whole_file.hpp"
#include "fit/least_squares.hpp"

namespace rehearse::inline convergence {
namespace {

constexpr std::size_t kFewestRuns = 4;
constexpr double kMostBeyond = 100;  ///< times the compute of the largest run
/// Growth of the 90 % interval for each tenfold of compute beyond the largest run, in ln. The MIT
/// runs of mlfoundations/scaling and resolving-scaling-law-discrepancies, their smallest tenth and
/// hundredth fitted, lie in it with 90 % (tests/convergence/loss_law.cpp).
constexpr double kGrowth = 0.03;
constexpr double kNormalUpper = 1.6449;  ///< that leaves 5 % above
/// A run's own scatter in ln, and how much more of it a tenth of the largest compute counts as:
/// small networks are further from the law than large ones.
constexpr double kScatter = 0.01, kMoreBySize = 1;

/// What is known of such laws before any run: E of text in nats a token (1.69 and 1.82 in two fits
/// of one set of runs, 2404.10102), and powers. They are vague: E is within 20 %.
constexpr double kPriorE = 1.7, kDeviationE = 0.2, kPriorPower = 0.35, kDeviationPower = 0.1;
constexpr double kDeviationPart = 3;

enum Parameter { kLnE, kLnA, kLnB, kAlpha, kBeta, kParameters };

/// Parts of the law about the runs' middle: A and B are what they are there.
std::array<double, 3> parts_at(const Eigen::VectorXd& x, double n, double d) {
  return {std::exp(x(kLnE)), std::exp(x(kLnA)) * std::pow(n, -x(kAlpha)),
          std::exp(x(kLnB)) * std::pow(d, -x(kBeta))};
}

[[noreturn]] void wrong_line(const std::filesystem::path& file, std::size_t line,
                             const std::string& what) {
  throw InputError(
      fmt::format("{}:{}: error: {}\nremedy: columns parameters,tokens,loss; such as "
                  "150M,3B,3.21",
                  file.string(), line, what));
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream text(line);
  for (std::string cell; std::getline(text, cell, ',');) {
    const auto first = cell.find_first_not_of(" \t\r"), last = cell.find_last_not_of(" \t\r");
    cells.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
  }
  return cells;
}

/// Below this share of what was measured a network, or its tokens, is a slip of the pen: "7" in the
/// place of "7B".
constexpr double kLeastShare = 1e-3;

/// "7B" of 7 beside runs of 150M; "" where no prefix brings it near to them.
std::string meant_count(double asked, double known) {
  for (const char* prefix : {"K", "M", "B", "T"}) {
    const std::string text = fmt::format("{:g}{}", asked, prefix);
    const auto count = count_number(text);
    if (count && *count >= known * 0.1) return text;
  }
  return "";
}

/// Why so small a count is none of these runs' kind.
std::optional<std::string> smallness(double asked, double least, const char* of) {
  if (asked >= least * kLeastShare) return std::nullopt;
  const std::string meant = meant_count(asked, least);
  return fmt::format("{} {} are less than a thousandth of the smallest run's {}{}",
                     count_text(asked), of, count_text(least),
                     meant.empty() ? "" : fmt::format(": did you mean {}?", meant));
}

/// Runs of one size, of one length, or any: what a run may differ in from another.
enum class Differs { tokens, parameters, either };

/// ln(loss) of runs over that of those with less: the mean over pairs. Below 0 where more helps.
double rise_of(const std::vector<LossRun>& runs, Differs in) {
  constexpr double kSame = 1.1;
  double sum = 0;
  std::size_t pairs = 0;
  for (const LossRun& less : runs) {
    for (const LossRun& more : runs) {
      const double sizes = more.parameters / less.parameters, lengths = more.tokens / less.tokens;
      const bool grows = sizes >= 1 && lengths >= 1 && sizes * lengths > kSame;
      if (!grows || (in == Differs::tokens && sizes > kSame) ||
          (in == Differs::parameters && lengths > kSame))
        continue;
      sum += std::log(more.loss / less.loss);
      ++pairs;
    }
  }
  return pairs == 0 ? 0 : sum / static_cast<double>(pairs);
}

double spread_of(const std::vector<LossRun>& runs, double LossRun::*member) {
  const auto [least, most] = std::ranges::minmax(runs, {}, member);
  return most.*member / least.*member;
}

}  // namespace

std::vector<LossRun> read_loss_runs(const std::filesystem::path& file) {
  std::istringstream lines(read_whole_file(file));
  const std::array<const char*, 3> names = {"parameters", "tokens", "loss"};
  std::array<std::size_t, 3> columns{};
  std::vector<LossRun> runs;
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::vector<std::string> cells = cells_of(line);
    if (cells.empty() || (cells.size() == 1 && cells.front().empty())) continue;
    if (number == 1) {
      for (std::size_t i = 0; i < names.size(); ++i) {
        const auto found = std::ranges::find(cells, names[i]);
        if (found == cells.end()) wrong_line(file, number, fmt::format("no column {}", names[i]));
        columns[i] = static_cast<std::size_t>(found - cells.begin());
      }
      continue;
    }
    if (cells.size() <= *std::ranges::max_element(columns))
      wrong_line(file, number, "fewer cells than columns");
    const auto parameters = count_number(cells[columns[0]]),
               tokens = count_number(cells[columns[1]]);
    const auto loss = decimal_number(cells[columns[2]]);
    if (!parameters)
      wrong_line(file, number, "parameters: expected a count, not " + cells[columns[0]]);
    if (!tokens) wrong_line(file, number, "tokens: expected a count, not " + cells[columns[1]]);
    if (!loss || *loss <= 0) wrong_line(file, number, "loss: expected a number above 0");
    runs.push_back({*parameters, *tokens, *loss});
  }
  return runs;
}

LossLaw::LossLaw(const std::vector<LossRun>& runs) {
  if (runs.size() < kFewestRuns)
    throw InputError(
        fmt::format("{} runs say too little of a loss: four are the fewest", runs.size()));
  const bool sizes = spread_of(runs, &LossRun::parameters) > 1.1;
  const bool lengths = spread_of(runs, &LossRun::tokens) > 1.1;
  if (!sizes && !lengths)
    throw InputError("all runs have one size and one length: two of either are the fewest");
  for (const auto& [differs, with] :
       {std::pair{Differs::tokens, "tokens"}, std::pair{Differs::parameters, "parameters"},
        std::pair{Differs::either, "compute"}})
    if (const double rise = rise_of(runs, differs); rise > 2 * kScatter)
      throw InputError(
          fmt::format("their loss rises with {}, by {:.1f} % in the mean: a law of "
                      "such losses falls",
                      with, 100 * std::expm1(rise)));
  const auto count = static_cast<Eigen::Index>(runs.size());
  double middle = 0;
  for (const LossRun& run : runs) {
    parameters_ += std::log(run.parameters) / static_cast<double>(count);
    tokens_ += std::log(run.tokens) / static_cast<double>(count);
    middle += run.loss / static_cast<double>(count);
    most_compute_ = std::max(most_compute_, run.parameters * run.tokens);
    least_parameters_ = std::min(least_parameters_, run.parameters);
    least_tokens_ = std::min(least_tokens_, run.tokens);
  }
  parameters_ = std::exp(parameters_);
  tokens_ = std::exp(tokens_);
  const auto scatter = [&](const LossRun& run) {
    const double below = std::log10(most_compute_ / (run.parameters * run.tokens));
    return kScatter * (1 + kMoreBySize * below);
  };
  const auto residuals = [&](const Eigen::VectorXd& x, Eigen::MatrixXd* slope) {
    Eigen::VectorXd off(count + kParameters);
    if (slope != nullptr) *slope = Eigen::MatrixXd::Zero(count + kParameters, kParameters);
    for (Eigen::Index i = 0; i < count; ++i) {
      const LossRun& run = runs[static_cast<std::size_t>(i)];
      const double n = run.parameters / parameters_, d = run.tokens / tokens_;
      auto [e, a, b] = parts_at(x, n, d);
      if (!sizes) a = 0;
      if (!lengths) b = 0;
      const double all = e + a + b, each = scatter(run);
      const fit::Softened soft = fit::softened(std::log(all / run.loss) / each, 3);
      off(i) = soft.value;
      if (slope == nullptr) continue;
      slope->row(i) << e, a, b, -a * std::log(n), -b * std::log(d);
      slope->row(i) *= soft.slope / (all * each);
    }
    const std::array<double, kParameters> mean = {std::log(kPriorE), std::log(middle / 5),
                                                  std::log(middle / 5), kPriorPower, kPriorPower};
    const std::array<double, kParameters> deviation = {kDeviationE, kDeviationPart, kDeviationPart,
                                                       kDeviationPower, kDeviationPower};
    for (Eigen::Index p = 0; p < kParameters; ++p) {
      const auto at = static_cast<std::size_t>(p);
      off(count + p) = (x(p) - mean[at]) / deviation[at];
      if (slope != nullptr) (*slope)(count + p, p) = 1 / deviation[at];
    }
    return off;
  };
  Eigen::VectorXd best;
  double cost = 0;
  for (const double share : {0.3, 0.6, 0.85}) {
    Eigen::VectorXd start(kParameters);
    const double least = std::ranges::min(runs, {}, &LossRun::loss).loss;
    const double part = std::max(0.05, middle - share * least) / (sizes && lengths ? 2 : 1);
    start << std::log(share * least), std::log(part), std::log(part), kPriorPower, kPriorPower;
    const fit::LeastSquares found = fit::least_squares(residuals, start);
    if (best.size() > 0 && found.cost >= cost) continue;
    best = found.solution;
    cost = found.cost;
  }
  E_ = std::exp(best(kLnE));
  alpha_ = best(kAlpha);
  beta_ = best(kBeta);
  A_ = sizes ? std::exp(best(kLnA)) * std::pow(parameters_, alpha_) : 0;
  B_ = lengths ? std::exp(best(kLnB)) * std::pow(tokens_, beta_) : 0;
  double squares = 0;
  for (const LossRun& run : runs) {
    const double off = std::log(value(run.parameters, run.tokens) / run.loss);
    squares += off * off;
  }
  deviation_ = std::sqrt(squares / static_cast<double>(count));
}

double LossLaw::value(double parameters, double tokens) const {
  return E_ + (A_ > 0 ? A_ * std::pow(parameters, -alpha_) : 0) +
         (B_ > 0 ? B_ * std::pow(tokens, -beta_) : 0);
}

double LossLaw::compute_ratio(double parameters, double tokens) const {
  return parameters * tokens / most_compute_;
}

Estimate<double> LossLaw::loss(double parameters, double tokens) const {
  const double best = value(parameters, tokens);
  const double tens = std::max(0.0, std::log10(compute_ratio(parameters, tokens)));
  const double width = std::hypot(kNormalUpper * std::max(deviation_, kScatter), kGrowth * tens);
  return {best, best * std::exp(-width), best * std::exp(width)};
}

double LossLaw::slope(double tokens) const { return beta_ * B_ * std::pow(tokens, -beta_); }

std::optional<std::string> LossLaw::refusal_of(double parameters, double tokens) const {
  if (const auto small = smallness(parameters, least_parameters_, "parameters")) return small;
  if (const auto small = smallness(tokens, least_tokens_, "tokens")) return small;
  if (!by_parameters() && std::abs(std::log(parameters / parameters_)) > 0.1)
    return fmt::format("all runs have {} parameters, which say nothing of {}",
                       count_text(parameters_), count_text(parameters));
  if (!by_tokens() && std::abs(std::log(tokens / tokens_)) > 0.1)
    return fmt::format("all runs have {} tokens, which say nothing of {}", count_text(tokens_),
                       count_text(tokens));
  if (compute_ratio(parameters, tokens) > kMostBeyond)
    return fmt::format("{:.0f} times the compute of the largest run: {:g} times at most",
                       compute_ratio(parameters, tokens), kMostBeyond);
  return std::nullopt;
}

}  // namespace rehearse::inline convergence
