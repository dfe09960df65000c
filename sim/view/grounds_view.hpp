#pragma once

#include <string>
#include <vector>

#include "report/report.hpp"
#include "view/page.hpp"

// What a report's times rest on, and what their intervals consist of.
namespace rehearse::inline view {

/// Whether half of the time on some GPU, or more, rests on its datasheet alone.
bool rests_on_datasheet(const std::vector<ComputeReport>& compute);
/// Says what most of the time rests on, a line for each kind of GPU.
void add_compute(const std::vector<ComputeReport>& compute, Page& page);

/// Says what the interval `of` a figure consists of: mechanisms of 1 % and more.
void add_mechanisms(const std::string& of, const std::vector<Mechanism>& mechanisms, Page& page);

}  // namespace rehearse::inline view
