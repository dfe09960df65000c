#pragma once

#include <cmath>
#include <cstdint>

#include "config/json/json_record.hpp"

namespace rehearse::inline config {

/// How many there are, or in the mean; whole ones are integers in JSON: 1280, 12.5.
struct Count {
  double value = 0;
};

template <>
struct JsonForm<Count> {
  static OrderedJson write(Count count) {
    const bool whole = count.value == std::floor(count.value) && std::abs(count.value) < 0x1p53;
    return whole ? OrderedJson(static_cast<std::int64_t>(count.value)) : OrderedJson(count.value);
  }
  static OrderedJson schema() { return typed_schema("number"); }
};

}  // namespace rehearse::inline config
