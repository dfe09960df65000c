#include "fit/least_squares.hpp"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace rehearse::inline fit {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int kMostSteps = 100;
constexpr double kTolerance = 1e-8;  // of the cost, relative
constexpr double kMostDamping = 1e12;

/// Goes down from `at` by the first damped step that does; false where none does.
bool descend(const Residuals& residuals, const MatrixXd& normal, const VectorXd& gradient,
             VectorXd& at, double& cost, double& damping) {
  for (; damping < kMostDamping; damping *= 4) {
    MatrixXd damped = normal;
    damped.diagonal() += damping * normal.diagonal();
    const VectorXd next = at - damped.ldlt().solve(gradient);
    const double next_cost = 0.5 * residuals(next, nullptr).squaredNorm();
    if (!(next_cost <= cost)) continue;
    at = next;
    cost = next_cost;
    damping = std::max(damping / 10, 1e-12);
    return true;
  }
  return false;
}

}  // namespace

LeastSquares least_squares(const Residuals& residuals, const VectorXd& start) {
  VectorXd at = start;
  MatrixXd slope;
  VectorXd now = residuals(at, &slope);
  check(now.size() >= at.size() && now.allFinite(), "a fit starts from finite residuals");
  double cost = 0.5 * now.squaredNorm();
  double damping = 1e-3;
  MatrixXd normal;
  for (int step = 0; step < kMostSteps; ++step) {
    normal = slope.transpose() * slope;
    check(normal.diagonal().minCoeff() > 0, "every parameter of a fit has an effect");
    const double before = cost;
    if (!descend(residuals, normal, slope.transpose() * now, at, cost, damping)) break;
    if (before - cost <= kTolerance * before) break;
    now = residuals(at, &slope);
  }
  const auto size = at.size();
  return {at, normal.ldlt().solve(MatrixXd::Identity(size, size)), cost};
}

Softened softened(double residual, double width) {
  const double part = residual / width;
  const double root = std::sqrt(1 + part * part);
  // 2 w^2 (sqrt(1 + p^2) - 1) in a form that is exact near 0.
  return {residual * std::sqrt(2 / (root + 1)), std::sqrt((root + 1) / 2) / root};
}

}  // namespace rehearse::inline fit
