#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.hpp"
#include "base/number.hpp"
#include "config/document.hpp"
#include "foreign/facts.hpp"

namespace rehearse::inline foreign {
namespace {

constexpr double kMostCount = 1e15;

/// The last of a key's settings counts, as it does of a command line's options.
class Settings {
 public:
  Settings(const std::vector<Entry>& entries, const Format& format) {
    for (const Entry& entry : entries) {
      values_[entry.key] = entry.value;
      for (const std::string& beginning : format.strip)
        if (entry.key.starts_with(beginning))
          values_.insert_or_assign(entry.key.substr(beginning.size()), entry.value);
    }
  }

  bool hold(const Rule::Pairs& when) const { return holds(when, values_); }

 private:
  std::map<std::string, std::string> values_;
};

/// `value` is the entry's without what its rule cuts off.
void check_kind(const Entry& entry, const std::string& value, Rule::Kind kind) {
  const auto fail = [&](const char* expected) {
    fail_at(entry.place,
            fmt::format("{}: expected {}; got \"{}\"", entry.key, expected, entry.said),
            decimal_number(value) ? "" : "put a value in its place, in a copy");
  };
  if (kind == Rule::Kind::flag && value != "true" && value != "false") fail("true or false");
  if (kind == Rule::Kind::flag || kind == Rule::Kind::word) return;
  const auto number = decimal_number(value);
  if (kind == Rule::Kind::number) {
    if (!number || *number < 0) fail("a number of 0 or more");
    return;
  }
  const double least = kind == Rule::Kind::whole ? 0 : 1;
  const bool whole = number && *number == std::floor(*number);
  if (!whole || *number < least || *number > kMostCount)
    fail(least > 0 ? "a whole number above 0" : "a whole number of 0 or more");
}

/// The option that says what a rule's fact is.
std::string option_of(const Rule& rule) {
  if (!rule.about.empty()) return rule.about;
  std::string fact = rule.to;
  if (fact.empty() && !rule.set.empty()) fact = rule.set.front().first;
  static const std::map<std::string, std::string> kOptions = {
      {"model.use", "model"},           {"model.hf", "model"},  {"micro_batch", "batch"},
      {"model.sequence", "sequence"},   {"amp", "precision"},   {"dtype", "precision"},
      {"model.precision", "precision"}, {"tf32", "precision"},  {"accumulation", "accumulation"},
      {"global_batch", "accumulation"}, {"longest", "sequence"}};
  const auto found = kOptions.find(fact);
  if (found != kOptions.end()) return found->second;
  return fact.starts_with("model.transformer.") ? "model" : "";
}

std::optional<std::string> looked_up(const Rule& rule, std::string value) {
  const auto find = [&]() -> std::optional<std::string> {
    for (const auto& [from, to] : rule.values)
      if (from == value) return to;
    return std::nullopt;
  };
  if (const auto found = find()) return found;
  for (const std::string& part : rule.cut)
    if (const std::size_t at = value.find(part); at != std::string::npos)
      value.erase(at, part.size());
  return find();
}

class Translator {
 public:
  Translator(const std::vector<Entry>& entries, const Format& format)
      : format_(format), settings_(entries, format) {
    for (const auto& [name, value] : format.defaults) made_.facts[name] = {value, "", {}, 0};
  }

  void take(const Entry& entry) {
    const std::vector<const Rule*> rules = format_.rules_of(entry.key);
    const auto rule = std::ranges::find_if(rules, [&](const Rule* one) {
      const bool is = one->is.empty() || std::ranges::find(one->is, entry.value) != one->is.end();
      return is && entry.value.find(one->contains) != std::string::npos &&
             settings_.hold(one->when);
    });
    if (rule == rules.end()) {
      // A key without a value is as one that is not there.
      if (entry.value == "null") return tell(made_.no_effect, entry, "");
      return rules.empty() ? tell(made_.unknown, entry, meant(entry.key))
                           : tell(made_.cannot, entry, "what this value does is not known here");
    }
    apply(entry, **rule);
  }

  /// A key stands again further down, which counts alone, as Hydra and argparse have it.
  void pass_over(const Entry& entry) { tell(made_.no_effect, entry, "the last one counts"); }

  Translation result() { return std::move(made_); }

 private:
  /// What a misspelt key is: a word of as many parts that has a meaning here.
  std::string meant(const std::string& key) const {
    std::vector<std::string> known;
    for (const Rule& rule : format_.rules)
      if (!rule.none && !rule.writes_only && rule.key.find('*') == std::string::npos)
        known.push_back(rule.key);
    const std::string found = nearest(key, known);
    const bool is_part = found.find(key) != std::string::npos;
    return found.empty() || is_part ? "" : fmt::format("is {} meant?", found);
  }

  /// These may stand in the place of a value that a rule has no word for.
  static std::string unknown_value(const Entry& entry, const Rule& rule) {
    std::vector<std::string> known;
    for (const auto& [from, to] : rule.values) known.push_back(from);
    const std::string meant = nearest(entry.value, known), option = option_of(rule);
    std::string text = "what this value does is not known here";
    if (!meant.empty()) text += fmt::format(", is {} meant?", meant);
    return option.empty()
               ? text
               : fmt::format("{}{} --{} says it", text, meant.empty() ? ";" : "", option);
  }

  static void tell(std::vector<Told>& to, const Entry& entry, const std::string& what,
                   const std::string& option = "") {
    to.push_back({entry.key, entry.said, what, entry.place, option});
  }

  void apply(const Entry& entry, const Rule& rule) {
    if (rule.none) return tell(made_.no_effect, entry, "");
    if (!rule.asks.empty()) {
      tell(made_.left, entry, rule.cannot, rule.asks);
      for (const auto& [name, as] : rule.set) made_.facts.try_emplace(name, Fact{as, "", {}, 0});
      return;
    }
    if (!rule.names.empty() && entry.value != "null") {
      const bool says_some = !rule.set.empty();
      made_.named.push_back(
          {{entry.key, entry.said, "", entry.place, ""}, rule.names, entry.unless, says_some});
      if (!says_some) return;
    }
    const bool says_null = std::ranges::find(rule.is, "null") != rule.is.end();
    if (entry.value == "null" && !says_null && !looked_up(rule, "null"))
      return tell(made_.no_effect, entry, "");
    // A rule for any value holds for one that is not known, too.
    const bool any_value = rule.is.empty() && rule.to.empty() && rule.values.empty() &&
                           !rule.set.empty() &&
                           entry.unless.find("does not say what") != std::string::npos;
    if (!entry.unless.empty() && !any_value) {
      // How many there are is the machine's part, which `--on` says.
      const bool of_machine = rule.to == "nodes" || rule.to == "gpus" || rule.to == "gpus_per_node";
      if (of_machine) return tell(made_.left, entry, "--on says it", "on");
      return tell(made_.cannot, entry, entry.unless, option_of(rule));
    }
    std::string value = entry.value;
    if (!rule.values.empty()) {
      const auto called = looked_up(rule, value);
      // An option may say the value; what follows from the rule holds beside it.
      if (!called && !rule.about.empty())
        for (const auto& [name, as] : rule.set)
          made_.facts.try_emplace(name, Fact{as, entry.key, entry.place, 0});
      if (!called)
        return tell(made_.cannot, entry,
                    rule.cannot.empty() ? unknown_value(entry, rule) : rule.cannot,
                    rule.about.empty() ? option_of(rule) : rule.about);
      value = *called;
    } else if (rule.to.empty() && rule.set.empty()) {
      return tell(made_.cannot, entry, rule.cannot, rule.about);
    } else if (!rule.to.empty()) {
      for (const std::string& part : rule.cut) {
        if (value.starts_with(part))
          value.erase(0, part.size());
        else if (value.ends_with(part))
          value.resize(value.size() - part.size());
      }
      const bool is_number = rule.kind == Rule::Kind::flag && (value == "1" || value == "0");
      if (is_number)
        value = value == "1" ? "true" : "false";
      else
        check_kind(entry, value, rule.kind);
    }
    std::string what;
    const auto set = [&](const std::string& name, const std::string& as) {
      what += fmt::format("{}{}: {}", what.empty() ? "" : ", ", name, as);
      const std::size_t rank = static_cast<std::size_t>(&rule - format_.rules.data()) + 1;
      Fact& fact = made_.facts[name];
      if (rank >= fact.rank) fact = {as, entry.key, entry.place, rank};
    };
    if (!rule.to.empty()) set(rule.to, value);
    for (const auto& [name, as] : rule.set) set(name, as);
    tell(made_.mapped, entry, what);
  }

  const Format& format_;
  Settings settings_;
  Translation made_;
};

}  // namespace

Translation translate(const std::vector<Entry>& entries, const Format& format) {
  Translator translator(entries, format);
  std::map<std::string, std::size_t> last;
  for (std::size_t i = 0; i < entries.size(); ++i) last[entries[i].key] = i;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const bool of_list = entries[i].key.find("[]") != std::string::npos;
    if (of_list || last[entries[i].key] == i)
      translator.take(entries[i]);
    else
      translator.pass_over(entries[i]);
  }
  return translator.result();
}

std::string value_of(const Facts& facts, const std::string& name) {
  const auto found = facts.find(name);
  return found == facts.end() ? "" : found->second.value;
}

bool has(const Facts& facts, const std::string& name) { return facts.contains(name); }

void say(Facts& facts, const std::string& name, const std::string& value) {
  facts[name].value = value;
}

std::int64_t count_of(const Facts& facts, const std::string& name) {
  const auto number = decimal_number(value_of(facts, name));
  return number ? static_cast<std::int64_t>(*number) : 0;
}

}  // namespace rehearse::inline foreign
