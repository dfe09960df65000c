#pragma once

#include <string>

#include "predict/predict.hpp"

namespace rehearse::inline html {

/// The page of a run (to_html), with its timeline and its memory.
std::string run_page(const Scenario& scenario, const Prediction& prediction);

}  // namespace rehearse::inline html
