#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rehearse::inline foreign {

/// What a key of another program means: one line of platforms/formats/NAME.yaml. The first rule
/// that holds for a setting counts.
struct Rule {
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  /// A count_word is a count that the other program has as text.
  enum class Kind { word, count, whole, number, flag, count_word };

  std::string key;              ///< "train_batch_size", or with what is below it "comms_logger.*"
  std::vector<std::string> is;  ///< values that it holds for; empty: any
  Pairs when;      ///< other keys of the same file and their values; "absent": it is not there
  std::string to;  ///< the fact that takes the value (facts.hpp); empty: none
  Kind kind = Kind::word;
  Pairs values;        ///< what a value is called here; those that are not listed cannot be said
  Pairs set;           ///< facts that follow
  bool none = false;   ///< without effect on time and memory
  std::string cannot;  ///< why it changes the answer and cannot be said
  bool reads_only = false;   ///< an export does not write it
  bool writes_only = false;  ///< an import does not take it
};

/// A kind of configuration files: what its keys mean. All of it is data.
struct Format {
  std::string name;                ///< of its file
  std::string title;               ///< "a DeepSpeed configuration"
  std::string framework;           ///< a value of the key `framework`
  std::vector<std::string> strip;  ///< beginnings of keys that say nothing: "model."
  Rule::Pairs defaults;            ///< facts that hold where the file says nothing
  Rule::Pairs always;              ///< settings that an export has in any case
  std::vector<Rule> rules;

  /// The rules of a setting, first to last: of its whole key, then without what `strip` names.
  std::vector<const Rule*> rules_of(const std::string& key) const;
};

/// Those of platforms/formats. MissingError or InputError where the data is damaged.
const std::vector<std::string>& format_names();
const Format& format_of(const std::string& name);

}  // namespace rehearse::inline foreign
