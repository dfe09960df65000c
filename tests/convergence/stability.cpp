#include "convergence/stability.hpp"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <deque>
#include <limits>
#include <numbers>

#include "convergence/observed_indices.hpp"

using namespace rehearse;
namespace data = boost::unit_test::data;

BOOST_AUTO_TEST_SUITE(stability_test)
namespace {

double closed_form(std::size_t delay) {
  return 2 * std::sin(std::numbers::pi / (2 * (2 * static_cast<double>(delay) + 1)));
}

/// The independent oracle: the largest root of z^(K+2) - (1 + m - a f) z^(K+1) + m z^K + a (1 - f)
/// sum P(k) z^(K+1-k), by its companion matrix.
double spectral_radius(const Staleness& staleness, double a, const Descent& descent) {
  const auto order = static_cast<Eigen::Index>(staleness.max() + 2);
  Eigen::MatrixXd companion = Eigen::MatrixXd::Zero(order, order);
  companion.bottomLeftCorner(order - 1, order - 1).setIdentity();
  companion(0, 0) = 1 + descent.momentum - a * descent.compensation;
  companion(0, 1) = -descent.momentum;
  for (std::size_t k = 0; k <= staleness.max(); ++k)
    companion(0, static_cast<Eigen::Index>(k)) -=
        a * (1 - descent.compensation) * staleness.share[k];
  return companion.eigenvalues().cwiseAbs().maxCoeff();
}

/// Likewise for the mean of x(t-i) x(t-j): sum over k of P(k) A_k (x) A_k, where A_k is the step
/// with staleness k, and the noise of the curvature on top.
double second_moment_radius(const Staleness& staleness, double a, const Descent& descent) {
  const auto order = static_cast<Eigen::Index>(staleness.max() + 2);
  Eigen::MatrixXd moments = Eigen::MatrixXd::Zero(order * order, order * order);
  for (std::size_t k = 0; k <= staleness.max(); ++k) {
    Eigen::MatrixXd step = Eigen::MatrixXd::Zero(order, order);
    step.bottomLeftCorner(order - 1, order - 1).setIdentity();
    const auto stale = static_cast<Eigen::Index>(k);
    step(0, 0) = 1 + descent.momentum;
    step(0, 1) = -descent.momentum;
    Eigen::VectorXd seen = Eigen::VectorXd::Zero(order);
    seen(0) += descent.compensation;
    seen(stale) += 1 - descent.compensation;
    step.row(0) -= a * seen;
    for (Eigen::Index i = 0; i < order; ++i)
      for (Eigen::Index j = 0; j < order; ++j)
        moments(0, i * order + j) +=
            staleness.share[k] * descent.curvature_noise * a * a * seen(i) * seen(j);
    for (Eigen::Index i = 0; i < order; ++i)
      for (Eigen::Index j = 0; j < order; ++j)
        moments.block(i * order, j * order, order, order) += staleness.share[k] * step(i, j) * step;
  }
  return moments.eigenvalues().cwiseAbs().maxCoeff();
}

/// Plays the recursion for its mean and says how large x is at the end, or when beyond 1e6.
double played(const Staleness& staleness, double a, double momentum, int steps) {
  std::deque<double> x(staleness.max() + 2, 1.0);  // newest first
  for (int step = 0; step < steps && std::abs(x[0]) < 1e6; ++step) {
    double gradient = 0;
    for (std::size_t k = 0; k <= staleness.max(); ++k) gradient += staleness.share[k] * x[k];
    x.push_front(x[0] + momentum * (x[0] - x[1]) - a * gradient);
    x.pop_back();
  }
  return std::abs(x[0]);
}

const Staleness kUnequal{{0.1, 0.0, 0.5, 0.2, 0.0, 0.1, 0.1}};
const Staleness kDistributions[] = {kUnequal, geometric_staleness(4), geometric_staleness(0.5),
                                    nearly_constant_staleness(6.25),
                                    counted_staleness({{0, 3}, {20, 1}})};

}  // namespace

BOOST_DATA_TEST_CASE(the_edge_of_a_constant_staleness_is_2_sin_pi_over_2_2k_plus_1,
                     data::make({0, 1, 2, 3, 7, 15, 63, 400}), delay) {
  const auto k = static_cast<std::size_t>(delay);
  BOOST_TEST(std::abs(stability_edge(constant_staleness(k)) / closed_form(k) - 1) < 1e-9);
}

BOOST_DATA_TEST_CASE(the_recursion_itself_dies_1_percent_below_the_edge_and_grows_1_percent_above,
                     data::make({0, 1, 3, 7, 15}) * data::make({0.0, 0.5, 0.9}), delay, momentum) {
  const Staleness staleness = constant_staleness(static_cast<std::size_t>(delay));
  const double edge = stability_edge(staleness, {momentum});
  BOOST_TEST(played(staleness, 0.99 * edge, momentum, 60000) < 1e-3);
  BOOST_TEST(played(staleness, 1.01 * edge, momentum, 60000) > 1e3);
}

BOOST_DATA_TEST_CASE(the_largest_root_of_the_mean_lies_on_the_circle_at_its_edge,
                     data::make({0.0, 0.3, 0.9, 0.99}), momentum) {
  for (const Staleness& staleness : kDistributions) {
    const double edge = mean_stability_edge(staleness, {momentum});
    BOOST_TEST(std::abs(spectral_radius(staleness, edge, {momentum}) - 1) < 1e-6);
    for (const double share : {0.01, 0.1, 0.5, 0.9, 0.999})  // nor does it leave the circle before
      BOOST_TEST(spectral_radius(staleness, share * edge, {momentum}) < 1);
    BOOST_TEST(spectral_radius(staleness, 1.001 * edge, {momentum}) > 1);
  }
}

BOOST_DATA_TEST_CASE(the_mean_square_neither_dies_nor_grows_at_the_edge,
                     data::make({0.0, 0.3, 0.9}) * data::make({0.0, 0.5, 3.0}), momentum, noise) {
  const Descent descent{momentum, noise};
  for (const Staleness& staleness :
       {kUnequal, nearly_constant_staleness(2.5), counted_staleness({{0, 3}, {5, 1}})}) {
    const double edge = stability_edge(staleness, descent);
    BOOST_TEST(std::abs(second_moment_radius(staleness, edge, descent) - 1) < 1e-6);
    BOOST_TEST(edge <= mean_stability_edge(staleness, descent));
  }
}

// q = mean / (1 + mean) = 0.8: 2 (1 + 0.8) / (1 - 0.8) = 18.
BOOST_AUTO_TEST_CASE(a_geometric_staleness_is_momentum_to_the_mean_but_not_to_the_mean_square) {
  BOOST_TEST(std::abs(mean_stability_edge(geometric_staleness(4)) - 18) < 1e-6);
  BOOST_TEST(stability_edge(geometric_staleness(4)) < 1);
}

BOOST_AUTO_TEST_CASE(fresh_gradients_with_momentum_are_stable_up_to_2_times_1_plus_m) {
  for (const double momentum : {0.0, 0.5, 0.9, 0.99}) {
    const double edge = stability_edge(constant_staleness(0), {momentum});
    BOOST_TEST(std::abs(edge / (2 * (1 + momentum)) - 1) < 1e-9);
  }
}

BOOST_AUTO_TEST_CASE(curvature_that_differs_from_batch_to_batch_leaves_2_over_1_plus_c) {
  for (const double noise : {0.25, 1.0, 4.0}) {
    const double edge = stability_edge(constant_staleness(0), {0, noise});
    BOOST_TEST(std::abs(edge * (1 + noise) / 2 - 1) < 1e-9);
  }
}

BOOST_AUTO_TEST_CASE(momentum_shrinks_the_edge_of_stale_gradients) {
  double before = std::numeric_limits<double>::infinity();
  for (const double momentum : {0.0, 0.3, 0.6, 0.9, 0.99}) {
    const double edge = stability_edge(constant_staleness(4), {momentum});
    BOOST_TEST(edge < before);
    before = edge;
  }
}

BOOST_AUTO_TEST_CASE(more_staleness_shrinks_the_edge) {
  for (std::size_t k = 0; k < 30; ++k)
    BOOST_TEST(stability_edge(constant_staleness(k + 1)) < stability_edge(constant_staleness(k)));
  BOOST_TEST(stability_edge(geometric_staleness(8)) < stability_edge(geometric_staleness(4)));
}

BOOST_AUTO_TEST_CASE(noise_of_fresh_gradients_adds_up_to_1_over_a_2_minus_a) {
  for (const double a : {0.01, 0.5, 1.0, 1.9})
    BOOST_TEST(std::abs(noise_gain(constant_staleness(0), a) * a * (2 - a) - 1) < 1e-9);
}

// x(t+1) = x(t) - a x(t-1) + noise is an autoregression with the coefficients 1 and -a, whose
// variance is (1 + a) / ((1 - a) a (2 + a)) (Box, Jenkins, "Time series analysis", 3.2.4).
BOOST_AUTO_TEST_CASE(noise_of_gradients_one_update_old_adds_up_as_an_autoregression_does) {
  for (const double a : {0.01, 0.3, 0.9, 0.99}) {
    const double expected = (1 + a) / ((1 - a) * a * (2 + a));
    BOOST_TEST(std::abs(noise_gain(constant_staleness(1), a) / expected - 1) < 1e-9);
  }
}

BOOST_AUTO_TEST_CASE(noise_grows_without_bound_towards_the_edge) {
  const double edge = stability_edge(kUnequal);
  BOOST_TEST(noise_gain(kUnequal, 0.999 * edge) > 10 * noise_gain(kUnequal, 0.9 * edge));
  BOOST_TEST(std::isinf(noise_gain(kUnequal, edge)));
}

// --- delay compensation

// x(t+1) = x(t) - a (f x(t) + (1-f) x(t-1)): z^2 - (1 - a f) z + a (1 - f) has its roots inside the
// circle while a (1 - f) < 1 and 2 + a (1 - 2 f) > 0 (Jury).
BOOST_DATA_TEST_CASE(one_update_late_and_compensated_is_stable_up_to_its_closed_form,
                     data::make({0.0, 0.25, 0.5, 0.7, 0.75, 0.8, 0.99, 1.0, 1.5}), part) {
  const double complex_pair = part < 1 ? 1 / (1 - part) : std::numeric_limits<double>::infinity();
  const double sign = part > 0.5 ? 2 / (2 * part - 1) : std::numeric_limits<double>::infinity();
  const double edge = stability_edge(constant_staleness(1),
                                     {.momentum = 0, .curvature_noise = 0, .compensation = part});
  BOOST_TEST(std::abs(edge / std::min(complex_pair, sign) - 1) < 1e-9);
}

BOOST_DATA_TEST_CASE(what_is_compensated_exactly_is_as_stable_as_what_is_fresh,
                     data::make({0.0, 0.3, 0.9}) * data::make({0.0, 0.5, 3.0}), momentum, noise) {
  const double fresh = stability_edge(constant_staleness(0), {momentum, noise});
  for (const Staleness& staleness : kDistributions) {
    const double edge = stability_edge(staleness, {momentum, noise, 1});
    BOOST_TEST(std::abs(edge / fresh - 1) < 1e-9);
  }
}

BOOST_DATA_TEST_CASE(compensated_means_and_mean_squares_neither_die_nor_grow_at_their_edges,
                     data::make({0.0, 0.9}) * data::make({0.0, 0.5}) * data::make({0.2, 0.6, 1.4}),
                     momentum, noise, part) {
  const Descent descent{momentum, noise, part};
  for (const Staleness& staleness :
       {kUnequal, nearly_constant_staleness(2.5), counted_staleness({{0, 3}, {5, 1}})}) {
    const double mean = mean_stability_edge(staleness, descent);
    BOOST_TEST(std::abs(spectral_radius(staleness, mean, descent) - 1) < 1e-6);
    const double edge = stability_edge(staleness, descent);
    BOOST_TEST(std::abs(second_moment_radius(staleness, edge, descent) - 1) < 1e-6);
  }
}

BOOST_AUTO_TEST_CASE(the_more_is_compensated_the_less_noise_adds_up) {
  double before = std::numeric_limits<double>::infinity();
  for (const double part : {0.0, 0.2, 0.4, 0.6, 0.8, 1.0}) {
    const double gain = noise_gain(kUnequal, 0.1, {0.5, 0.5, part});
    BOOST_TEST(gain < before);
    before = gain;
  }
}

// Its edge is 2 (1 + q) / (1 - q) = 10 at a mean staleness of 2, that of a constant 2 0.618.
BOOST_AUTO_TEST_CASE(the_gain_of_a_spread_is_the_edge_of_the_distribution_over_that_of_its_mean) {
  TrainingSetting setting{.staleness = geometric_staleness(2), .learning_rate = 0.05};
  const Slowing spread = slowing_of(setting, 0);
  BOOST_TEST(std::abs(spread.spread_gain / (10 / closed_form(2)) - 1) < 1e-6);
  BOOST_TEST(place_of(setting, spread, 100, 1, 0.9).spread_gain == spread.spread_gain);
  for (const double order_factor : {1.0, 0.5}) {
    setting.staleness = constant_staleness(3);
    const Slowing constant = slowing_of(setting, 0, order_factor);
    BOOST_TEST(std::abs(constant.spread_gain - 1) < 1e-9);
    BOOST_TEST(std::abs(constant.index - 0.05 / closed_form(3) / order_factor) < 1e-9);
  }
}

BOOST_AUTO_TEST_SUITE_END()
