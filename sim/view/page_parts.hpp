#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/report.hpp"
#include "view/page.hpp"

// Parts of a report's page that not every training has.
namespace rehearse::inline view {

inline constexpr std::size_t kValueColumns = 18;  ///< of a number beside its interval

/// A line for each stage of a pipeline, and what its memory is; nothing where there are no stages.
void add_stages(const Report& report, Page& page);
/// The same without memory.
void add_stages(const std::vector<StageReport>& stages, Page& page);

/// How old the gradients are that a server takes, and how often each age comes.
void add_staleness(const Report& report, const StalenessReport& staleness, Page& page);
/// What an equal loss costs beside synchronous training; `report.loss` is there.
void add_loss(const Report& report, Page& page);
/// Where the training ends, `from` whose curves.
void add_accuracy(const StrategyForecast& told, const std::string& from, Page& page);

}  // namespace rehearse::inline view
