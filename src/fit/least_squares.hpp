#pragma once

#include <Eigen/Core>
#include <functional>

namespace rehearse::inline fit {

struct LeastSquares {
  Eigen::VectorXd solution;
  /// Inverse of J^T J at the solution: the covariance, where residuals are in standard deviations.
  Eigen::MatrixXd covariance;
  double cost = 0;  ///< half the sum of squares there
};

/// Residuals at some parameters; and their Jacobian, a row for each residual and a column for each
/// parameter, where it is asked for (not null).
using Residuals = std::function<Eigen::VectorXd(const Eigen::VectorXd& at, Eigen::MatrixXd* slope)>;

/// Minimises half the sum of squares of `residuals` from `start` by Levenberg and Marquardt's
/// method (Nocedal, Wright, "Numerical optimization", 10.3). There must be as many residuals as
/// parameters at least, each sensitive to none or more of them but no parameter without effect
/// (InternalError), and they must be finite at `start`; steps to where they are not are not taken.
LeastSquares least_squares(const Residuals& residuals, const Eigen::VectorXd& start);

/// A residual whose square is Huber's loss, smoothed: itself where small, and growing with the root
/// of |r| from `width` on; and how much of a small change of the residual is left of it.
struct Softened {
  double value = 0, slope = 1;
};
Softened softened(double residual, double width);

}  // namespace rehearse::inline fit
