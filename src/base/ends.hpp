#pragma once

namespace rehearse::inline base {

/// From where to where something goes: of time, of a size, of a number's interval.
template <class Value>
struct Ends {
  Value low{}, high{};

  bool operator==(const Ends&) const = default;
};

/// A value, and the ends of the interval that holds it with 90 %.
template <class Value>
struct Estimate {
  Value value{}, low{}, high{};

  bool operator==(const Estimate&) const = default;
};

}  // namespace rehearse::inline base
