#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "config/document.hpp"

namespace rehearse {

/// One of several kinds and its own options, as files write it: `{ddp: {bucket_cap_mb: 25}}`.
struct NamedOptions {
  std::string name;
  Map options;
};

/// Reads a map with exactly one key, one of `names`, whose value is a map. InputError otherwise;
/// `what` ("a strategy") names the thing in the message.
inline NamedOptions read_named_options(const Value& value, const std::vector<std::string>& names,
                                       const std::string& what) {
  Map map = value.as_map();
  const std::vector<std::string> keys = map.keys();
  const std::string known = fmt::format("known: {}", fmt::join(names, ", "));
  if (keys.size() != 1) {
    value.fail(fmt::format("expected {} as a map with one key; got {} keys", what, keys.size()),
               keys.empty()
                   ? known
                   : fmt::format("{}; instead of what the file says: --set '{}={{{}: {{}}}}'",
                                 known, value.path(), keys.back()));
  }
  const std::string& name = keys.front();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    const std::string near = nearest(name, names);
    map.at_key(name).fail(fmt::format("expected {}; got \"{}\"", what, name),
                          near.empty() ? known : fmt::format("did you mean \"{}\"?", near));
  }
  return {name, map.require(name).as_map()};
}

}  // namespace rehearse
