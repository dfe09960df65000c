#include "readers.hpp"

#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "config/document.hpp"
#include "config/files_read.hpp"
#include "convergence/curve.hpp"
#include "convergence/update_file.hpp"
#include "foreign/import_config.hpp"
#include "foreign/logs/import_log.hpp"
#include "foreign/topology.hpp"
#include "foreign/traces/chakra.hpp"
#include "foreign/traces/kineto_profile.hpp"
#include "profile/compute_profile.hpp"
#include "profile/import.hpp"
#include "scenario/scenario.hpp"
#include "study/result_store.hpp"
#include "study/study.hpp"

namespace rehearse {
namespace {

const char* const kInput = "input";

/// What is shipped, read once; nothing else is there, whatever a text names.
FilesKept& files() {
  static FilesKept kept;
  static const bool shipped = [] {
    const auto folder = data_folder() / "platforms";
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) read_input(entry.path(), std::size_t{16} << 20);
    }
    kept.keep("base.yaml",
              "model: {name: m, batch_per_gpu: 1, optimizer_time: 1ms, units: [{name: u, "
              "parameters: 1, forward: 1ms, backward: 2ms, activation: 1MiB}]}\n");
    kept.close();
    return true;
  }();
  (void)shipped;
  return kept;
}

const char* input(const std::string& text) {
  files().keep(kInput, text);
  return kInput;
}

std::filesystem::path scratch_file(const std::string& ending) {
  return std::filesystem::temp_directory_path() /
         fmt::format("rehearse-fuzz-{}{}", getpid(), ending);
}

/// A file of its own for what reads no kept one; it is gone with the process.
std::filesystem::path file_of(const std::string& text) {
  static const struct Scratch {
    std::filesystem::path file = scratch_file("");
    ~Scratch() { std::filesystem::remove(file); }
  } scratch;
  std::ofstream(scratch.file, std::ios::binary) << text;
  return scratch.file;
}

/// A configuration of the format that the text's first line names, and the scenario that it is.
void read_config(const std::string& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const ImportOptionsOfConfig options{.asked = {"1xdgx_h100", "gpt2", "1024", "1", "", ""},
                                      .format = text.substr(0, end),
                                      .allow = true};
  const auto& known = format_names();
  if (std::ranges::find(known, options.format) == known.end()) return;
  const ImportedConfig made = import_config({input(text.substr(end))}, options);
  read_scenario(*Document::parse(made.scenario, kInput));
}

void read_trace(const std::string& text) {
  profile_of({read_kineto(file_of(text), nullptr)},
             {.batch = 1, .gpu = "H200-SXM", .command = "fuzz"});
}

/// A store whose study, point and result hold the text's lines.
void read_store(const std::string& text) {
  static const std::filesystem::path file = scratch_file(".sqlite");
  std::vector<std::string> lines(4);
  for (std::size_t line = 0, at = 0; line < lines.size(); ++line) {
    const std::size_t end = line + 1 < lines.size() ? text.find('\n', at) : text.size();
    lines[line] = text.substr(at, end == std::string::npos ? end : end - at);
    if (end == std::string::npos) break;
    at = std::min(end + 1, text.size());
  }
  static ResultStore store(file);
  static SQLite::Database raw(file.string(), SQLite::OPEN_READWRITE);
  static const bool prepared = [] {
    store.describe({"p", "s", "", "b", {"a"}}, {{{"1"}, "k"}});
    raw.exec("PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY");
    unlink(file.c_str());  // it lives on in this process alone
    return true;
  }();
  (void)prepared;
  SQLite::Statement axes(raw, "UPDATE study SET value = ? WHERE name = 'axes'");
  axes.bind(1, lines[0]);
  axes.exec();
  SQLite::Statement points(raw, "UPDATE points SET labels = ?");
  points.bind(1, lines[1]);
  points.exec();
  SQLite::Statement results(raw, "INSERT OR REPLACE INTO results VALUES ('k', ?, ?, 0)");
  results.bind(1, lines[2]);
  results.bind(2, lines[3]);
  results.exec();
  store.identity();
  store.points();
  store.find("k");
  store.for_each([](const std::string&, const Outcome&) {});
}

}  // namespace

const std::vector<Reader>& readers() {
  static const std::vector<Reader> all = {
      {"yaml", [](const std::string& text) { Document::parse(text, kInput); }},
      {"set",
       [](const std::string& text) {
         static const auto base = Document::load("base.yaml");
         base->with_overrides({text});
       }},
      {"scenario", [](const std::string& text) { read_scenario(*Document::parse(text, kInput)); }},
      {"study", [](const std::string& text) { read_study(input(text), {}); }},
      {"comm profile",
       [](const std::string& text) { read_comm_profile(Document::parse(text, kInput)->root()); }},
      {"compute profile",
       [](const std::string& text) {
         read_compute_profile(Document::parse(text, kInput)->root());
       }},
      {"nccl-tests", [](const std::string& text) { import_nccl_tests({input(text)}); }},
      {"points", [](const std::string& text) { import_points({input(text)}); }},
      {"updates", [](const std::string& text) { read_updates(input(text)); }},
      {"curve", [](const std::string& text) { read_curve(input(text)); }},
      {"store", read_store},
      {"configuration", read_config},
      {"log", [](const std::string& text) { read_log(file_of(text)); }},
      {"trace", read_trace},
      {"chakra", [](const std::string& text) { read_chakra(text, kInput); }},
      {"topology", [](const std::string& text) { read_topology(text, kInput); }},
  };
  return all;
}

void feed(const Reader& reader, std::string_view text) {
  files();
  std::string thrown;
  try {
    reader.read(std::string(text));
    return;
  } catch (const Error& error) {
    thrown = error.what();
    const bool refused = error.code() == ExitCode::input || error.code() == ExitCode::missing;
    if (refused && !thrown.empty() && thrown.front() != '\n') return;
  } catch (const std::exception& error) {
    thrown = error.what();
  }
  std::fprintf(stderr, "%s: %s\n", reader.name.c_str(), thrown.c_str());
  std::abort();
}

void feed(std::string_view text) {
  if (text.empty()) return;
  const auto choice = static_cast<unsigned char>(text.front());
  feed(readers()[choice % readers().size()], text.substr(1));
}

}  // namespace rehearse
