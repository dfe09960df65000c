#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace rehearse::inline serve {

/// A question as the page's form asks it. Each field is a name of a list or a number in a range, so
/// that no form names a file.
struct Form {
  std::string model, cluster, strategy, precision;
  std::string tuning;     ///< all, lora or qlora
  std::string framework;  ///< whose code trains; "usual": the strategy's own
  std::int64_t nodes = 1, batch = 1;
  std::int64_t sequence = 0;  ///< tokens of a sample; 0: the network's own, or it has none
  std::int64_t tensor = 1, pipeline = 1, micro_batches = 1;
  double tokens = 0;  ///< the whole training's; 0: nothing is said of it
  bool checkpointing = false, compile = false;
};

/// The form's lists, as the page reads them: models, clusters, strategies, precisions,
/// tunings and frameworks, each [{name, about}]. MissingError where shipped files are missing.
nlohmann::json choices();

/// Reads what the page sends. InputError where a field is missing, is none of its list or out of
/// its range, or where there is another one.
Form form_from(const std::string& json);

/// The form as a scenario file.
std::string scenario_of(const Form& form);

}  // namespace rehearse::inline serve
