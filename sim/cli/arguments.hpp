#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "study/sweep.hpp"

namespace rehearse {

/// A check of an option's value in the words of the other errors: `expected one of table, json,
/// csv; got "xml"`.
CLI::Validator one_of(const std::vector<std::string>& names);

/// Checks that an option's value is a number above 0, a momentum in [0, 0.99999), an accuracy as a
/// share in (0, 1), and a time with its unit.
CLI::Validator a_number_above_0();
CLI::Validator a_momentum();
CLI::Validator an_accuracy();
CLI::Validator a_time();

/// A check that an option's value is a share as parse_share takes it.
CLI::Validator a_share();
/// The same for more than nothing, at most 1000%.
CLI::Validator a_share_above_0();
/// 0.05 for "5%"; anything but a number of at least 0 and a percent sign is an InputError.
double parse_share(const std::string& text);

/// Likewise for a time and a size above 0 with their units, and a shard as "2/8".
CLI::Validator a_timeout();
Seconds parse_timeout(const std::string& text);
CLI::Validator a_memory();
Bytes parse_memory(const std::string& text);
CLI::Validator a_shard();
Shard parse_shard(const std::string& text);

/// What the user is told about a command line that could not be parsed, with the nearest command or
/// option.
std::string usage_message(const CLI::App& app, const CLI::ParseError& wrong, int argc, char** argv);

}  // namespace rehearse
