#include "convergence/curve_fit.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>

#include "fit/least_squares.hpp"

namespace rehearse::inline convergence {
namespace {

constexpr double kHuberWidth = 2;  // standard deviations
constexpr int kPasses = 4;
constexpr std::size_t kFolds = 10;

/// Least squares with standard deviations as the penalties of `guess` make them.
FittedCurve fit_with(const Spreads& spreads, const std::vector<Sample>& samples,
                     const LearningCurve& guess) {
  const LearningCurvePrior prior = learning_curve_prior();
  std::vector<double> scale;
  scale.reserve(samples.size());
  for (const Sample& sample : samples)
    scale.push_back(sample.weight / spreads.at(log_error(guess, sample.place).penalty));
  const auto count = static_cast<Eigen::Index>(samples.size());
  const auto residuals = [&](const Eigen::VectorXd& at, Eigen::MatrixXd* slope) {
    Eigen::VectorXd all(count + kLearningCurveParameters);
    if (slope) slope->setZero(all.size(), kLearningCurveParameters);
    for (Eigen::Index i = 0; i < count; ++i) {
      const Sample& sample = samples[static_cast<std::size_t>(i)];
      const double by = scale[static_cast<std::size_t>(i)];
      if (!slope) {
        const double off = log_error(at, sample.place).value - sample.log_error;
        all[i] = softened(off * by, kHuberWidth).value;
        continue;
      }
      const LogErrorSlope error = log_error_slope(at, sample.place);
      const Softened soft = softened((error.value - sample.log_error) * by, kHuberWidth);
      all[i] = soft.value;
      slope->row(i) = soft.slope * by * error.slope.transpose();
    }
    all.tail(kLearningCurveParameters) = (at - prior.mean).cwiseQuotient(prior.deviation);
    if (slope)
      slope->bottomRows(kLearningCurveParameters).diagonal() = prior.deviation.cwiseInverse();
    return all;
  };
  const LeastSquares found = least_squares(residuals, guess);
  return {found.solution, found.covariance};
}

/// ln of how likely the residuals are, three standard deviations counting for any more.
double log_likelihood(const std::vector<Sample>& samples, const std::vector<LogError>& fitted,
                      const Spreads& spreads) {
  const auto about = [](double value, double center) {
    const double off = std::log(value / center) / 0.7;
    return -0.5 * off * off;
  };
  double sum = about(spreads.plain, 0.1) + about(spreads.per_penalty, 0.3);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const double spread = spreads.at(fitted[i].penalty);
    const double off = std::min(3.0, std::abs(fitted[i].value - samples[i].log_error) / spread);
    sum -= samples[i].weight * samples[i].weight * (std::log(spread) + 0.5 * off * off);
  }
  return sum;
}

/// The likeliest spreads of a grid.
std::pair<Spreads, double> fit_spreads(const std::vector<Sample>& samples,
                                       const LearningCurve& curve) {
  constexpr int kSteps = 15;
  std::vector<LogError> fitted;
  fitted.reserve(samples.size());
  for (const Sample& sample : samples) fitted.push_back(log_error(curve, sample.place));
  std::pair<Spreads, double> best{{}, -std::numeric_limits<double>::infinity()};
  for (int i = 0; i < kSteps; ++i) {
    for (int j = 0; j < kSteps; ++j) {
      const Spreads spreads{0.02 * std::pow(20, static_cast<double>(i) / (kSteps - 1)),
                            0.05 * std::pow(30, static_cast<double>(j) / (kSteps - 1))};
      const double likelihood = log_likelihood(samples, fitted, spreads);
      if (likelihood > best.second) best = {spreads, likelihood};
    }
  }
  return best;
}

}  // namespace

CurveFit fit_curve(const std::vector<Sample>& samples, const LearningCurve& start) {
  const LearningCurvePrior prior = learning_curve_prior();
  CurveFit fit{.fitted = {.curve = start, .covariance = {}}, .spreads = {}};
  for (int pass = 0; pass < kPasses; ++pass) {
    fit.fitted = fit_with(fit.spreads, samples, fit.fitted.curve);
    std::tie(fit.spreads, fit.log_likelihood) = fit_spreads(samples, fit.fitted.curve);
  }
  fit.log_likelihood -=
      0.5 * (fit.fitted.curve - prior.mean).cwiseQuotient(prior.deviation).squaredNorm();
  return fit;
}

double FittedCurve::unknown_variance(const CurvePlace& place) const {
  const LearningCurve slope = log_error_slope(curve, place).slope;
  return slope.dot(covariance * slope);
}

HeldOut hold_out(const std::vector<Sample>& samples, const CurveFit& fit) {
  HeldOut result;
  double finals = 0, off = 0;
  std::size_t settings = 0;
  for (const Sample& sample : samples) settings = std::max(settings, sample.setting + 1);
  const std::size_t folds = std::min(kFolds, settings);
  for (std::size_t fold = 0; fold < folds && folds > 1; ++fold) {
    const auto left_out = [&](const Sample& sample) { return sample.setting % folds == fold; };
    std::vector<Sample> kept;
    std::ranges::remove_copy_if(samples, std::back_inserter(kept), left_out);
    const FittedCurve without = fit_with(fit.spreads, kept, fit.fitted.curve);
    for (const Sample& sample : samples) {
      if (!left_out(sample)) continue;
      const LogError forecast = log_error(without.curve, sample.place);
      const double spread = fit.spreads.at(forecast.penalty);
      result.deviations.push_back(
          std::abs(forecast.value - sample.log_error) /
          std::sqrt(spread * spread + without.unknown_variance(sample.place)));
      if (!sample.last) continue;
      off += std::abs(std::exp(forecast.value) - std::exp(sample.log_error));
      finals += 1;
    }
  }
  if (finals > 0) result.final_error = off / finals;
  return result;
}

}  // namespace rehearse::inline convergence
