#pragma once

#include <nlohmann/json.hpp>

#include "report/page.hpp"
#include "report/report.hpp"

namespace rehearse::inline report {

/// Parts of `rehearse.report/1`; null for what the report does not have.
nlohmann::ordered_json cost_json(const std::optional<CostReport>& cost);
nlohmann::ordered_json energy_json(const std::optional<EnergyReport>& energy);
nlohmann::ordered_json goodput_json(const std::optional<GoodputReport>& goodput);
nlohmann::ordered_json start_json(const std::optional<StartReport>& start);

/// Money without its unit: cents of less than 100, else four digits, for no prediction knows more.
std::string money(double usd);

/// Goodput, start and energy on a terminal, as far as the report has them.
void add_economy(const Report& report, Page& page);

}  // namespace rehearse::inline report
