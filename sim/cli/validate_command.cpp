#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/child_process.hpp"
#include "base/error.hpp"
#include "cli/commands.hpp"
#include "cli/simulate.hpp"

namespace rehearse {
namespace {

/// One measurement that somebody published, and the scenario that predicts it.
struct Case {
  std::string name;
  std::filesystem::path scenario;
  std::vector<std::string> overrides;
  std::string metric;  ///< a key of the report, dots between levels
  double published = 0;
  std::string note;
  bool input = false;  ///< something unknown was chosen by it: shown, and left out of the summary
  double predicted = 0;

  double error() const { return (predicted - published) / published; }
};

struct CaseFile {
  std::string source;
  std::vector<Case> cases;
};

/// Size of the errors of the cases that are no input, whatever their sign.
struct CaseErrors {
  std::size_t cases = 0;
  double mean = 0, median = 0, max = 0;
};

Case read_case(const Value& value, std::set<std::string>& seen) {
  Map map = value.as_map();
  Case one;
  const Value name = map.require("name");
  one.name = name.as_string();
  if (!seen.insert(one.name).second)
    name.fail(fmt::format("two cases are called \"{}\"", one.name));
  one.scenario = value.folder() / map.require("scenario").as_string();
  if (const auto overrides = map.optional("set")) {
    for (const Value& assignment : overrides->as_list()) {
      one.overrides.push_back(assignment.as_string());
    }
  }
  one.metric = map.require("metric").as_string();
  one.published = map.require("published").as_positive_number();
  if (const auto note = map.optional("note")) one.note = note->as_string();
  if (const auto input = map.optional("input")) {
    one.input = true;
    one.note =
        fmt::format("input: {}{}{}", input->as_string(), one.note.empty() ? "" : "; ", one.note);
  }
  map.finish();
  return one;
}

CaseFile read_cases(const std::filesystem::path& file) {
  const auto document = Document::load(file);
  Map root = document->root().as_map();
  CaseFile result;
  result.source = root.require("source").as_string();
  const Value cases = root.require("cases");
  std::set<std::string> seen;
  for (const Value& value : cases.as_list()) result.cases.push_back(read_case(value, seen));
  if (std::ranges::all_of(result.cases, &Case::input))
    cases.fail("expected at least one case that is not an input");
  root.finish();
  return result;
}

/// The number at a dotted key of a report.
double metric_of(const nlohmann::json& report, const std::string& metric) {
  const nlohmann::json* at = &report;
  for (std::size_t begin = 0; begin <= metric.size();) {
    const std::size_t end = std::min(metric.find('.', begin), metric.size());
    const auto key = metric.substr(begin, end - begin);
    if (!at->is_object() || !at->contains(key)) break;
    at = &at->at(key);
    begin = end + 1;
    if (begin > metric.size() && at->is_number()) return at->get<double>();
  }
  throw InputError(fmt::format("the report has no number \"{}\"", metric));
}

double predict(const Case& one) {
  try {
    const std::string report = in_child_process([&one] {
      return to_json(simulate(read_scenario(one.scenario, one.overrides), nullptr).report);
    });
    return metric_of(nlohmann::json::parse(report), one.metric);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("case \"{}\": {}", one.name, error.what()));
  }
}

CaseErrors summarize_errors(const std::vector<Case>& cases) {
  std::vector<double> sizes;
  sizes.reserve(cases.size());
  for (const Case& one : cases)
    if (!one.input) sizes.push_back(std::abs(one.error()));
  std::sort(sizes.begin(), sizes.end());
  CaseErrors summary{.cases = sizes.size()};
  for (const double size : sizes) summary.mean += size / static_cast<double>(sizes.size());
  summary.median = (sizes[(sizes.size() - 1) / 2] + sizes[sizes.size() / 2]) / 2;
  summary.max = sizes.back();
  return summary;
}

std::string percent(double share) { return fmt::format("{:+.1f} %", 100 * share); }

std::string closing_line(const CaseFile& file) {
  const CaseErrors errors = summarize_errors(file.cases);
  return fmt::format(
      "{} cases from {}: absolute error mean {:.1f} %, median {:.1f} %, max {:.1f} %; inputs not "
      "counted\n",
      errors.cases, file.source, 100 * errors.mean, 100 * errors.median, 100 * errors.max);
}

std::string to_table(const CaseFile& file) {
  std::size_t name = 4;
  std::size_t metric = 6;
  for (const Case& one : file.cases) {
    name = std::max(name, one.name.size());
    metric = std::max(metric, one.metric.size());
  }
  std::string text = fmt::format("{:<{}}  {:<{}}  {:>12}  {:>12}  {:>9}  {}\n", "case", name,
                                 "metric", metric, "predicted", "published", "error", "note");
  for (const Case& one : file.cases) {
    text +=
        fmt::format("{:<{}}  {:<{}}  {:>12.6g}  {:>12.6g}  {:>9}  {}\n", one.name, name, one.metric,
                    metric, one.predicted, one.published, percent(one.error()), one.note);
  }
  return text + "\n" + closing_line(file);
}

std::string to_markdown(const CaseFile& file) {
  std::string text = "| case | metric | predicted | published | error | note |\n";
  text += "|---|---|---:|---:|---:|---|\n";
  for (const Case& one : file.cases) {
    text += fmt::format("| {} | `{}` | {:.6g} | {:.6g} | {} | {} |\n", one.name, one.metric,
                        one.predicted, one.published, percent(one.error()), one.note);
  }
  return text + "\n" + closing_line(file);
}

/// A field of a CSV file, quoted where it must be (RFC 4180).
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) quoted += letter == '"' ? "\"\"" : std::string(1, letter);
  return quoted + "\"";
}

std::string to_csv(const CaseFile& file) {
  std::string text = "case,metric,predicted,published,relative_error,note\n";
  for (const Case& one : file.cases) {
    text += fmt::format("{},{},{},{},{},{}\n", csv_field(one.name), one.metric, one.predicted,
                        one.published, one.error(), csv_field(one.note));
  }
  return text;
}

std::string to_json(const CaseFile& file) {
  nlohmann::ordered_json cases = nlohmann::ordered_json::array();
  for (const Case& one : file.cases) {
    cases.push_back({{"name", one.name},
                     {"metric", one.metric},
                     {"predicted", one.predicted},
                     {"published", one.published},
                     {"relative_error", one.error()},
                     {"input", one.input},
                     {"note", one.note}});
  }
  const CaseErrors errors = summarize_errors(file.cases);
  const nlohmann::ordered_json all = {
      {"schema", "rehearse.validation/1"},
      {"source", file.source},
      {"cases", cases},
      {"absolute_relative_error",
       {{"mean", errors.mean}, {"median", errors.median}, {"max", errors.max}}}};
  return all.dump(2) + "\n";
}

std::string render(const CaseFile& file, const std::string& format) {
  if (format == "json") return to_json(file);
  if (format == "csv") return to_csv(file);
  return format == "markdown" ? to_markdown(file) : to_table(file);
}

}  // namespace

void validate_command(const ValidateCommand& command) {
  CaseFile file = read_cases(command.cases);
  const bool shown = !command.quiet && isatty(STDERR_FILENO) == 1;
  for (std::size_t i = 0; i < file.cases.size(); ++i) {
    if (shown) fmt::print(stderr, "\rcase {} of {} ", i + 1, file.cases.size());
    file.cases[i].predicted = predict(file.cases[i]);
  }
  if (shown) fmt::print(stderr, "\r\033[K");
  write_result(command.output, render(file, command.format));
}

}  // namespace rehearse
