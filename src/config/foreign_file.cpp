#include "config/foreign_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>

#include "base/error.hpp"
#include "config/foreign_training.hpp"
#include "config/text_source.hpp"

namespace rehearse::inline config {
namespace {

/// What tells a file stands near its top.
constexpr std::size_t kLooked = std::size_t{1} << 16;

bool holds(std::string_view text, std::initializer_list<std::string_view> all) {
  return std::all_of(all.begin(), all.end(), [&](std::string_view one) {
    return text.find(one) != std::string_view::npos;
  });
}

const char* const kImport = "`rehearse import nccl-tests FILE` makes a communication profile of it";

std::optional<ForeignFile> binary_file(std::string_view text, const std::string& name) {
  if (text.starts_with(std::string_view("SQLite format 3\0", 16)))
    return ForeignFile{"an SQLite database", "`rehearse collect FOLDER` shows a study's results",
                       true};
  if (text.starts_with("\x1f\x8b"))
    return ForeignFile{"compressed with gzip", "gunzip it first", true};
  if (text.starts_with(std::string_view("\xfd"
                                        "7zXZ\0",
                                        6)))
    return ForeignFile{
        "a set of records, or another file that xz packed",
        fmt::format("name one of its records, {}/RECORD; `tar -tf {}` lists them", name, name),
        true};
  if (text.starts_with("PK\x03\x04"))
    return ForeignFile{
        "a zip archive, as PyTorch saves checkpoints and TorchScript modules",
        "`rehearse calibrate compute --help` says how a TorchScript module is measured", true};
  const bool is_text = std::none_of(text.begin(), text.end(), [](char c) {
    return std::iscntrl(static_cast<unsigned char>(c)) != 0 && c != '\t' && c != '\n' && c != '\r';
  });
  if (!is_text && name.ends_with(".et"))
    return ForeignFile{"a Chakra execution trace",
                       "say the model by name (`rehearse list models`) or by its units", true};
  return std::nullopt;
}

/// The text behind `"key": "`; empty where the key is not there.
std::string text_of_key(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(fmt::format("\"{}\"", key));
  if (at == std::string_view::npos) return {};
  const std::size_t open = text.find('"', at + key.size() + 2);
  if (open == std::string_view::npos) return {};
  return std::string(text.substr(open + 1, text.find('"', open + 1) - open - 1));
}

/// Whether a key stands in the outermost map, not in one within it.
bool has_outer_key(std::string_view text, std::string_view key) {
  int depth = 0;
  const std::string quoted = fmt::format("\"{}\"", key);
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '{' || text[at] == '[') ++depth;
    if (text[at] == '}' || text[at] == ']') --depth;
    if (depth == 1 && text.substr(at).starts_with(quoted)) return true;
  }
  return false;
}

const char* const kOtherNetworks =
    "Python's rehearse_sim.capture reads any PyTorch module; model.units takes times of its parts";

/// Networks of images and sound, and what trains them.
std::optional<ForeignFile> diffusion_file(std::string_view text) {
  if (holds(text, {"\"_diffusers_version\""}))
    return ForeignFile{fmt::format("a config of diffusers ({})", text_of_key(text, "_class_name")),
                       kOtherNetworks};
  for (const char* key : {"pretrained_model_name_or_path = ", "diffusers_path = ",
                          "transformer_path = ", "\"--model_family\"", "\"model_family\""})
    if (holds(text, {key}))
      return ForeignFile{"a configuration of a trainer of diffusion models", kOtherNetworks};
  return std::nullopt;
}

std::optional<ForeignFile> json_file(std::string_view text) {
  if (holds(text, {"\"traceEvents\""}))
    return ForeignFile{.what = "a trace of PyTorch's profiler (Kineto)",
                       .remedy = "`rehearse import profiler FILE` makes a scenario of it",
                       .format = "kineto"};
  if (holds(text, {"\"nodes\"", "chakra"}))
    return ForeignFile{"a Chakra execution trace",
                       "say the model by name (`rehearse list models`) or by its units"};
  if (holds(text, {"\"nthreads\"", "\"ngpus\""}) || holds(text, {"\"numCycle\"", "\"busBw\""}))
    return ForeignFile{"an output of nccl-tests", kImport};
  if (has_outer_key(text, "model_type") && text_of_key(text, "model_type") != "")
    return ForeignFile{
        fmt::format("a Hugging Face config.json of a {} model", text_of_key(text, "model_type")),
        "a scenario names it: model: {hf: FILE}"};
  return std::nullopt;
}

/// A table's head alone on its line, as [training], and a key = value.
bool is_toml(std::string_view text) {
  bool head = false, value = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    const auto is_name = [](std::string_view name) {
      return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-';
      });
    };
    if (line.starts_with('[') && line.ends_with(']') && is_name(line.substr(1, line.size() - 2)))
      head = true;
    const std::size_t equals = line.find(" = ");
    if (equals != std::string_view::npos && is_name(line.substr(0, equals))) value = true;
  }
  return head && value;
}

}  // namespace

std::optional<ForeignFile> foreign_file(std::string_view text, const std::string& name) {
  text = text.substr(0, kLooked);
  if (auto binary = binary_file(text, name)) return binary;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return std::nullopt;
  // One of ours, which may hold others' words: a record has arguments of Hugging Face's Trainer.
  if (text.starts_with("format: rehearse.") || text.starts_with("schema: rehearse."))
    return std::nullopt;
  if (auto diffusion = diffusion_file(text)) return diffusion;
  if (text[first] == '{' || text[first] == '[') {
    if (auto json = json_file(text)) return json;
  }
  if (holds(text, {"nThread ", "nGpus ", "minBytes "}))
    return ForeignFile{"an output of nccl-tests", kImport};
  if (holds(text, {"GPU0", "CPU Affinity"}) && holds(text, {"Legend:"}))
    return ForeignFile{"an output of `nvidia-smi topo -m`",
                       "`rehearse import topology FILE --gpu H100-SXM` makes a cluster file of it"};
  if (is_toml(text)) {
    if (auto training = foreign_training(text)) return training;
    return ForeignFile{
        .what = "TOML, as torchtitan's configurations are",
        .remedy = "`rehearse import config FILE --on NxCLUSTER` makes a scenario of it",
        .format = "torchtitan_toml"};
  }
  if (auto training = foreign_training(text)) return training;
  return std::nullopt;
}

void refuse_foreign_file(std::string_view text, const std::string& name) {
  const auto foreign = foreign_file(text, name);
  if (!foreign) return;
  const std::string message = fmt::format("this is {}, which is not read here", foreign->what);
  if (foreign->binary)
    throw InputError(fmt::format("{}: error: {}\nremedy: {}", name, message, foreign->remedy));
  fail_at({make_text_source(text, name, ""), 0, 0}, message, foreign->remedy);
}

}  // namespace rehearse::inline config
