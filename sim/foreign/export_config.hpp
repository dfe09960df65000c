#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "scenario/scenario.hpp"

namespace rehearse::inline foreign {

/// A scenario in the words of a training framework.
struct ExportedConfig {
  std::string text;                 ///< a file that the framework takes, or a script
  std::vector<std::string> unsaid;  ///< keys of the scenario that the format has no word for
  std::vector<std::string> notes;   ///< what the text has otherwise than the scenario
};

/// megatron, torchtitan, deepspeed, accelerate, axolotl, trl, torchtune, nemo.
const std::vector<std::string>& exported_formats();

/// `text` is that of the scenario, with its overrides. InputError where it is another framework's.
ExportedConfig export_config(const Scenario& scenario, const Document& document,
                             const std::string& format);

}  // namespace rehearse::inline foreign
