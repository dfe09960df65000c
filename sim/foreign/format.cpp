#include "foreign/format.hpp"

#include <algorithm>
#include <map>
#include <memory>

#include "base/data_folder.hpp"
#include "base/number.hpp"
#include "base/tables.hpp"
#include "config/document.hpp"
#include "foreign/entry.hpp"

namespace rehearse::inline foreign {
namespace {

Rule::Pairs pairs_of(Map& map, const std::string& key) {
  Rule::Pairs pairs;
  const auto value = map.optional(key);
  if (!value) return pairs;
  Map entries = value->as_map();
  for (const std::string& name : entries.keys())
    pairs.emplace_back(canonical(name), entries.require(name).shown());
  return pairs;
}

/// Names of keys and facts stay as they are, and so do values of facts.
Rule::Pairs named(Map& map, const std::string& key, bool of_settings = false) {
  Rule::Pairs pairs;
  const auto value = map.optional(key);
  if (!value) return pairs;
  Map entries = value->as_map();
  for (const std::string& name : entries.keys()) {
    const Value one = entries.require(name);
    const std::string shown = one.is_null() ? "null" : one.shown();
    pairs.emplace_back(name, of_settings ? canonical(shown) : shown);
  }
  return pairs;
}

std::vector<std::string> words_of(const Value& value) {
  std::vector<std::string> words;
  if (!value.is_list()) return {canonical(value.shown())};
  for (const Value& one : value.as_list())
    words.push_back(one.is_null() ? "null" : canonical(one.shown()));
  return words;
}

Rule read_rule(const Value& value) {
  static const std::vector<std::string> kKinds = {"word",   "count", "whole",
                                                  "number", "flag",  "count_word"};
  Map map = value.as_map();
  Rule rule;
  rule.key = map.require("key").as_string();
  if (const auto is = map.optional("is")) rule.is = words_of(*is);
  rule.contains = map.string_or("contains", "");
  rule.when = named(map, "when", true);
  rule.to = map.string_or("to", "");
  const std::string kind = map.choice_or("kind", "word", kKinds);
  rule.kind = static_cast<Rule::Kind>(std::ranges::find(kKinds, kind) - kKinds.begin());
  rule.values = pairs_of(map, "values");
  if (const auto cut = map.optional("cut"))
    for (const Value& part : cut->as_list()) rule.cut.push_back(part.as_string());
  rule.set = named(map, "set");
  rule.none = map.bool_or("none", false);
  rule.cannot = map.string_or("cannot", "");
  rule.reads_only = map.bool_or("reads_only", false);
  rule.writes_only = map.bool_or("writes_only", false);
  rule.asks = map.string_or("asks", "");
  rule.about = map.string_or("about", "");
  rule.names = map.string_or("names", "");
  map.finish();
  if (rule.to.empty() && rule.set.empty() && !rule.none && rule.cannot.empty() &&
      rule.asks.empty() && rule.names.empty())
    value.fail("a rule without to, set, names, none or cannot");
  return rule;
}

Check read_check(const Value& value) {
  Map map = value.as_map();
  Check check;
  check.when = named(map, "when", true);
  check.since = map.string_or("since", "");
  check.until = map.string_or("until", "");
  check.write = named(map, "write", true);
  const auto list = [&](const char* key) {
    const auto one = map.optional(key);
    return one ? words_of(*one) : std::vector<std::string>{};
  };
  check.drop = list("drop");
  check.left = map.string_or("left", "");
  check.variable = map.string_or("variable", "");
  check.value = map.string_or("value", "");
  check.multiple = list("multiple");
  check.why = map.string_or("why", "");
  check.remedy = map.string_or("remedy", "");
  map.require("source").as_string();
  map.finish();
  return check;
}

/// Keys that say nothing here, and keys that nobody can say, are lists: most of a format's are.
void read_group(const Value& value, Format& format) {
  Map map = value.as_map();
  map.require("source").as_string();
  const bool reads_only = map.bool_or("reads_only", false);
  if (const auto rules = map.optional("rules"))
    for (const Value& rule : rules->as_list()) {
      format.rules.push_back(read_rule(rule));
      format.rules.back().reads_only = format.rules.back().reads_only || reads_only;
    }
  if (const auto cannot = map.optional("cannot")) {
    Map reasons = cannot->as_map();
    for (const std::string& key : reasons.keys()) {
      Rule rule;
      rule.key = key;
      rule.cannot = reasons.require(key).as_string();
      format.rules.push_back(rule);
    }
  }
  if (const auto none = map.optional("no_effect"))
    for (const Value& key : none->as_list()) {
      Rule rule;
      rule.key = key.as_string();
      rule.none = true;
      format.rules.push_back(rule);
    }
  map.finish();
}

Format read_format(const std::string& name) {
  const auto document = Document::load_foreign(platforms_path("formats/" + name + ".yaml"));
  Map map = document->root().as_map();
  Format format;
  format.name = name;
  format.title = map.require("title").as_string();
  format.framework = map.require("framework").as_string();
  if (const auto strip = map.optional("strip"))
    for (const Value& one : strip->as_list()) format.strip.push_back(one.as_string());
  format.defaults = named(map, "defaults");
  format.always = named(map, "always");
  const auto base = map.optional("extends");
  const bool writes_own = map.bool_or("writes_own", false);
  if (const auto checks = map.optional("checks"))
    for (const Value& one : checks->as_list()) format.checks.push_back(read_check(one));
  for (const Value& group : map.require("groups").as_list()) read_group(group, format);
  map.finish();
  format.written_rules = format.rules.size();
  if (!base) return format;
  format.base = base->as_string();
  const Format& inner = format_of(format.base);
  format.rules.insert(format.rules.end(), inner.rules.begin(), inner.rules.end());
  for (const auto& one : inner.defaults) {
    const auto same = [&](const auto& own) { return own.first == one.first; };
    if (std::ranges::none_of(format.defaults, same)) format.defaults.push_back(one);
  }
  if (!writes_own) format.written_rules = format.rules.size();
  return format;
}

bool is_pattern(const std::string& key) { return key.starts_with('*') || key.ends_with('*'); }

bool fits(const std::string& pattern, const std::string& key) {
  if (pattern.starts_with('*')) return key.ends_with(pattern.substr(1));
  if (!pattern.ends_with('*')) return pattern == key;
  return key.starts_with(pattern.substr(0, pattern.size() - 1));
}

}  // namespace

std::vector<const Rule*> Format::rules_of(const std::string& key) const {
  std::vector<const Rule*> found;
  const auto look = [&](const std::string& called) {
    for (const bool whole : {true, false})
      for (const Rule& rule : rules)
        if (!rule.writes_only && is_pattern(rule.key) != whole && fits(rule.key, called))
          found.push_back(&rule);
  };
  look(key);
  for (const std::string& beginning : strip)
    if (key.starts_with(beginning)) look(key.substr(beginning.size()));
  return found;
}

bool holds(const Rule::Pairs& when, const std::map<std::string, std::string>& settings) {
  constexpr std::string_view kAbove = "above ";
  return std::ranges::all_of(when, [&](const auto& one) {
    const auto& [key, asked] = one;
    const auto found = settings.find(key);
    const bool there = found != settings.end() && found->second != "null";
    if (asked == "absent") return !there;
    if (asked == "present") return there;
    if (asked.starts_with('!')) return !there || found->second != asked.substr(1);
    if (asked.starts_with(kAbove)) {
      const auto least = decimal_number(asked.substr(kAbove.size()));
      const auto number = there ? decimal_number(found->second) : std::nullopt;
      return least && number && *number > *least;
    }
    return there && found->second == asked;
  });
}

bool Format::knows(const std::string& key) const {
  const auto named = [&](std::string_view called) {
    return std::ranges::any_of(rules, [&](const Rule& rule) { return rule.key == called; });
  };
  return named(key) || std::ranges::any_of(strip, [&](const std::string& beginning) {
           return key.starts_with(beginning) &&
                  named(std::string_view(key).substr(beginning.size()));
         });
}

const std::vector<std::string>& format_names() {
  static const std::vector<std::string> names = tables_in("formats");
  return names;
}

const Format& format_of(const std::string& name) {
  static std::map<std::string, std::unique_ptr<Format>> read;
  auto& format = read[name];
  if (!format) format = std::make_unique<Format>(read_format(name));
  return *format;
}

}  // namespace rehearse::inline foreign
