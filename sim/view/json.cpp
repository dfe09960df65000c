#include <fmt/format.h>

#include "base/error.hpp"
#include "config/json/json_listed.hpp"
#include "config/json/json_text.hpp"
#include "view/json_view.hpp"
#include "view/report_fields.hpp"
#include "view/views.hpp"

namespace rehearse::inline view {
namespace {

constexpr const char* kSchema = "rehearse.report/1";

}  // namespace

OrderedJson json_view(const Report& report) {
  OrderedJson json{{"schema", kSchema}};
  json.update(to_json_value(report));
  return json;
}

OrderedJson report_schema() {
  JsonKeys keys;
  keys.add("schema", {{"const", kSchema}});
  keys.include(json_schema<Report>());
  return titled_schema("A report of Rehearse", keys.schema());
}

std::string to_json(const Report& report) { return json_text(json_view(report), 2) + "\n"; }

Report report_from_json(const std::string& text, const std::string& file) {
  const OrderedJson document = parse_json(text, file);
  const JsonPlace root(document, file);
  if (const std::string schema = root.at("schema").text(); schema != kSchema)
    throw InputError(fmt::format(
        "{}: error: schema: expected \"{}\"; got the text \"{}\"\n"
        "remedy: give a report of a training, which `rehearse run --format json` writes",
        file, kSchema, schema));
  return from_json_value<Report>(root);
}

}  // namespace rehearse::inline view

template struct rehearse::ListedElsewhere<rehearse::Headline>;
template struct rehearse::ListedElsewhere<rehearse::FittingChange>;
template struct rehearse::ListedElsewhere<rehearse::PacedUpdates>;
template struct rehearse::ListedElsewhere<rehearse::StageReport>;
template struct rehearse::ListedElsewhere<rehearse::CollectiveReport>;
template struct rehearse::ListedElsewhere<rehearse::ComputeReport>;
