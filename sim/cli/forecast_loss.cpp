#include "cli/forecast_loss.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "cli/options.hpp"
#include "config/count.hpp"
#include "view/loss_views.hpp"

namespace rehearse::inline cli {
namespace {

double parse_count(const std::string& text) {
  if (const std::optional<double> count = count_number(text)) return *count;
  throw InputError(fmt::format("expected a count such as 7B or 300B; got \"{}\"", text));
}

LossLaw fitted_law(const std::vector<LossRun>& runs, const std::filesystem::path& file) {
  try {
    return LossLaw(runs);
  } catch (const InputError& wrong) {
    throw InputError(
        fmt::format("{}: error: {}\nremedy: four runs of two sizes or lengths and "
                    "more, each with its final loss, columns parameters,tokens,loss",
                    file.string(), wrong.what()));
  }
}

}  // namespace

void add_loss_question(CLI::App& app, LossQuestion& question) {
  CLI::Option* const loss = add(app, "--loss", question.runs,
                                "Instead: the loss of a language model, from your own runs\n"
                                "(CSV: parameters,tokens,loss; four or more)",
                                "FILE");
  add_parsed(app, "--parameters", question.parameters, parse_count,
             "Of the model that --loss is asked of: 7B", "N")
      ->needs(loss);
  add_parsed(app, "--tokens", question.tokens, parse_count, "Of its training: 300B", "N")
      ->needs(loss);
}

void forecast_loss(const LossQuestion& question, const AnswerOptions& answer) {
  if (!answer.html.empty())
    throw InputError(
        "rehearse: error: --html: the answer to --loss has no page\nremedy: leave it out");
  const std::vector<LossRun> runs = read_loss_runs(question.runs);
  const LossLaw law = fitted_law(runs, question.runs);
  const auto [smallest, largest] =
      std::ranges::minmax(runs, {}, [](const LossRun& run) { return run.parameters * run.tokens; });
  const double parameters = question.parameters.value_or(largest.parameters);
  const double tokens = question.tokens.value_or(largest.tokens);
  if (const auto refused = law.refusal_of(parameters, tokens))
    throw InputError(
        fmt::format("{}: error: {}\nremedy: runs nearer to the question, or a "
                    "question nearer to them",
                    question.runs.string(), *refused));
  const LossReport report{.law = law,
                          .runs = runs.size(),
                          .smallest = smallest,
                          .largest = largest,
                          .parameters = parameters,
                          .tokens = tokens,
                          .loss = law.loss(parameters, tokens)};
  write_answer({.table = [&](int width, bool) { return to_table(report, width); },
                .json = [&] { return to_json(report); },
                .csv = [&] { return to_csv(report); }},
               answer);
}

}  // namespace rehearse::inline cli
