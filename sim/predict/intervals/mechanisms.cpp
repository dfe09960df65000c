#include "predict/intervals/mechanisms.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "collective/collective_cost.hpp"
#include "predict/intervals/interval_errors.hpp"
#include "predict/intervals/interval_facts.hpp"
#include "report/anatomy.hpp"
#include "report/common_errors.hpp"
#include "report/run_facts.hpp"
#include "report/work.hpp"
#include "scenario/speed_spread.hpp"

namespace rehearse::inline prediction {
namespace {

using Shares = std::map<std::string, double>;

/// A smaller share comes from rounding.
constexpr double kNoShare = 1e-9;

/// Kernels whose times rest on the same thing: those of a family, and all that passes over memory.
std::string kernels_of(CostFamily family) {
  switch (family) {
    case CostFamily::products:
    case CostFamily::narrow_products:
    case CostFamily::attention:
      return to_string(family);
    case CostFamily::convolutions:
    case CostFamily::depthwise:
      return to_string(CostFamily::convolutions);
    default:
      return "passes over memory";
  }
}

/// Whether its time is that of its bytes at the GPU's memory bandwidth, whatever was fitted.
bool is_copied(CostFamily family) {
  return family == CostFamily::embeddings || family == CostFamily::pooling ||
         family == CostFamily::copies || family == CostFamily::optimizer;
}

std::string mechanism_of(const FamilyReport& family, const Scenario& scenario) {
  const std::string kernels = kernels_of(family.family);
  if (scenario.run.efficiency.matrix) return "kernels as stated";
  if (family.ground == CostGround::fitted) return kernels;
  if (family.ground == CostGround::carried_over) return kernels + ", carried over";
  const bool known = std::ranges::all_of(scenario.cluster.groups, [](const NodeGroup& group) {
    return group.node.gpus == 0 || group.node.gpu.kernels.has_value();
  });
  return known && is_copied(family.family) ? kernels : kernels + ", datasheet";
}

/// Of a step's compute; the optimizer's time is a step's, that of others a micro-batch's.
Shares shares_of_kernels(const Scenario& scenario, const std::vector<ComputeReport>& compute) {
  const int micro_batches = gradient_accumulation(scenario.strategy).value_or(1);
  Shares shares;
  double whole = 0;
  for (const ComputeReport& gpu : compute) {
    for (const FamilyReport& family : gpu.families) {
      const int times = family.family == CostFamily::optimizer ? 1 : micro_batches;
      const double time = times * family.total().value();
      shares[mechanism_of(family, scenario)] += time;
      whole += time;
    }
  }
  for (auto& [name, share] : shares) share /= whole > 0 ? whole : 1;
  return shares;
}

std::string exchanges_of(const Cluster& cluster) {
  if (!has_fast_links(cluster)) return "exchanges over PCIe or TCP";
  return cluster.node_count() == 1 ? "exchanges in a node" : "exchanges between nodes";
}

/// Of ranks whose speed nobody states, beside others of their kind.
double slowest(const Scenario& scenario, const Schedule& schedule) {
  const std::vector<Straggler>& stated = scenario.run.stragglers;
  double slowdown = 1;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    if (std::ranges::find(stated, rank, &Straggler::rank) == stated.end())
      slowdown =
          std::max(slowdown, schedule.ranks[rank].slowdown *
                                 scenario.cluster.node(schedule.ranks[rank].place.node).speed);
  return slowdown;
}

/// ln(step) of two steps, as what their errors have in common.
double common(const std::map<std::string, double>& first,
              const std::map<std::string, double>& second) {
  double sum = 0;
  for (const auto& [name, width] : first)
    if (const auto found = second.find(name); found != second.end()) sum += width * found->second;
  return sum;
}

/// The share of the half-width that steps leave which were measured on the same machines: that of a
/// normal distribution, given sums with it (Rasmussen and Williams 2006, Gaussian Processes for
/// Machine Learning, equation 2.19). Each of these steps has an error of its own, too.
double left_by(const std::vector<std::map<std::string, double>>& measured,
               const std::vector<Mechanism>& mechanisms) {
  std::map<std::string, double> widths;
  for (const Mechanism& one : mechanisms)
    if (one.name != kOwnError) widths[one.name] = one.width();
  const double before = common(widths, widths);
  if (measured.empty() || before <= 0) return 1;
  std::vector<std::map<std::string, double>> steps = measured;
  for (auto& step : steps)
    for (auto& [name, share] : step) share *= interval_error(IntervalOf::times, name);
  const auto count = static_cast<Eigen::Index>(steps.size());
  const double own = interval_error(IntervalOf::times, kOwnError);
  Eigen::MatrixXd among(count, count);
  Eigen::VectorXd with(count);
  for (Eigen::Index i = 0; i < count; ++i) {
    steps[i].erase(kOwnError);
    with(i) = common(widths, steps[i]);
    for (Eigen::Index j = 0; j <= i; ++j) among(i, j) = among(j, i) = common(steps[i], steps[j]);
    among(i, i) += own * own;
  }
  const double told = with.dot(among.ldlt().solve(with));
  return std::sqrt(std::max(0.0, 1 - told / before));
}

Headline at(const Headline& best, double factor) {
  Headline end = best;
  end.step_time = best.step_time * factor;
  end.samples_per_s = best.samples_per_s / factor;
  if (best.worker_step_time) end.worker_step_time = *best.worker_step_time * factor;
  return end;
}

}  // namespace

bool has_mechanisms(const Schedule& schedule, const std::vector<StepCosts>& costs) {
  return is_computed(costs) && !has_updates(schedule);
}

std::vector<Mechanism> mechanisms_of(const Scenario& scenario, const RunFacts& facts,
                                     const std::vector<StepCosts>& costs) {
  const Schedule& schedule = facts.schedule;
  const Anatomy anatomy = anatomy_of(facts);
  const Breakdown& parts = anatomy.breakdown;
  const Seconds busy = parts.compute + parts.exposed_communication;
  if (busy <= Seconds(0)) return {};
  const double device = 1 - schedule.host_share;
  const double compute = device * (parts.compute / busy);
  std::vector<Mechanism> mechanisms;
  const auto add = [&](const std::string& name, double share) {
    if (share > kNoShare)
      mechanisms.push_back(
          {.name = name, .share = share, .error = interval_error(IntervalOf::times, name)});
  };
  for (const auto& [name, share] : shares_of_kernels(scenario, facts.compute))
    add(name, compute * share);
  const StepCosts& least_known = std::ranges::max(costs, {}, &StepCosts::outside_error);
  if (compute > 0 && least_known.outside_error > 0)
    mechanisms.push_back({.name = "kernels beyond measurements",
                          .share = compute,
                          .error = least_known.outside_error});
  if (scenario.model.active_parameters() < scenario.model.parameters()) add("experts", compute);
  if (trains_adapters(scenario.model)) add("adapters", compute);
  add(scenario.run.efficiency.host_launch ? "the host's launches as stated" : "the host's launches",
      schedule.host_share);
  if (const double share = device * (parts.exposed_communication / busy); share > 0) {
    add(exchanges_of(scenario.cluster), share);
    mechanisms.back().whole =
        (parts.exposed_communication + parts.hidden_communication) / anatomy.step *
        std::exp(has_fast_links(scenario.cluster) ? kDerivedError : kLinksError);
  }
  add("waiting", parts.idle / anatomy.step);
  if (scenario.run.usual_spread) add("unlike GPUs", std::log(slowest(scenario, schedule)));
  add("machine and software", 1);
  add(kOwnError, 1);
  const double left = left_by(scenario.cluster.measured_steps, mechanisms);
  for (Mechanism& one : mechanisms)
    if (one.name != kOwnError) one.error *= left;
  std::ranges::stable_sort(mechanisms, std::ranges::greater{}, &Mechanism::width);
  return mechanisms;
}

std::optional<ErrorSource> run_queue_source(const Cluster& cluster, const Headline& best,
                                            double computing, double ready) {
  if (!cluster.run_queue) return std::nullopt;
  const Cluster::RunQueue& queue = *cluster.run_queue;
  const double then = static_cast<double>(queue.ranks * queue.threads_per_rank) / queue.cores;
  const double now = cluster.core_load()->on_each();
  const double others = queue.ready / queue.step * std::max(1.0, now / then);
  const double more = std::hypot(others, kReadyError * ready);
  const double unplayed =
      cluster.shared_cores ? 0 : computing * (std::max(1.0, now / std::max(1.0, then)) - 1);
  if (more <= kNoShare && unplayed <= 0) return std::nullopt;
  return ErrorSource{"threads ready without a core", at(best, 1 / (1 + more)), best,
                     at(best, 1 + more + unplayed)};
}

std::vector<ErrorSource> error_sources(const std::vector<Mechanism>& mechanisms,
                                       const Headline& best) {
  std::vector<ErrorSource> sources;
  for (const Mechanism& one : mechanisms)
    sources.push_back({one.name, at(best, std::exp(-one.width())), best, at(best, one.upper())});
  return sources;
}

std::vector<Mechanism> simulated_mechanisms(const std::vector<ErrorSource>& sources,
                                            const std::vector<Mechanism>& mechanisms) {
  std::vector<Mechanism> found;
  for (const ErrorSource& source : sources) {
    if (std::ranges::find(mechanisms, source.name, &Mechanism::name) != mechanisms.end()) continue;
    const double width = std::log(source.high.step_time / source.low.step_time) / 2;
    if (width != 0) found.push_back({.name = source.name, .share = 1, .error = std::abs(width)});
  }
  return found;
}

}  // namespace rehearse::inline prediction
