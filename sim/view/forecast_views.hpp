#pragma once

#include <string>

#include "config/json/json_place.hpp"
#include "convergence/strategy_forecast.hpp"
#include "view/json_view.hpp"

namespace rehearse::inline view {

/// For people, `rehearse.forecast/1`, and the curves as rows of strategy, time_s, samples,
/// accuracy, accuracy_low, accuracy_high.
std::string to_table(const ForecastReport& report, int width, bool color);
std::string to_json(const ForecastReport& report);
std::string to_csv(const ForecastReport& report);

/// One strategy as the object that it is in `rehearse.forecast/1`.
nlohmann::ordered_json json_view(const StrategyForecast& told);
/// The same object read. Not in it and so not known: expected_accuracy, what doubts are about, and
/// when a pace applies its updates. InputError as JsonPlace has it.
StrategyForecast strategy_forecast(const JsonPlace& json);

}  // namespace rehearse::inline view
