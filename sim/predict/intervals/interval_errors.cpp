#include "predict/intervals/interval_errors.hpp"

#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "config/document.hpp"

namespace rehearse::inline prediction {
namespace {

using Errors = std::map<std::string, double>;

Errors errors_in(Map lists, const char* list) {
  Map mechanisms = lists.require(list).as_map();
  Errors errors;
  for (const std::string& name : mechanisms.keys())
    errors[name] = mechanisms.require(name).as_map().require("error").as_positive_number();
  return errors;
}

std::map<IntervalOf, Errors> read_errors() {
  const auto document = Document::load(platforms_path("intervals.yaml"));
  Map lists = document->root().as_map();
  return {{IntervalOf::times, errors_in(lists, "times")},
          {IntervalOf::allocated, errors_in(lists, "allocated")},
          {IntervalOf::used, errors_in(lists, "used")}};
}

}  // namespace

const Errors& interval_errors(IntervalOf what) {
  static const std::map<IntervalOf, Errors> kErrors = read_errors();
  return kErrors.at(what);
}

double interval_error(IntervalOf what, const std::string& mechanism) {
  const Errors& errors = interval_errors(what);
  const auto found = errors.find(mechanism);
  if (found == errors.end())
    throw InternalError("internal error: platforms/intervals.yaml lacks mechanism " + mechanism);
  return found->second;
}

}  // namespace rehearse::inline prediction
