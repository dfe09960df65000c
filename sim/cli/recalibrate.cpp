#include "cli/recalibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.hpp"
#include "base/number.hpp"
#include "base/printable.hpp"
#include "cli/options.hpp"
#include "config/output_files.hpp"
#include "foreign/calibrate.hpp"

namespace rehearse::inline cli {
namespace {

const std::string kSpeed = "cluster.speed";
/// So many standard deviations hold 90 % of a normal distribution.
constexpr double kNinety = 1.6449;

/// Seconds of a case's step; 0: it measured none.
double step_of(const ValidationCase& one) {
  const auto found = std::ranges::find(one.measured, "step_time_s", &Measurement::metric);
  return found == one.measured.end() ? 0 : found->value;
}

class Site {
 public:
  void add(const ValidationCase& one) {
    const double step = step_of(one);
    if (step <= 0) return;
    const auto document = Document::load(one.scenario)->with_overrides(one.overrides);
    take_cluster(one, used_cluster(*document));
    const SolvedNumber solved = solve_number(one.scenario, one.overrides, step);
    if (solved.key != kSpeed) {
      tell(fmt::format("{}: left out, as its step depends on {} the most\n", one.name, solved.key));
      return;
    }
    tell(fmt::format("{}: {} of {}\n", one.name, solved.key, solved.value));
    logarithms_.push_back(std::log(decimal_number(solved.value).value()));
    steps_.push_back(solved.shares);
  }

  std::string text() const {
    if (logarithms_.empty())
      throw InputError(
          "rehearse: error: --recalibrate: no step that depends on the GPUs' speed was measured\n"
          "remedy: name cases with step_time_s");
    double mean = 0, squares = 0;
    const auto count = static_cast<double>(logarithms_.size());
    for (const double one : logarithms_) mean += one / count;
    for (const double one : logarithms_) squares += (one - mean) * (one - mean);
    const double half = count > 1 ? std::expm1(kNinety * std::sqrt(squares / (count - 1))) : 0;
    const std::string source = fmt::format(
        "rehearse validate --recalibrate: {:g} measured steps, of which 90 % lie within {:.1f} %",
        count, 100 * half);
    tell(fmt::format("speed {:.4g}: {}\n", std::exp(mean), source));
    return site_text(cluster_, "speed", fmt::format("{:.6g}", std::exp(mean)), steps_, source);
  }

 private:
  void take_cluster(const ValidationCase& one, const std::string& cluster) {
    if (cluster_.empty()) cluster_ = cluster;
    if (!cluster.empty() && cluster == cluster_) return;
    throw InputError(
        fmt::format("rehearse: error: --recalibrate: case \"{}\" runs on {}, others on {}\n"
                    "remedy: name runs of one site, whose machines `use` names",
                    one.name, cluster.empty() ? "machines without a name" : cluster, cluster_));
  }

  std::string cluster_;
  std::vector<double> logarithms_;
  std::vector<std::map<std::string, double>> steps_;
};

}  // namespace

void recalibrate(const std::vector<CaseFile>& files, const std::filesystem::path& file) {
  Site site;
  for (const CaseFile& cases : files)
    for (const ValidationCase& one : cases.cases) site.add(one);
  write_file(file, site.text());
}

}  // namespace rehearse::inline cli
