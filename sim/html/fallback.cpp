#include "html/fallback.hpp"

#include <fmt/format.h>

#include "base/quoting.hpp"
#include "config/json/json_text.hpp"
#include "view/csv_table.hpp"

namespace rehearse::inline html {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostRows = 1000;

std::string text_of(const Json& value) {
  if (value.is_null()) return "";
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

std::string row(const std::vector<std::string>& cells) {
  std::string html = "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    html += i == 0 ? "<th scope=\"row\">" + html_escaped(cells[i]) + "</th>"
                   : "<td>" + html_escaped(cells[i]) + "</td>";
  }
  return html + "</tr>\n";
}

std::string table(const std::string& caption, const std::vector<std::string>& titles,
                  const std::vector<std::vector<std::string>>& rows) {
  std::string html = "<table><caption>" + html_escaped(caption) + "</caption>\n<thead><tr>";
  for (const std::string& title : titles)
    html += "<th scope=\"col\">" + html_escaped(title) + "</th>";
  html += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& cells : rows) html += row(cells);
  return html + "</tbody></table>\n";
}

std::string report_table(const Json& report) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [key, text] : csv_row(report)) {
    if (!text.empty()) rows.push_back({key, text});
  }
  return table("All figures, by their keys in the JSON", {"key", "value"}, rows);
}

/// A member of a point's report, "memory.fits"; empty where it has none.
std::string member(const Json& point, const std::string& pointer) {
  const Json& report = point.at("report");
  const nlohmann::json_pointer<std::string> path(pointer);
  return report.is_object() && report.contains(path) ? text_of(report.at(path)) : "";
}

std::string study_table(const Json& study) {
  std::vector<std::string> titles = {"point"};
  for (const Json& axis : study.at("axes")) titles.push_back(text_of(axis));
  titles.insert(titles.end(),
                {"step_time_s", "samples_per_s", "memory.used_bytes", "memory.verdict", "error"});
  std::vector<std::vector<std::string>> rows;
  for (const Json& point : study.at("points")) {
    if (rows.size() == kMostRows) break;
    std::vector<std::string> cells = {text_of(point.at("point"))};
    for (const Json& label : point.at("vary")) cells.push_back(text_of(label));
    for (const char* path :
         {"/step_time_s", "/samples_per_s", "/memory/used_bytes", "/memory/verdict"})
      cells.push_back(member(point, path));
    cells.push_back(text_of(point.at("error")));
    rows.push_back(std::move(cells));
  }
  return table(fmt::format("{} of {} points", rows.size(), study.at("points").size()), titles,
               rows);
}

std::string plain_table(const Json& document) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [key, value] : document.items()) {
    if (value.is_primitive() && !value.is_null()) rows.push_back({key, text_of(value)});
  }
  return table("Plain figures, by their keys in the JSON", {"key", "value"}, rows);
}

std::string string_or(const Json& document, const char* key, const std::string& otherwise) {
  const auto found = document.find(key);
  if (found == document.end() || !found->is_string() || found->get<std::string>().empty())
    return otherwise;
  return found->get<std::string>();
}

}  // namespace

std::string title_of(const Json& document) {
  const std::string schema = string_or(document, "schema", "");
  if (schema == "rehearse.report/1") {
    return fmt::format("{} · {} · {}", string_or(document, "model", "a model"),
                       string_or(document, "strategy", "a strategy"),
                       string_or(document, "cluster", "inline cluster"));
  }
  if (schema == "rehearse.forecast/1") {
    const Json& model = document.at("model");
    return fmt::format("{} on {}", string_or(model, "network", "a network"),
                       string_or(model, "dataset", "a data set"));
  }
  if (schema == "rehearse.compare/1" && document.contains("first"))
    return "A comparison: " + string_or(document, "description", "two predictions");
  if (schema == "rehearse.measured/1")
    return "Measured: " + string_or(document, "name", "a machine");
  if (schema == "rehearse.measured_comparison/1") return "Two measurements";
  if (schema == "rehearse.validation/2") return "Predictions beside measurements";
  for (const char* key : {"description", "study", "plan", "scenario"}) {
    if (const std::string title = string_or(document, key, ""); !title.empty()) return title;
  }
  return "A report of Rehearse";
}

std::string fallback(const Json& document) {
  const std::string schema = string_or(document, "schema", "");
  const std::string answer = string_or(document, "answer", "");
  const std::string first = answer.empty() ? "" : "<p>" + html_escaped(answer) + "</p>\n";
  if (schema == "rehearse.report/1") return first + report_table(document);
  if (schema == "rehearse.study/1") return first + study_table(document);
  return first + plain_table(document);
}

}  // namespace rehearse::inline html
