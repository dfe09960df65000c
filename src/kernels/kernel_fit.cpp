#include "kernels/kernel_fit.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.hpp"
#include "fit/least_squares.hpp"

namespace rehearse::inline kernels {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

/// ln(predicted / measured) from which a point counts less.
constexpr double kOutlier = 0.1;
/// How far off its start a number may be for as much as a point that is off by kOutlier: e.
constexpr double kPull = 0.1;

/// ln of predicted over measured, of every point, with numbers given by their logarithms.
using Errors = std::function<VectorXd(const VectorXd& numbers)>;

double median(std::vector<double> values) {
  check(!values.empty(), "a median of no values");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

/// The softened errors, and each number's distance from its start.
VectorXd with_pull(const Errors& errors, const VectorXd& numbers, const VectorXd& start) {
  const VectorXd plain = errors(numbers);
  VectorXd all(plain.size() + numbers.size());
  for (Eigen::Index i = 0; i < plain.size(); ++i) all[i] = softened(plain[i], kOutlier).value;
  all.tail(numbers.size()) = kPull * (numbers - start);
  return all;
}

VectorXd solve(const Errors& errors, const VectorXd& start) {
  constexpr double kStep = 1e-3;
  const Residuals residuals = [&](const VectorXd& at, MatrixXd* slope) {
    const VectorXd now = with_pull(errors, at, start);
    if (slope == nullptr) return now;
    slope->resize(now.size(), at.size());
    for (Eigen::Index i = 0; i < at.size(); ++i) {
      VectorXd above = at, below = at;
      above[i] += kStep;
      below[i] -= kStep;
      slope->col(i) =
          (with_pull(errors, above, start) - with_pull(errors, below, start)) / (2 * kStep);
    }
    return now;
  };
  return least_squares(residuals, start).solution;
}

/// Of errors at unseen points: |predicted / measured - 1|.
KernelError error_of(const std::string& family, const std::vector<double>& logarithms) {
  std::vector<double> sizes;
  double sum = 0, bias = 0;
  for (const double one : logarithms) {
    sizes.push_back(std::abs(std::expm1(one)));
    sum += sizes.back();
    bias += std::expm1(one);
  }
  std::ranges::sort(sizes);
  const auto count = static_cast<double>(sizes.size());
  const auto at = static_cast<std::size_t>(std::ceil(0.9 * count)) - 1;
  return {.family = family,
          .of = "",
          .unseen = "shape",
          .source = "calibrate kernels",
          .points = count,
          .mean = sum / count,
          .median = median(sizes),
          .p90 = sizes[at],
          .bias = bias / count};
}

/// ln(predicted / measured) of each point, by a fit to all others; of one point, by the start.
template <class Point, class Curve>
std::vector<double> left_out(const std::vector<Point>& points,
                             const std::function<Curve(const std::vector<Point>&)>& fit,
                             const std::function<double(const Curve&, const Point&)>& error) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < points.size(); ++i) {
    std::vector<Point> others = points;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    errors.push_back(error(fit(others), points[i]));
  }
  return errors;
}

double off(const ProductCurve& curve, const KernelDevice& device, const ProductPoint& point) {
  return std::log(product_time(curve, device, point.size, point.moved) / point.time);
}

double off(const AttentionPass& pass, const KernelDevice& device, const AttentionPoint& point) {
  return std::log(attention_time(pass, device, point.size, point.backward) / point.time);
}

ProductCurve product_curve(const VectorXd& numbers, ProductCurve curve) {
  curve.launch = Seconds(std::exp(numbers[0]));
  curve.share = std::exp(numbers[1]);
  curve.traffic = std::exp(numbers[2]);
  curve.prologue = std::exp(numbers[3]);
  curve.small_tiles = std::exp(numbers[4]);
  return curve;
}

AttentionPass attention_pass(const VectorXd& numbers, AttentionPass pass) {
  pass.launch = Seconds(std::exp(numbers[0]));
  pass.share = std::exp(numbers[1]);
  pass.keys = std::exp(numbers[2]);
  pass.traffic = std::exp(numbers[3]);
  return pass;
}

VectorXd logarithms(std::initializer_list<double> values) {
  VectorXd result(static_cast<Eigen::Index>(values.size()));
  Eigen::Index i = 0;
  for (const double value : values) result[i++] = std::log(value);
  return result;
}

}  // namespace

ProductFit fit_products(const std::vector<ProductPoint>& points, const KernelDevice& device,
                        const ProductCurve& start, const std::string& family) {
  const VectorXd from = logarithms(
      {start.launch.value(), start.share, start.traffic, start.prologue, start.small_tiles});
  const std::function<ProductCurve(const std::vector<ProductPoint>&)> fit =
      [&](const std::vector<ProductPoint>& seen) {
        const Errors errors = [&](const VectorXd& numbers) {
          const ProductCurve curve = product_curve(numbers, start);
          VectorXd all(static_cast<Eigen::Index>(seen.size()));
          for (std::size_t i = 0; i < seen.size(); ++i)
            all[static_cast<Eigen::Index>(i)] = off(curve, device, seen[i]);
          return all;
        };
        return product_curve(solve(errors, from), start);
      };
  const std::function<double(const ProductCurve&, const ProductPoint&)> error =
      [&](const ProductCurve& curve, const ProductPoint& point) {
        return off(curve, device, point);
      };
  return {fit(points), error_of(family, left_out(points, fit, error))};
}

AttentionFit fit_attention(const std::vector<AttentionPoint>& points, const KernelDevice& device,
                           const AttentionPass& start, const std::string& family) {
  const VectorXd from = logarithms({start.launch.value(), start.share, start.keys, start.traffic});
  const std::function<AttentionPass(const std::vector<AttentionPoint>&)> fit =
      [&](const std::vector<AttentionPoint>& seen) {
        const Errors errors = [&](const VectorXd& numbers) {
          const AttentionPass pass = attention_pass(numbers, start);
          VectorXd all(static_cast<Eigen::Index>(seen.size()));
          for (std::size_t i = 0; i < seen.size(); ++i)
            all[static_cast<Eigen::Index>(i)] = off(pass, device, seen[i]);
          return all;
        };
        return attention_pass(solve(errors, from), start);
      };
  const std::function<double(const AttentionPass&, const AttentionPoint&)> error =
      [&](const AttentionPass& pass, const AttentionPoint& point) {
        return off(pass, device, point);
      };
  return {fit(points), error_of(family, left_out(points, fit, error))};
}

BandwidthFit fit_memory(const std::vector<MemoryPoint>& points, Seconds launch, double bandwidth,
                        const std::string& family) {
  // A kernel that takes hardly more than a launch says nothing of bytes.
  const auto share_of = [&](const MemoryPoint& point) {
    const Seconds moving = std::max(point.time - launch, 0.2 * point.time);
    return point.moved.value() / (bandwidth * moving.value());
  };
  std::vector<double> shares;
  for (const MemoryPoint& point : points) shares.push_back(share_of(point));
  std::vector<double> errors;
  for (std::size_t i = 0; i < points.size(); ++i) {
    std::vector<double> others = shares;
    if (others.size() > 1) others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const Seconds told = launch + Seconds(points[i].moved.value() / (bandwidth * median(others)));
    errors.push_back(std::log(told / points[i].time));
  }
  return {median(shares), error_of(family, errors)};
}

double role_share(const std::vector<ProductPoint>& points, const KernelDevice& device,
                  const ProductCurve& forward) {
  std::vector<double> ratios;
  for (const ProductPoint& point : points) ratios.push_back(std::exp(off(forward, device, point)));
  return median(ratios);
}

}  // namespace rehearse::inline kernels
