#pragma once

#include <string>
#include <vector>

#include "study/study.hpp"

namespace rehearse::inline study {

/// Reads `vary`. InputError at the axis or value that is wrong: no axes, no values, labels that do
/// not tell values apart, a key that two axes set.
std::vector<Axis> read_axes(const Value& vary);

/// The axis "seed" with run.seed from 1 to the number at `seeds`.
Axis seed_axis(const Value& seeds);

/// InputError at the later of two axes that set the same key, or at one that would undo another.
void check_apart(const std::vector<Axis>& axes);

/// Whether one of two dotted paths is the other or leads through it.
bool overlap(const std::string& path, const std::string& other);

/// A value as YAML in one line.
std::string flow_text(const Value& value);
/// A value as a line of text, such as `fsdp {sharding: full_shard}` for `{fsdp: {sharding:
/// full_shard}}`.
std::string label_of(const Value& value);

}  // namespace rehearse::inline study
