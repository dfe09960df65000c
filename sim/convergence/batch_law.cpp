#include "convergence/batch_law.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace rehearse::inline convergence {
namespace {

constexpr double kUpperShare = 0.95;  ///< below which a 90 % interval ends

double square(double x) { return x * x; }

/// Least squares of (E x + S y) / amount - 1 with neither E nor S below 0.
Eigen::Vector2d not_negative_fit(const Eigen::MatrixX2d& rows) {
  const Eigen::VectorXd ones = Eigen::VectorXd::Ones(rows.rows());
  const Eigen::Vector2d both = (rows.transpose() * rows).ldlt().solve(rows.transpose() * ones);
  if (both.minCoeff() >= 0) return both;
  const int kept = both(0) < 0 ? 1 : 0;
  Eigen::Vector2d one = Eigen::Vector2d::Zero();
  one(kept) = rows.col(kept).sum() / rows.col(kept).squaredNorm();
  return one;
}

}  // namespace

BatchLaw::BatchLaw(const std::vector<ReferencePoint>& points, const BatchLawPrior& prior) {
  const auto [least, most] = std::ranges::minmax(points, {}, &ReferencePoint::batch);
  if (points.size() < 2 || least.batch == most.batch)
    throw InputError("two batches are the fewest that say what a batch costs");
  range_ = {least.batch / kBatchesBeyond, most.batch * kBatchesBeyond};
  const auto n = static_cast<Eigen::Index>(points.size());
  Eigen::MatrixX2d rows(n, 2);
  scale_ = 0;
  for (const ReferencePoint& point : points) scale_ += point.batch / static_cast<double>(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const ReferencePoint& point = points[static_cast<std::size_t>(i)];
    rows.row(i) << 1 / point.amount, point.batch / scale_ / point.amount;
  }
  const Eigen::Vector2d fit = not_negative_fit(rows);
  fewest_ = fit(0);
  slope_ = fit(1) / scale_;
  const Eigen::Matrix2d covariance = (rows.transpose() * rows).inverse();
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) covariance_[i][j] = covariance(i, j);
  double off = 0, runs = 0;
  for (const ReferencePoint& point : points) {
    off += square(std::log((fewest_ + slope_ * point.batch) / point.amount));
    seeds_ += (point.runs - 1) * square(point.deviation);
    runs += point.runs - 1;
  }
  seeds_ = runs > 0 ? seeds_ / runs : 0;
  freedom_ = prior.freedom + static_cast<double>(n - 2);
  variance_ = (prior.freedom * square(prior.deviation) + off) / freedom_;
}

double BatchLaw::critical_batch() const {
  return slope_ > 0 ? fewest_ / slope_ : std::numeric_limits<double>::infinity();
}

Estimate<double> BatchLaw::estimate(double batch, double more_variance) const {
  const double value = fewest_ + slope_ * batch, relative = batch / scale_;
  const double leverage = (covariance_[0][0] + 2 * relative * covariance_[0][1] +
                           square(relative) * covariance_[1][1]) /
                          square(value);
  const double quantile = boost::math::quantile(boost::math::students_t(freedom_), kUpperShare);
  const double width = quantile * std::sqrt(variance_ * (1 + leverage) + more_variance);
  return {value, value * std::exp(-width), value * std::exp(width)};
}

Estimate<double> BatchLaw::mean_amount(double batch) const { return estimate(batch, 0); }

Estimate<double> BatchLaw::amount(double batch) const { return estimate(batch, seeds_); }

}  // namespace rehearse::inline convergence
