#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "config/document.hpp"

namespace rehearse::inline strategy {

/// One of several kinds and its own options, as files write it: `{ddp: {bucket_cap_mb: 25}}`.
struct NamedOptions {
  std::string name;
  Map options;
};

/// "3" for "zero3", "ZeRO-3" and the like; empty for other words.
inline std::string zero_stage(std::string name) {
  std::erase_if(name, [](char c) { return c == '-' || c == '_'; });
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  const bool is_stage =
      name.size() == 5 && name.starts_with("zero") && name[4] >= '1' && name[4] <= '3';
  return is_stage ? name.substr(4) : "";
}

/// Reads a map with exactly one key, one of `names`, whose value is a map. InputError otherwise;
/// `what` ("a strategy") names the thing in the message.
inline NamedOptions read_named_options(const Value& value, const std::vector<std::string>& names,
                                       const std::string& what) {
  const auto is_known = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const std::string known = fmt::format("known: {}", fmt::join(names, ", "));
  const auto nothing = [&] { return NamedOptions{names.front(), value.stand_in()}; };
  if (value.is_scalar()) {
    const std::string near =
        is_known(value.shown()) ? value.shown() : nearest(value.shown(), names);
    value.mistake(fmt::format("expected a map; got \"{}\"", value.shown()),
                  near.empty() ? known : fmt::format("write {{{}: {{}}}}", near));
    return nothing();
  }
  Map map = value.as_map();
  const std::vector<std::string> keys = map.keys();
  if (keys.size() != 1) {
    const auto last = std::find_if(keys.rbegin(), keys.rend(), is_known);
    if (keys.size() > 1 && std::all_of(keys.begin(), keys.end(), is_known)) {
      value.mistake(fmt::format("expected {}, and these are {}: {}", what, keys.size(),
                                fmt::join(keys, ", ")),
                    fmt::format("keep one of them: {}: {{{}: {{}}}}", value.path(), keys.front()));
      return nothing();
    }
    value.mistake(fmt::format("expected {} as a map with one key; got {} keys", what, keys.size()),
                  last == keys.rend()
                      ? known
                      : fmt::format("{}; instead of what the file says: --set '{}={{{}: {{}}}}'",
                                    known, value.path(), *last));
    return nothing();
  }
  const std::string& name = keys.front();
  if (!is_known(name)) {
    if (const std::string stage = zero_stage(name); !stage.empty() && is_known("zero")) {
      map.at_key(name).mistake(fmt::format("expected {}; got \"{}\"", what, name),
                               fmt::format("write zero: {{stage: {}}}", stage));
      return nothing();
    }
    const std::string near = nearest(name, names);
    map.at_key(name).mistake(fmt::format("expected {}; got \"{}\"", what, name),
                             near.empty() ? known : fmt::format("did you mean \"{}\"?", near));
    return near.empty() ? nothing() : NamedOptions{near, map.require(name).as_map()};
  }
  return {name, map.require(name).as_map()};
}

}  // namespace rehearse::inline strategy
