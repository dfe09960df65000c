#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "base/error.hpp"
#include "strategy/layout/read_layout.hpp"

namespace rehearse::inline strategy {

/// Reads the file that `file` names by `read`. InputError at `file` where it is not there.
auto read_named(const Value& file, const auto& read) {
  const std::filesystem::path path = file.folder() / file.as_string();
  try {
    return read(path);
  } catch (const MissingError&) {
    file.fail(fmt::format("{} cannot be read", path.string()));
  }
}

/// `expert_parallel` and `experts`. Megatron-LM's default is that experts are split as all layers
/// are.
void read_experts(Map& map, const Reading& reading, bool sharded, Layout& layout);
/// `embedding_parallel`: ranks that share embedding tables have the places of those that share
/// experts.
void read_tables(Map& map, const Reading& reading, Layout& layout);

}  // namespace rehearse::inline strategy
