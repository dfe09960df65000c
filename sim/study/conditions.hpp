#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "study/study.hpp"

namespace rehearse::inline study {

/// `[{AXIS: LABEL, AXIS: [LABEL, LABEL]}, ...]`: a point fits one of them if on each axis that is
/// named it has one of the labels.
class Conditions {
 public:
  /// None where there is no value. InputError at an axis or a label that is not there.
  Conditions(const std::optional<Value>& list, const std::vector<Axis>& axes);

  bool empty() const { return all_.empty(); }
  /// Whether the point fits any of them.
  bool fit(const Point& point);
  /// InputError at the first that no point fitted.
  void check_all_met() const;

 private:
  struct Condition {
    Value where;
    std::map<std::size_t, std::set<std::size_t>> allowed;  ///< choices, by axis
    bool met = false;
  };
  std::vector<Condition> all_;
};

}  // namespace rehearse::inline study
