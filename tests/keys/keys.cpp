// The reference of keys says what the readers of files ask for, both ways: each key, its type and
// its default.
#include "keys/keys.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "asked.hpp"
#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "view/json_view.hpp"

using namespace rehearse;

BOOST_AUTO_TEST_SUITE(keys_test)
namespace {

namespace fs = std::filesystem;

struct Row {
  std::string path;
  const Key* key;
  const KeySection* section;
  std::regex pattern;
};

/// `[]` as it stands; NAME is one name, KEY any path.
std::regex pattern_of(const std::string& path) {
  std::string text = std::regex_replace(path, std::regex(R"([.\[\]])"), R"(\$&)");
  text = std::regex_replace(text, std::regex("NAME"), R"([^./]+)");
  return std::regex(std::regex_replace(text, std::regex("KEY"), ".+?"));
}

const std::vector<Row>& rows() {
  static const std::vector<Row> kRows = [] {
    std::vector<Row> all;
    for (const KeySection& section : key_sections()) {
      for (const Key& key : section.keys) {
        const std::string path = fmt::format("{}{}", section.prefix, key.name);
        all.push_back({path, &key, &section, pattern_of(path)});
      }
    }
    return all;
  }();
  return kRows;
}

std::vector<std::string> split(const std::string& text, const std::string& by) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find(by, begin)) != std::string::npos; begin = end + by.size())
    parts.push_back(text.substr(begin, end - begin));
  parts.push_back(text.substr(begin));
  return parts;
}

/// The alternatives of a type, without units.
std::vector<std::string> types_of(const Key& key) {
  const std::string whole =
      std::regex_replace(key.type.text(), std::regex("true or false"), "true/false");
  std::vector<std::string> types = split(whole, " or ");
  for (std::string& type : types) {
    if (type == "true/false") type = "true or false";
    type = std::regex_replace(type, std::regex(R"( \(.*\)$| of `.*`$)"), "");
  }
  return types;
}

/// The rows of a path: its own, else those with NAME and KEY, else what the path stands for.
std::vector<const Row*> rows_of(const std::string& path, int depth = 0) {
  for (const Row& row : rows())
    if (row.path == path) return {&row};
  for (const Row& row : rows())
    if (row.path.find("KEY") == std::string::npos && std::regex_match(path, row.pattern))
      return {&row};
  std::vector<const Row*> found;
  if (depth > 4) return found;
  for (const Row& row : rows()) {
    for (const std::string& type : types_of(*row.key)) {
      if (!type.starts_with("as ")) continue;
      std::smatch match;
      const std::string whole =
          row.path.ends_with("KEY") ? row.path.substr(0, row.path.size() - 4) : row.path;
      if (!path.starts_with(whole + ".") && !path.starts_with(whole + "[")) continue;
      for (const Row* one : rows_of(type.substr(3) + path.substr(whole.size()), depth + 1))
        found.push_back(one);
    }
  }
  if (!found.empty()) return found;
  const Row* longest = nullptr;
  for (const Row& row : rows())
    if ((longest == nullptr || row.path.size() > longest->path.size()) &&
        std::regex_match(path, row.pattern))
      longest = &row;
  if (longest != nullptr) found.push_back(longest);
  return found;
}

bool is_item(const std::string& path) { return path.ends_with("[]"); }

/// What stands below `only: [{axis: label}]`, and in the values of axes, has names of its own.
bool has_free_names(const std::string& path) {
  static const std::regex kFree(
      R"((study|plan)/(only|exclude)\[\].*|(study|plan)/vary\..*\.(zip|values|labels)[.\[].*|)"
      R"((study|plan)/vary\..*\[\].*|(study|plan)/(cluster|run|model|strategy)\b.*|strategy\[\].*)");
  return std::regex_match(path, kFree);
}

/// How each key was read: lists as "list of TYPE".
std::map<const Row*, KeyLog::Use> uses_by_row() {
  std::map<const Row*, KeyLog::Use> by_row;
  for (const auto& [path, use] : asked()) {
    if (is_item(path) || has_free_names(path)) continue;
    KeyLog::Use whole = use;
    const auto items = asked().find(path + "[]");
    if (items != asked().end() && whole.types.erase("list") > 0)
      for (const std::string& type : items->second.types) whole.types.insert("list of " + type);
    for (const Row* row : rows_of(path)) {
      KeyLog::Use& at = by_row[row];
      at.types.insert(whole.types.begin(), whole.types.end());
      at.defaults.insert(whole.defaults.begin(), whole.defaults.end());
    }
  }
  return by_row;
}

bool is_fixed(const std::string& type) { return type.starts_with("as ") || type == "list"; }

/// Whether the reference's alternatives are what was read; "a name" stands for any list of names.
std::string difference_of_types(const Key& key, std::set<std::string> read) {
  std::string wrong;
  bool has_name = false;
  for (const std::string& type : types_of(key)) {
    const bool is_name = type == "a name" || type == "list of a name";
    has_name = has_name || is_name;
    if (is_fixed(type) || is_name) continue;
    if (read.erase(type) == 0) wrong += fmt::format("; never read as \"{}\"", type);
  }
  for (const std::string& type : read) {
    const bool names = type.find(" | ") != std::string::npos || type == "text" ||
                       type == "list of text" || type == "worker";
    if (has_name && names) continue;
    if (std::ranges::any_of(types_of(key), is_fixed)) continue;
    wrong += fmt::format("; read as \"{}\"", type);
  }
  return wrong;
}

std::string difference_of_defaults(const Key& key, const std::set<std::string>& taken) {
  if (taken.empty() || key.fallback.starts_with("(")) return "";
  const std::vector<std::string> listed = split(std::string(key.fallback), " or ");
  const std::set<std::string> said(listed.begin(), listed.end());
  return said == taken ? "" : fmt::format("; its default is {}", fmt::join(taken, " or "));
}

std::string text_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_key_that_a_reader_asks_for_stands_in_the_reference) {
  for (const auto& [path, use] : asked()) {
    if (is_item(path) || has_free_names(path)) continue;
    BOOST_CHECK_MESSAGE(
        !rows_of(path).empty(),
        path << " is in no line of sim/keys; types: " << fmt::format("{}", use.types)
             << ", defaults: " << fmt::format("{}", use.defaults));
  }
}

BOOST_AUTO_TEST_CASE(every_key_of_the_reference_is_asked_for_with_its_type_and_default) {
  const auto by_row = uses_by_row();
  for (const Row& row : rows()) {
    if (row.key->is_field) continue;                // what reads it says so
    if (row.section->prefix == "cases/") continue;  // recorded runs are long to read
    if (is_fixed(types_of(*row.key).front())) continue;
    const auto found = by_row.find(&row);
    BOOST_CHECK_MESSAGE(found != by_row.end(), row.path << ": no reader asks for it");
    if (found == by_row.end()) continue;
    const std::string wrong = difference_of_types(*row.key, found->second.types) +
                              difference_of_defaults(*row.key, found->second.defaults);
    BOOST_CHECK_MESSAGE(wrong.empty(), row.path << wrong);
  }
}

/// Of a file, or of all files of a folder.
std::string code_of(const fs::path& path) {
  if (!fs::is_directory(path)) return text_of(path);
  std::string all;
  for (const auto& entry : fs::directory_iterator(path)) all += text_of(entry.path());
  return all;
}

/// Also what no file of the corpus reaches: by the literals in the readers' sources.
BOOST_AUTO_TEST_CASE(every_literal_of_a_reader_is_a_key_and_every_key_is_a_literal) {
  std::set<std::string> leaves;
  for (const Row& row : rows()) leaves.insert(row.path.substr(row.path.find_last_of("./") + 1));
  const std::regex call(
      R"re((?:require|optional|[a-z_]+_or|read_\w+|number_within|share|rate|add)\()re"
      R"re((?:(?:map|run|failures|named\.options), )?"([a-z_0-9]+)")re");
  for (const char* folder : {"src", "sim"}) {
    for (const auto& entry : fs::recursive_directory_iterator(data_folder() / folder)) {
      if (entry.path().extension() != ".cpp") continue;
      // Nobody writes these files: platforms/kernels/fit does, and its README explains them.
      if (entry.path().filename() == "read_kernel_curves.cpp") continue;
      // Its file is platforms/servers.yaml, which explains itself.
      if (entry.path().filename() == "server_host.cpp") continue;
      // Its file is platforms/prices.yaml, which explains itself.
      if (entry.path().filename() == "prices.cpp") continue;
      // Its files are platforms/frameworks, whose README explains them.
      if (entry.path().filename() == "framework.cpp") continue;
      // Their files are platforms/signs.yaml, platforms/hub.yaml and platforms/convergence.
      if (entry.path().filename() == "foreign_training.cpp") continue;
      if (entry.path().filename() == "hub.cpp") continue;
      if (entry.path().filename() == "workloads.cpp") continue;
      // Its files are those of others, and platforms/formats, whose README explains them.
      if (entry.path().parent_path().filename() == "foreign") continue;
      if (entry.path().filename() == "import_log.cpp") continue;
      // Their files are platforms/engines, whose README explains them, and platforms/refits.yaml.
      if (entry.path().filename() == "engine.cpp" || entry.path().filename() == "refit.cpp")
        continue;
      // It lists these engines' titles and versions.
      if (entry.path().filename() == "names.cpp") continue;
      // Its file is platforms/intervals.yaml, which tests/validation/intervals/fit writes.
      if (entry.path().filename() == "interval_errors.cpp") continue;
      // Its files are those of record and calibrate.
      if (entry.path().filename() == "measured.cpp" ||
          entry.path().filename() == "recorded_kernels.cpp")
        continue;
      const std::string text = text_of(entry.path());
      if (text.find("Map ") == std::string::npos && text.find("Map&") == std::string::npos)
        continue;
      for (std::sregex_iterator i(text.begin(), text.end(), call), end; i != end; ++i)
        BOOST_CHECK_MESSAGE(leaves.contains((*i)[1]), entry.path().filename().string()
                                                          << " reads a key \"" << (*i)[1]
                                                          << "\", which is in no line of sim/keys");
    }
  }
  for (const Row& row : rows()) {
    std::string leaf = row.path.substr(row.path.find_last_of("./") + 1);
    if (leaf == "NAME" || leaf == "KEY") continue;
    std::string code;
    for (const std::string& file : split(std::string(row.section->code), " "))
      code += code_of(data_folder() / file);
    BOOST_CHECK_MESSAGE(code.find(fmt::format("\"{}\"", leaf)) != std::string::npos ||
                            types_of(*row.key).front().starts_with("as "),
                        row.path << ": not in " << row.section->code);
  }
}

/// Whether a report has such a figure: "memory.used_bytes".
bool is_figure(const std::string& path) {
  const nlohmann::ordered_json report = report_schema();
  const nlohmann::ordered_json* place = &report;
  for (const std::string& step : split(path, ".")) {
    while (place->contains("anyOf")) place = &place->at("anyOf").front();
    if (!place->contains("properties") || !place->at("properties").contains(step)) return false;
    place = &place->at("properties").at(step);
  }
  return true;
}

/// Whether a scenario may have something at that place: a key, or what keys stand below.
bool is_place(const std::string& path) {
  return std::ranges::any_of(rows(), [&](const Row& row) {
    return std::regex_match(path, row.pattern) || row.path.starts_with(path + ".");
  });
}

/// A key that is renamed in the lists alone fails here. Other people's files have names of their
/// own, which sim/foreign knows.
BOOST_AUTO_TEST_CASE(every_dotted_name_in_the_code_is_a_key_or_a_figure) {
  const std::regex dotted(
      R"re("((?:model|cluster|strategy|optimizer|train|run|memory|energy|failures|rl)\.[a-z_0-9.]+))re");
  // A word of an assumption, an axis of a sweep, and parts of figures' names.
  const std::set<std::string> others = {
      "model.sample",     "strategy.labels",      "strategy.values", "memory.used",
      "memory.allocated", "memory.out_of_memory", "memory.verdict",  "memory.fits"};
  std::size_t found = 0;
  for (const auto& entry : fs::recursive_directory_iterator(data_folder() / "sim")) {
    const std::string file = entry.path().string();
    if (!entry.is_regular_file() || file.find("/foreign/") != std::string::npos) continue;
    const std::string text = text_of(entry.path());
    for (std::sregex_iterator i(text.begin(), text.end(), dotted), end; i != end; ++i) {
      std::string name = (*i)[1];
      while (name.ends_with('.')) name.pop_back();
      ++found;
      BOOST_CHECK_MESSAGE(is_place(name) || is_figure(name) || others.contains(name),
                          entry.path().filename().string()
                              << " says \"" << name << "\", which is no key and no figure");
    }
  }
  BOOST_TEST(found > 200u);
}

BOOST_AUTO_TEST_CASE(the_page_is_what_the_program_prints) {
  BOOST_CHECK_MESSAGE(text_of(data_folder() / "scenarios/keys.md") == keys_markdown(),
                      "scenarios/keys.md is stale: ./rehearse list keys --format markdown > "
                      "scenarios/keys.md");
}

BOOST_AUTO_TEST_CASE(a_prefix_chooses_keys) {
  const std::string text = keys_text("strategy.ddp.bucket");
  BOOST_TEST(
      text ==
      "strategy.ddp.bucket_cap_mb = 25 or 100 or 128 or 1000000\n    number > 0 (MiB); PyTorch "
      "DistributedDataParallel\n    Gradients in one bucket, at the least.\n");
  BOOST_CHECK_THROW(keys_text("no_such"), InputError);
}

BOOST_AUTO_TEST_SUITE_END()
