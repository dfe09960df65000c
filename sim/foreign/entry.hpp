#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "config/document_node.hpp"

namespace rehearse::inline foreign {

/// One setting of another program's configuration, whatever its file looks like.
struct Entry {
  std::string key;     ///< "zero_optimization.stage"; of an option `--seq-length` "seq_length"
  std::string value;   ///< in one spelling (see canonical); of a list "[a, b]"
  std::string said;    ///< as the file spells it
  TextPosition place;  ///< of the value; of the key where it has none
  /// Why nobody can tell whether it holds ("it stands under `if`"); empty: it holds.
  std::string unless;
};

/// Settings of one file. A configuration that people write has some hundreds.
constexpr std::size_t kMostEntries = 20'000;

/// One spelling of a scalar: true, false and null for all that YAML 1.1, Python and JSON call so;
/// whole numbers without an exponent ("5e8" is 500000000); other words as they are.
std::string canonical(std::string_view text);

/// Settings of a tree, in the order of the file. Maps become dotted keys, and maps in a list get
/// `[]`: `datasets[].path`.
std::vector<Entry> entries_of(const DocumentNode& root);

/// Settings of a YAML or JSON text, of TOML, and of a command line or a shell script. InputError
/// at the place of what cannot be read.
std::vector<Entry> yaml_entries(const std::string& text, const std::string& name);
std::vector<Entry> toml_entries(const std::string& text, const std::string& name);
std::vector<Entry> shell_entries(const std::string& text, const std::string& name);
/// Of torchtitan's Python registry, the configuration that `function` returns; empty: of the only
/// one. InputError names them where there are several.
std::vector<Entry> python_entries(const std::string& text, const std::string& name,
                                  const std::string& function);

}  // namespace rehearse::inline foreign
