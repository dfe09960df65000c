#pragma once

#include <string>
#include <vector>

namespace rehearse::inline config {

/// The same YAML in one form, with its comments: keys of the root in the order of `order` (others
/// stay behind the key before them), two spaces for each level, one space behind colons and commas,
/// quotes where a text needs them, at most one empty line in a row. Maps and lists keep their
/// braces where they fit in 100 columns and hold no comment. Two times is as once.
///
/// `name` stands for the file in messages. InputError if the text is not strict YAML, or where a
/// comment stands so that it would be lost.
std::string canonical(const std::string& text, const std::string& name,
                      const std::vector<std::string>& order);

}  // namespace rehearse::inline config
