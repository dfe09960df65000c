#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/key.hpp"

namespace rehearse::inline keys {

/// Keys that stand together, read by the same code.
struct KeySection {
  std::string_view prefix;  ///< "strategy.ddp."; of files other than scenarios "study/"
  std::string_view title;
  std::string_view source;  ///< who defined the keys and their defaults
  std::string_view code;    ///< files and folders that read them, separated by spaces
  std::vector<Key> keys;
};

/// Every key of every file that the program reads, in the order of the reference.
const std::vector<KeySection>& key_sections();

// Its parts. A new key is one more line in one of them, or an entry in its reader's field list.
std::vector<KeySection> scenario_keys();
std::vector<KeySection> transformer_keys();
std::vector<KeySection> strategy_keys();
std::vector<KeySection> cluster_keys();
std::vector<KeySection> training_keys();
std::vector<KeySection> study_keys();
std::vector<KeySection> profile_keys();
std::vector<KeySection> measurement_keys();

/// The keys that begin with `prefix`, as `rehearse list keys` prints them. InputError if there are
/// none.
std::string keys_text(std::string_view prefix);
/// The first key of which `name` is a whole part (`fsdp`: strategy.fsdp) with those below it, as
/// keys_text(); empty where no key has it.
std::string keys_named(std::string_view name);
/// "path: meaning" of each key whose path or meaning has all of `words` (small letters), in the order
/// of the reference.
std::vector<std::string> keys_about(const std::vector<std::string>& words);
/// Where a scenario has a key of that name, `model.batch_per_gpu`; empty for files that are none, by
/// the keys at their top. For set_key_places().
std::vector<std::string> scenario_places(const std::string& key,
                                         const std::vector<std::string>& top);
/// Keys at the top of a scenario (`kind` is empty), of a study ("study/") or of a plan ("plan/"), in
/// the order of the reference.
std::vector<std::string> top_keys(std::string_view kind);
/// The whole reference, as scenarios/keys.md has it.
std::string keys_markdown();

}  // namespace rehearse::inline keys
