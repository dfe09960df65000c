#pragma once

#include <optional>
#include <string>

#include "base/ends.hpp"
#include "base/quantity.hpp"

namespace rehearse::inline view {

/// The decimal place down to which a figure is worth showing: that of the second digit of its
/// interval's half-width (JCGM 100:2008, 7.2.6), so 100 for 27,600 to 45,800. Never finer than the
/// fourth digit of `value`, nor coarser than its first; its third digit where it has no interval.
double place_of(double value, const std::optional<Ends<double>>& interval);

/// A number rounded to that place, with commas between thousands: "35,400", "0.36".
std::string rounded(double value, double place);
/// A time rounded so: "430 ms", "3 d 09 h", "214 d". The place is in seconds.
std::string rounded(Seconds time, double place);
/// A count in three digits with a decimal prefix: "15 B", "1.5 T", "512". It counts in thousands,
/// millions, billions and trillions, as people count tokens.
std::string short_count(double count);

}  // namespace rehearse::inline view
