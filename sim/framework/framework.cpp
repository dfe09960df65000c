#include "framework/framework.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <regex>
#include <utility>

#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "base/number.hpp"
#include "base/tables.hpp"
#include "cluster/cluster.hpp"
#include "framework/usual.hpp"

namespace rehearse::inline framework {
namespace {

/// Major and minor version: what a framework does changes with these, and patches mend it.
std::vector<int> release_of(const std::string& version) {
  std::vector<int> numbers = version_numbers(version);
  if (numbers.size() > 2) numbers.resize(2);
  return numbers;
}

/// "2.11", "core_v0.14.0", "2.11.0+cu128", "0.15.0rc4": numbers between dots, and what builds add.
bool is_version(const std::string& text) {
  static const std::regex kVersion(
      R"((core_)?v?\d+(\.\d+)*((a|b|rc|\.?dev|\.?post)\d+)?(\+[a-z0-9.]+)?)");
  return std::regex_match(text, kVersion);
}

/// InputError for one outside the releases whose defaults were read.
std::string read_version(Map& versions, const std::optional<Value>& said) {
  const std::string usual = versions.require("usual").as_string();
  const std::string first = versions.require("first").as_string();
  const std::string last = versions.require("last").as_string();
  versions.finish();
  if (!said) return usual;
  const std::string version = said->as_string();
  const std::vector<int> release = release_of(version);
  if (!is_version(version) || release < release_of(first) || release > release_of(last))
    said->fail(fmt::format("no version whose defaults are known; got \"{}\"", version),
               fmt::format("one from {} to {}, or none: {}", first, last, usual));
  return version_numbers(version).size() == 1 ? version + ".0" : version;
}

std::vector<std::string> texts_of(Map& map, const std::string& key) {
  std::vector<std::string> texts;
  const std::optional<Value> list = map.optional(key);
  if (!list) return texts;
  for (const Value& one : list->as_list()) texts.push_back(one.as_string());
  return texts;
}

}  // namespace

std::vector<int> version_numbers(const std::string& version) {
  std::vector<int> numbers;
  const char* at = version.data();
  const char* const end = at + version.size();
  while (at < end && (*at < '0' || *at > '9')) ++at;
  while (at < end) {
    int number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc{}) break;
    numbers.push_back(number);
    if (next == end || *next != '.') break;
    at = next + 1;
  }
  return numbers;
}

const std::vector<std::string>& framework_names() {
  static const std::vector<std::string> names = [] {
    const std::string first = "torch";
    std::vector<std::string> found = tables_in("frameworks");
    std::erase(found, first);
    found.insert(found.begin(), first);
    return found;
  }();
  return names;
}

void Framework::read_habits(Map& habits) {
  for (const std::string& key : habits.keys()) {
    Map one = habits.require(key).as_map();
    Habit habit{key, one.require("value").as_string(), one.require("source").as_string()};
    if (const auto since = one.optional("since")) {
      Map later = since->as_map();
      for (const std::string& version : later.keys()) {
        const std::string value = later.require(version).as_string();
        if (version_numbers(version) <= version_numbers(choice_.version)) habit.value = value;
      }
      later.finish();
    }
    if (const auto other = one.optional("in_pipelines")) habit.in_pipelines = other->as_string();
    if (const auto other = one.optional("in_fsdp")) habit.in_fsdp = other->as_string();
    one.finish();
    std::erase_if(habits_, [&](const Habit& before) { return before.key == key; });
    habits_.push_back(std::move(habit));
  }
}

void Framework::read_lacks(const Value& list) {
  for (const Value& item : list.as_list()) {
    Map one = item.as_map();
    Lack lack{.key = one.require("key").as_string(),
              .values = texts_of(one, "values"),
              .beside = texts_of(one, "beside"),
              .why = one.require("why").as_string(),
              .remedy = one.require("remedy").as_string(),
              .source = one.require("source").as_string()};
    const std::optional<Value> until = one.optional("until");
    one.finish();
    if (until && version_numbers(choice_.version) >= version_numbers(until->as_string())) continue;
    lacks_.push_back(std::move(lack));
  }
}

/// What another framework's usual version does and lacks, but for the keys that this one has.
void Framework::read_like(const std::string& name, const std::vector<std::string>& has) {
  const FrameworkChoice own = choice_;
  read(name, std::nullopt);
  choice_ = own;
  std::erase_if(lacks_, [&](const Lack& lack) { return std::ranges::count(has, lack.key) > 0; });
}

void Framework::read(const std::string& name, const std::optional<Value>& version) {
  const auto document = Document::load(platforms_path("frameworks/" + name + ".yaml"));
  Map root = document->root().as_map();
  choice_.name = name;
  choice_.title = root.require("title").as_string();
  Map versions = root.require("versions").as_map();
  choice_.version = read_version(versions, version);
  choice_.version_said = version.has_value();
  const std::vector<std::string> has = texts_of(root, "has");
  if (const auto like = root.optional("like")) read_like(like->as_string(), has);
  Map habits = root.require("defaults").as_map();
  read_habits(habits);
  const std::vector<Lack> of_another = std::exchange(lacks_, {});
  read_lacks(root.require("lacks"));
  lacks_.insert(lacks_.end(), of_another.begin(), of_another.end());
  root.finish();
}

Framework::Framework(const Value& value) {
  choice_.said = true;
  if (!value.is_map()) {
    read(value.as_choice(framework_names()), std::nullopt);
  } else {
    Map map = value.as_map();
    const std::vector<std::string> keys = map.keys();
    if (keys.size() != 1)
      value.fail(fmt::format("expected one framework and its version; got {} keys", keys.size()),
                 "such as `framework: {megatron: core_v0.14.0}`");
    const std::string& name = keys.front();
    if (std::ranges::find(framework_names(), name) == framework_names().end()) {
      const std::string near = nearest(name, framework_names());
      map.at_key(name).fail(fmt::format("expected a framework; got \"{}\"", name),
                            near.empty()
                                ? fmt::format("one of {}", fmt::join(framework_names(), ", "))
                                : fmt::format("did you mean \"{}\"?", near));
    }
    read(name, map.require(name));
  }
  choice_.line = fmt::format("{} {}", choice_.title, choice_.version);
}

Framework Framework::of_strategy(const std::optional<Value>& strategy) {
  Framework framework;
  const std::string name = strategy ? usual_framework(*strategy) : "torch";
  framework.read(name, std::nullopt);
  FrameworkChoice& choice = framework.choice_;
  choice.line = fmt::format("{} {}, {}", choice.title, choice.version, why_usual(name));
  return framework;
}

const Framework::Habit* Framework::habit(const std::string& key) const {
  const auto found = std::ranges::find(habits_, key, &Habit::key);
  return found == habits_.end() ? nullptr : &*found;
}

const Framework::Habit& Framework::known(const std::string& key) const {
  const Habit* const found = habit(key);
  if (found == nullptr)
    throw InternalError(fmt::format(
        "internal error: platforms/frameworks/{}.yaml says nothing of {}", name(), key));
  return *found;
}

std::optional<std::string> Framework::find(const std::string& key) const {
  const Habit* const found = habit(key);
  return found == nullptr ? std::nullopt : std::optional(found->value);
}

std::shared_ptr<const Document> Framework::usual(const std::string& key) const {
  return Document::parse(known(key).value, fmt::format("platforms/frameworks/{}.yaml", name()));
}

std::string Framework::word(const std::string& key) const { return known(key).value; }

double Framework::number(const std::string& key) const {
  return decimal_number(known(key).value).value();
}

void Framework::in_pipelines() {
  for (Habit& habit : habits_) habit.value = habit.in_pipelines.value_or(habit.value);
}

void Framework::in_fsdp() {
  for (Habit& habit : habits_) habit.value = habit.in_fsdp.value_or(habit.value);
}

void Framework::note(const std::string& key) {
  const Habit& taken = known(key);
  if (std::ranges::find(choice_.set, key, &FrameworkSetting::key) == choice_.set.end())
    choice_.set.push_back({key, taken.value, taken.source});
}

}  // namespace rehearse::inline framework
