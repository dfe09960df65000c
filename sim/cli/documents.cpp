#include "cli/documents.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "config/json/json_text.hpp"
#include "explain/explanation.hpp"
#include "explain/kernel_table.hpp"
#include "foreign/import_config.hpp"
#include "foreign/traces/kernel_comparison.hpp"
#include "keys/schema.hpp"
#include "measured/measured.hpp"
#include "planner/plan_view.hpp"
#include "predict/collective_views.hpp"
#include "rollout/documents.hpp"
#include "study/study_view.hpp"
#include "validation/views.hpp"
#include "view/comparison.hpp"
#include "view/curves_views.hpp"
#include "view/loss_views.hpp"
#include "view/network_view.hpp"

namespace rehearse::inline cli {

using Json = nlohmann::ordered_json;

const std::vector<DocumentKind>& document_kinds() {
  static const std::vector<DocumentKind> kAll = [] {
    std::vector<DocumentKind> all;
    for (const std::string& name : schema_kinds())
      all.push_back({name, [](const std::string& kind) { return schema_of(kind); }});
    all.push_back({"explain", [](const std::string&) { return explanation_schema(); }});
    all.push_back({"compare", [](const std::string&) { return comparison_schema(); }});
    all.push_back({"kernels", [](const std::string&) { return kernels_schema(); }});
    all.push_back({"collective", [](const std::string&) { return collective_schema(); }});
    all.push_back({"plan_result", [](const std::string&) { return plan_result_schema(); }});
    all.push_back({"model", [](const std::string&) { return network_schema(); }});
    all.push_back({"decode", [](const std::string&) { return decode_schema(); }});
    all.push_back({"rollout", [](const std::string&) { return rollout_schema(); }});
    all.push_back({"rollout_plan", [](const std::string&) { return rollout_plan_schema(); }});
    all.push_back({"study_result", [](const std::string&) { return study_schema(); }});
    all.push_back({"validation", [](const std::string&) { return validation_schema(); }});
    all.push_back({"curves", [](const std::string&) { return curves_schema(); }});
    all.push_back({"loss", [](const std::string&) { return loss_schema(); }});
    all.push_back({"measured", [](const std::string&) { return measured_schema(); }});
    all.push_back(
        {"measured_comparison", [](const std::string&) { return measured_comparison_schema(); }});
    all.push_back(
        {"kernel_comparison", [](const std::string&) { return kernel_comparison_schema(); }});
    all.push_back({"imported", [](const std::string&) { return imported_schema(); }});
    return all;
  }();
  return kAll;
}

std::string document_schema(const std::string& name) {
  const auto found = std::ranges::find(document_kinds(), name, &DocumentKind::name);
  if (found == document_kinds().end()) {
    std::vector<std::string> names;
    for (const DocumentKind& one : document_kinds()) names.push_back(one.name);
    throw InputError(fmt::format("rehearse: error: no schema is called \"{}\"\nremedy: one of {}",
                                 name, fmt::join(names, ", ")));
  }
  return json_text(found->schema(name), 1) + "\n";
}

}  // namespace rehearse::inline cli
