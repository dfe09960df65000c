#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/key_list.hpp"

namespace rehearse::inline framework {

/// A default that a framework set, as its own code says.
struct FrameworkSetting {
  std::string key;  ///< of a scenario: "model.compile"
  std::string value;
  std::string source;  ///< the file of the framework that says so
};

/// Whose code trains, as a report says it.
struct FrameworkChoice {
  std::string name = "torch";
  std::string title = "PyTorch";
  std::string version;
  bool said = false;  ///< by the key `framework`
  bool version_said = false;
  std::string line;                   ///< who it is and why, with the other one's key
  std::vector<FrameworkSetting> set;  ///< what the scenario left to it, in the order of reading
};

/// Defaults of one framework where a scenario says nothing, and its lacks. All of it is data:
/// platforms/frameworks/NAME.yaml. It notes which of its defaults were taken.
class Framework {
 public:
  /// InputError at `value` for an unknown name or version: `megatron`, or `{megatron:
  /// core_v0.14.0}`.
  explicit Framework(const Value& value);
  /// Nobody says which: `strategy` decides. Megatron-LM's are degrees above 1 beside ddp and zero,
  /// DeepSpeed's the stages 2 and 3 of zero; all else is PyTorch's.
  static Framework of_strategy(const std::optional<Value>& strategy);

  const std::string& name() const { return choice_.name; }
  const std::string& title() const { return choice_.title; }
  const FrameworkChoice& choice() const { return choice_; }

  /// The value that the data has for a key; nothing is noted.
  std::optional<std::string> find(const std::string& key) const;
  /// The same, as a number or a word; InternalError where the data does not say it.
  double number(const std::string& key) const;
  std::string word(const std::string& key) const;
  bool flag(const std::string& key) const { return word(key) == "true"; }
  /// From here on the defaults that differ in pipelines count.
  void in_pipelines();
  /// And those that differ where FSDP1 keeps replicas equal.
  void in_fsdp();
  /// Notes that a default was taken.
  void note(const std::string& key);

  // The common readers: the framework's default where `key` is missing in `map`, the section
  // `section` of a scenario.
  bool bool_or(Map& map, const std::string& section, const std::string& key);
  double number_or(Map& map, const std::string& section, const std::string& key);
  std::int64_t integer_or(Map& map, const std::string& section, const std::string& key,
                          std::int64_t low, std::int64_t high);
  std::string choice_or(Map& map, const std::string& section, const std::string& key,
                        const std::vector<std::string>& names);
  template <class T>
  T value_or(Map& map, const std::string& section, const KeyOf<T>& entry) {
    if (const std::optional<T> given = entry.in(map)) return *given;
    note(section + entry.name);
    return entry.in(map, entry.form.read(usual(section + entry.name)->root()));
  }
  /// It takes `fallback` where the framework has no default of its own.
  template <class T>
  T value_or(Map& map, const std::string& section, const KeyOf<T>& entry, const T& fallback) {
    return find(section + entry.name) ? value_or(map, section, entry) : entry.in(map, fallback);
  }

  /// InputError at the first key of a scenario that the framework does not have, or not beside
  /// another one. `root` has the section `strategy`.
  void check(const Map& root) const;
  /// The same as a sentence; empty: it has all.
  std::string broken_rule(const Map& root) const;

 private:
  struct Habit {
    std::string key, value, source;
    std::optional<std::string> in_pipelines{}, in_fsdp{};
  };
  struct Lack {
    std::string key;
    std::vector<std::string> values;  ///< empty: any
    std::vector<std::string> beside;  ///< one of them stands there, too; empty: it does not matter
    std::string why, remedy, source;
  };

  Framework() = default;
  void read(const std::string& name, const std::optional<Value>& version);
  void read_like(const std::string& name, const std::vector<std::string>& has);
  void read_habits(Map& habits);
  void read_lacks(const Value& list);
  const Habit* habit(const std::string& key) const;
  const Lack* lacking(const Map& root) const;
  const Habit& known(const std::string& key) const;
  /// The default of a key as a document, which forms can read.
  std::shared_ptr<const Document> usual(const std::string& key) const;

  FrameworkChoice choice_;
  std::vector<Habit> habits_;
  std::vector<Lack> lacks_;
};

/// "core_v0.14.0" as {0, 14, 0}: versions compare as these do.
std::vector<int> version_numbers(const std::string& version);

/// Those of platforms/frameworks that are there, torch first.
const std::vector<std::string>& framework_names();
/// The name alone: what the key says, if that is one, or what the strategy asks for.
std::string framework_name(Map& map, const std::optional<Value>& strategy);
/// The key `framework` of a map that has `strategy` beside it, or what that strategy asks for.
Framework read_framework(Map& map, const std::optional<Value>& strategy);

/// Whether a strategy shares a model among ranks: a degree above 1 of tensor, pipeline, context or
/// expert parallelism.
bool in_parts(const Value& strategy);

}  // namespace rehearse::inline framework
