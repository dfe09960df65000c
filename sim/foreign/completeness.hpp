#pragma once

#include <string>
#include <vector>

#include "foreign/assemble.hpp"
#include "foreign/format.hpp"

namespace rehearse::inline foreign {

/// InputError for settings that change the answer and cannot be said.
[[noreturn]] void fail_cannot(const std::vector<Told>& cannot);

/// Settings whose place an option takes are mapped, and those that a file leaves to another are
/// answered.
void settle(Translation& told, const Asked& asked);

/// InputError for all that the files do not say, and what one that stands `alone` leaves to
/// another, in one message.
void check_complete(const Translation& told, const Asked& asked, bool alone,
                    const std::string& name);

/// InputError where of all settings nothing but the network's name is understood.
void check_understood(const std::vector<Entry>& entries, const Translation& told,
                      const Format& format, const std::string& name);

/// Lengths and batches that nobody says stand in the list of what is left to others.
void tell_defaults(Translation& told, const Asked& asked);

/// Reads the scenario and makes its schedule. InputError where that cannot run.
void read_back(const std::string& scenario, const std::string& name);

}  // namespace rehearse::inline foreign
