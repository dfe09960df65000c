#pragma once

#include <map>
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
  std::string contains;         ///< a part of values that it holds for; empty: any
  Pairs when;      ///< other keys of the same file and their values; "absent": it is not there
  std::string to;  ///< the fact that takes the value (facts.hpp); empty: none
  Kind kind = Kind::word;
  Pairs values;  ///< what a value is called here; those that are not listed cannot be said
  std::vector<std::string> cut;  ///< parts of a value that say nothing of what it is called
  Pairs set;                     ///< facts that follow
  bool none = false;             ///< without effect on time and memory
  std::string cannot;            ///< why it changes the answer and cannot be said
  bool reads_only = false;       ///< an export does not write it
  bool writes_only = false;      ///< an import does not take it
  std::string asks;   ///< the file leaves it to another: the option that answers (asked_options)
  std::string names;  ///< the format of a file that the value names, whose settings count, too
  std::string about;  ///< an option that takes the place of this setting: model, precision, ...
};

/// What a framework's own checks of its arguments ask of an export: a line of `checks`.
struct Check {
  Rule::Pairs when;                   ///< settings as Rule::when has them; "above 1" is a number's
  std::string since, until;           ///< versions of the framework; empty: any
  Rule::Pairs write;                  ///< settings that must stand there, too
  std::vector<std::string> drop;      ///< settings that must not, where the scenario leaves `left`
  std::string left;                   ///< a key of a scenario
  std::string variable, value;        ///< of the environment
  std::vector<std::string> multiple;  ///< one setting, one that divides it, and how often
  std::string why, remedy;            ///< of a refusal; with `drop` of a note
};

/// A kind of configuration files: what its keys mean. All of it is data.
struct Format {
  std::string name;                ///< of its file
  std::string title;               ///< "a DeepSpeed configuration"
  std::string framework;           ///< a value of the key `framework`
  std::string base;                ///< the format that it extends; empty: none
  std::vector<std::string> strip;  ///< beginnings of keys that say nothing: "model."
  Rule::Pairs defaults;            ///< facts that hold where the file says nothing
  Rule::Pairs always;              ///< settings that an export has in any case
  std::vector<Rule> rules;
  std::size_t written_rules = 0;  ///< of the first rules, those that an export looks at
  std::vector<Check> checks;      ///< what an export must keep to, in order

  /// The rules of a setting, first to last: of its whole key, then without what `strip` names.
  std::vector<const Rule*> rules_of(const std::string& key) const;
  /// Whether a rule names that key, or it without what `strip` names; no pattern counts.
  bool knows(const std::string& key) const;
};

/// Whether settings are as `when` asks. One whose value is null is as one that is not there.
bool holds(const Rule::Pairs& when, const std::map<std::string, std::string>& settings);

/// The formats that have a file in platforms/formats. MissingError or InputError where the data is
/// damaged.
const std::vector<std::string>& format_names();
const Format& format_of(const std::string& name);

}  // namespace rehearse::inline foreign
