#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/child_pool.hpp"
#include "config/json/json_text.hpp"
#include "view/json_forms.hpp"

namespace rehearse::inline prediction {

// What a child process returns: typed at both ends, JSON by its field list on the way.

template <class Result>
std::string sent(const Result& result) {
  return json_text(to_json_value(result));
}
template <class Result>
Result received(const std::string& text) {
  const OrderedJson document = parsed_ordered_json(text);
  const std::string from = "a child process";
  return from_json_value<Result>(JsonPlace(document, from));
}

/// The result that a child returned; throws its Error, with the same code and text, where it
/// failed.
template <class Result>
Result result_of(const ChildEnd& end) {
  if (end.code != ExitCode::success) throw Error(end.code, end.text);
  return received<Result>(end.text);
}

/// Results of work(0) to work(count - 1), each from a child process of its own. `ended` as of
/// in_child_processes.
template <class Work>
auto results_of_children(std::size_t count, std::size_t jobs, const Work& work,
                         const std::function<void(std::size_t)>& ended = nullptr) {
  std::vector<decltype(work(0))> results;
  for (const ChildEnd& end : in_child_processes(
           count, jobs, [&](std::size_t i) { return sent(work(i)); }, ended))
    results.push_back(result_of<decltype(work(0))>(end));
  return results;
}

}  // namespace rehearse::inline prediction
