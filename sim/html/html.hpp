#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace rehearse::inline html {

/// A page that shows a document of ours and opens without a network: of a run
/// (`rehearse.report/1`), a sweep (`rehearse.study/1`), a plan (`rehearse.plan/1`), an explanation
/// (`rehearse.explain/1`), two predictions (`rehearse.compare/1`), a forecast
/// (`rehearse.forecast/1`), measurements (`rehearse.measured/1`,
/// `rehearse.measured_comparison/1`), a step of post-training (`rehearse.rollout/1`), several runs'
/// ends (`rehearse.curves/1`) or a comparison
/// (`rehearse.validation/2`). The page holds the document, and draws itself from it in the
/// browser (what a sweep's points say alike stands in `extras.shared`); `extras` is what its charts
/// need besides (run_extras in timeline.hpp; null: nothing). All texts in both are shown as text:
/// nothing in them is read as HTML. The same documents, the same bytes.
std::string to_html(const nlohmann::ordered_json& document,
                    const nlohmann::ordered_json& extras = nullptr);

/// Notes the command line that makes this process's pages, which they show to be copied. What only
/// names files that it writes is left out.
void note_command(const std::vector<std::string>& words);

/// The same from the text of a JSON document.
std::string to_html(const std::string& document, const nlohmann::ordered_json& extras = nullptr);

}  // namespace rehearse::inline html
