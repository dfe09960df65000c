// Sixty configurations of ten kinds, each beside its scenario, in *.cases here. A run with
// REHEARSE_UPDATE=1 in the environment writes what they become now.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "../scratch.hpp"
#include "base/data_folder.hpp"
#include "foreign/export_config.hpp"
#include "foreign/import_config.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(foreign_configs)
namespace {

const std::string kScenario = "--- scenario\n";

struct Case {
  std::string head, body, expected;
  std::vector<std::string> words;  ///< of the head: its name, then options
};

std::vector<std::string> words_of(const std::string& head) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char c : head) {
    if (c == '\'')
      quoted = !quoted;
    else if (c == ' ' && !quoted)
      words.emplace_back();
    else
      words.back() += c;
  }
  return words;
}

std::filesystem::path file_of(const std::string& format) {
  return data_folder() / "tests/foreign" / (format + ".cases");
}

std::vector<Case> cases_of(const std::string& format) {
  std::ifstream file(file_of(format));
  std::vector<Case> cases;
  bool expected = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("=== ")) {
      cases.push_back({line.substr(4), "", "", words_of(line.substr(4))});
      expected = false;
    } else if (line + "\n" == kScenario) {
      expected = true;
    } else {
      (expected ? cases.back().expected : cases.back().body) += line + "\n";
    }
  }
  return cases;
}

ImportOptionsOfConfig options_of(const Case& one) {
  ImportOptionsOfConfig options;
  for (std::size_t i = 1; i < one.words.size(); ++i) {
    const std::string& word = one.words[i];
    if (word == "--allow") {
      options.allow = true;
      continue;
    }
    const std::string value = one.words.at(++i);
    if (word == "--on") options.asked.on = value;
    if (word == "--model") options.asked.model = value;
    if (word == "--sequence") options.asked.sequence = value;
    if (word == "--batch") options.asked.batch = value;
    if (word == "--framework") options.format = value;
  }
  return options;
}

/// Without the first line, which names the file.
std::string scenario_of(const ImportedConfig& imported) {
  return imported.scenario.substr(imported.scenario.find('\n') + 1);
}

std::string names_of(const std::vector<Told>& told) {
  std::vector<std::string> names;
  for (const Told& one : told) names.push_back(one.key);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string told_of(const ImportedConfig& imported) {
  const Translation& told = imported.told;
  return fmt::format("{}# {} mapped, {} without effect; unknown: [{}]; cannot be said: [{}]\n",
                     scenario_of(imported), told.mapped.size(), told.no_effect.size(),
                     names_of(told.unknown), names_of(told.cannot));
}

BOOST_AUTO_TEST_CASE(each_becomes_its_scenario) {
  const Scratch scratch;
  const bool update = std::getenv("REHEARSE_UPDATE") != nullptr;
  for (const std::string& format : format_names()) {
    std::string text;
    const std::vector<Case> cases = cases_of(format);
    BOOST_TEST(cases.size() >= 6, format);
    for (const Case& one : cases) {
      BOOST_TEST_CONTEXT(format << " " << one.head) {
        const auto file = scratch.write(one.words.front(), one.body);
        std::string is;
        BOOST_REQUIRE_NO_THROW(is = told_of(import_config({file}, options_of(one))));
        if (!update && !one.expected.empty()) BOOST_TEST(is == one.expected);
        text += fmt::format("=== {}\n{}{}{}", one.head, one.body, kScenario, is);
      }
    }
    if (update) std::ofstream(file_of(format)) << text;
  }
}

BOOST_AUTO_TEST_CASE(each_scenario_can_be_read) {
  const Scratch scratch;
  for (const std::string& format : format_names())
    for (const Case& one : cases_of(format)) BOOST_TEST_CONTEXT(format << " " << one.head) {
        const auto file = scratch.write(one.words.front(), one.body);
        const ImportedConfig imported = import_config({file}, options_of(one));
        BOOST_CHECK_NO_THROW(read_scenario(*Document::parse(imported.scenario, "imported.yaml")));
      }
}

/// In, out, and in again is the identity on all that is mapped.
BOOST_AUTO_TEST_CASE(out_and_in_again_is_the_same_scenario) {
  const Scratch scratch;
  for (const std::string& format : format_names()) {
    const std::string out = format == "nemo" ? "megatron" : format;
    const auto& exported = exported_formats();
    if (std::ranges::find(exported, out) == exported.end()) continue;
    for (const Case& one : cases_of(format)) BOOST_TEST_CONTEXT(format << " " << one.head) {
        ImportOptionsOfConfig options = options_of(one);
        const ImportedConfig first =
            import_config({scratch.write(one.words.front(), one.body)}, options);
        const auto document = Document::parse(first.scenario, "imported.yaml");
        const ExportedConfig made = export_config(read_scenario(*document), *document, out);
        const auto file = scratch.write("again.txt", made.text);
        options.format = out;
        ImportedConfig second;
        BOOST_REQUIRE_NO_THROW(second = import_config({file}, options));
        BOOST_TEST(scenario_of(second) == scenario_of(first));
        BOOST_TEST(names_of(second.told.unknown) == "");
        BOOST_TEST(names_of(second.told.cannot) == "");
      }
  }
}

/// torchtitan's own policy runs where a file is silent, and so it is written.
BOOST_AUTO_TEST_CASE(torchtitans_own_checkpoints_are_written_out) {
  const auto written = [](const std::string& policy, const std::string& text) {
    const auto document = Document::parse(
        fmt::format(
            "model: {{use: llama_3_8b, sequence: 8192, batch_per_gpu: 1, precision: fp32{}}}"
            "\nframework: torchtitan\ncluster: {{use: dgx_h100, nodes: 1}}\n"
            "strategy: {{fsdp2: {{}}}}\noptimizer: {{adamw: {{}}}}\n",
            policy),
        "test.yaml");
    return export_config(read_scenario(*document), *document, "torchtitan").text.find(text) !=
           std::string::npos;
  };
  const std::string every = "mode = \"selective\"\nselective_ac_option = \"2\"";
  const std::string none = "mode = \"none\"";
  const std::string key = ", activation_checkpointing: ";
  BOOST_TEST(written("", every));
  BOOST_TEST(written(key + "{every_layer: 2}", every));
  BOOST_TEST(written(key + "none", none));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
