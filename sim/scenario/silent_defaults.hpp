#pragma once

#include "config/document.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline scenario {

/// Says the defaults among the scenario's assumptions that stand for no value of their own, so that
/// no reader notes them: what is switched off, what follows from another key, what NCCL chooses.
/// `root` is the scenario's file. Those of frameworks stand in FrameworkChoice::set.
void say_silent_defaults(const Map& root, Scenario& scenario);

}  // namespace rehearse::inline scenario
