#include "view/loss_views.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "config/count.hpp"
#include "config/json/json_text.hpp"
#include "view/page.hpp"

namespace rehearse::inline view {
namespace {

using Json = nlohmann::ordered_json;

std::string law_text(const LossLaw& law) {
  std::string text = fmt::format("L = {:.3f}", law.E());
  if (law.by_parameters()) text += fmt::format(" + {:.4g} / N^{:.3f}", law.A(), law.alpha());
  if (law.by_tokens()) text += fmt::format(" + {:.4g} / D^{:.3f}", law.B(), law.beta());
  return text;
}

std::string answer_of(const LossReport& report) {
  return fmt::format("{} parameters on {} tokens come to a loss of {:.3f} ({:.3f} to {:.3f}).",
                     count_text(report.parameters), count_text(report.tokens), report.loss.value,
                     report.loss.low, report.loss.high);
}

double compute_ratio(const LossReport& report) {
  return report.law.compute_ratio(report.parameters, report.tokens);
}

std::string size_text(const LossRun& run) {
  return fmt::format("{} on {} tokens", count_text(run.parameters), count_text(run.tokens));
}

}  // namespace

std::string to_table(const LossReport& report, int width) {
  Page page(static_cast<std::size_t>(width), false);
  page.paragraph(Ink::plain, answer_of(report));
  page.wrapped_field("law", Ink::plain, law_text(report.law) + ", in nats");
  page.wrapped_field("from", Ink::plain,
                     fmt::format("{} runs of your own, {} to {}; the law is off by {:.1f} % there",
                                 report.runs, size_text(report.smallest), size_text(report.largest),
                                 100 * report.law.deviation()));
  page.wrapped_field("compute", Ink::plain,
                     fmt::format("{:.3g} times that of the largest run; the interval grows with it",
                                 compute_ratio(report)));
  if (report.law.by_tokens())
    page.wrapped_field("slope", Ink::plain,
                       fmt::format("-dL/d ln D = {0:.3f} at this length: --set "
                                   "train.like.slope={0:.3f} for a comparison at equal loss",
                                   report.law.slope(report.tokens)));
  return page.text();
}

std::string to_json(const LossReport& report) {
  const auto run = [](const LossRun& one) {
    return Json{{"parameters", one.parameters}, {"tokens", one.tokens}, {"loss", one.loss}};
  };
  const LossLaw& law = report.law;
  return json_text(Json{{"schema", "rehearse.loss/1"},
                        {"answer", answer_of(report)},
                        {"parameters", report.parameters},
                        {"tokens", report.tokens},
                        {"loss", report.loss.value},
                        {"loss_interval", {report.loss.low, report.loss.high}},
                        {"compute_ratio", compute_ratio(report)},
                        {"slope", law.slope(report.tokens)},
                        {"law",
                         {{"E", law.E()},
                          {"A", law.A()},
                          {"alpha", law.alpha()},
                          {"B", law.B()},
                          {"beta", law.beta()},
                          {"deviation", law.deviation()}}},
                        {"runs", report.runs},
                        {"smallest", run(report.smallest)},
                        {"largest", run(report.largest)}},
                   2) +
         "\n";
}

std::string to_csv(const LossReport& report) {
  return fmt::format("parameters,tokens,loss,loss_low,loss_high\n{},{},{},{},{}\n",
                     report.parameters, report.tokens, report.loss.value, report.loss.low,
                     report.loss.high);
}

}  // namespace rehearse::inline view
