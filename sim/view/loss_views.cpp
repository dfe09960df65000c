#include "view/loss_views.hpp"

#include <fmt/format.h>

#include <tuple>

#include "config/count.hpp"
#include "config/json/json_record.hpp"
#include "config/json/json_text.hpp"
#include "view/page.hpp"

namespace rehearse::inline view {
namespace {

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

struct LawPart {
  const LossLaw* law;
};
constexpr auto json_fields(const LawPart*) {
  using One = LawPart;
  return std::tuple(derived<One>("E", [](const One& one) { return one.law->E(); }),
                    derived<One>("A", [](const One& one) { return one.law->A(); }),
                    derived<One>("alpha", [](const One& one) { return one.law->alpha(); }),
                    derived<One>("B", [](const One& one) { return one.law->B(); }),
                    derived<One>("beta", [](const One& one) { return one.law->beta(); }),
                    derived<One>("deviation", [](const One& one) { return one.law->deviation(); }));
}

/// A run as this document has it.
struct RunPart {
  double parameters = 0, tokens = 0, loss = 0;
};
constexpr auto json_fields(const RunPart*) {
  return std::tuple(field("parameters", &RunPart::parameters), field("tokens", &RunPart::tokens),
                    field("loss", &RunPart::loss));
}
RunPart part_of(const LossRun& run) { return {run.parameters, run.tokens, run.loss}; }

}  // namespace

constexpr auto json_fields(const LossReport*) {
  using One = LossReport;
  return std::tuple(constant<One>("schema", "rehearse.loss/1"), derived<One>("answer", answer_of),
                    field("parameters", &One::parameters), field("tokens", &One::tokens),
                    derived<One>("loss", [](const One& one) { return one.loss.value; }),
                    derived<One>("loss_interval",
                                 [](const One& one) {
                                   return Ends<double>{one.loss.low, one.loss.high};
                                 }),
                    derived<One>("compute_ratio", compute_ratio),
                    derived<One>("slope", [](const One& one) { return one.law.slope(one.tokens); }),
                    derived<One>("law", [](const One& one) { return LawPart{&one.law}; }),
                    field("runs", &One::runs),
                    derived<One>("smallest", [](const One& one) { return part_of(one.smallest); }),
                    derived<One>("largest", [](const One& one) { return part_of(one.largest); }));
}

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
                       fmt::format("-dL/d ln D = {:.3f} at this length: --like data-parallel:{} "
                                   "--set train.like.slope={:.3f} compares at equal loss",
                                   report.law.slope(report.tokens), count_text(report.tokens),
                                   report.law.slope(report.tokens)));
  return page.text();
}

std::string to_json(const LossReport& report) { return json_text(to_json_value(report), 2) + "\n"; }

OrderedJson loss_schema() {
  return titled_schema("A loss by runs of one's own (rehearse.loss/1)", json_schema<LossReport>());
}

std::string to_csv(const LossReport& report) {
  return fmt::format("parameters,tokens,loss,loss_low,loss_high\n{},{},{},{},{}\n",
                     report.parameters, report.tokens, report.loss.value, report.loss.low,
                     report.loss.high);
}

}  // namespace rehearse::inline view
