#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "serve/job.hpp"

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

/// What the page asks beside the form: the best of many, or many side by side.
struct Search {
  Form form;
  std::string axis{};       ///< a sweep's: what varies; empty: a plan
  std::string objective{};  ///< a plan's: time, cost or throughput
  double deadline = 0;      ///< hours, 0: none
  double budget = 0;        ///< USD, 0: none
};

/// Reads `{"form": ..., "axis": ...}` or `{"form": ..., "objective": ..., "deadline_h": ...,
/// "budget_usd": ...}`. InputError as form_from().
Search search_from(const std::string& json);

/// A file of the user's own, dropped into the page.
struct OwnFile {
  std::string name;  ///< without folders
  std::string text;
  std::string on;  ///< "4xaws_p5"
};

/// Reads `{"name": ..., "text": ..., "cluster": ..., "nodes": ...}`. InputError where a field is
/// missing, or the name is none of a file alone.
OwnFile file_from(const std::string& json);

/// The search as this program's words, and the study that it reads from its standard input.
JobTask task_of(const Search& search);

}  // namespace rehearse::inline serve
