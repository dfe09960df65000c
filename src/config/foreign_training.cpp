#include "config/foreign_training.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <vector>

#include "base/data_folder.hpp"
#include "config/document.hpp"

namespace rehearse::inline config {
namespace {

using Names = std::vector<std::string>;

/// A line of platforms/signs.yaml: what tells whose file a configuration is. Of `a|b` one
/// stands there.
struct Sign {
  std::string what, format, topic, remedy;
  Names keys, options, words;
  std::vector<std::pair<std::string, Names>> says;  ///< a key and its values
};

bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
}

std::string with_underscores(std::string name) {
  std::ranges::replace(name, '-', '_');
  return name;
}

/// The keys of a tree, the options of a command line, and the text itself.
class Looked {
 public:
  explicit Looked(std::string_view text) : text_(text) {
    for (std::size_t at = text.find("--"); at != text.npos; at = text.find("--", at + 2)) {
      std::size_t end = at + 2;
      while (end < text.size() && is_name(text[end])) ++end;
      if (end > at + 2)
        options_.insert(with_underscores(std::string(text.substr(at + 2, end - at - 2))));
    }
  }

  bool has_option(const std::string& name) const { return options_.contains(name); }
  bool has_word(const std::string& word) const { return text_.find(word) != text_.npos; }

  /// The place behind `key:` or `"key" :`, at the front of a line, of a map or behind a comma, from
  /// `from` on.
  std::size_t key_at(const std::string& key, std::size_t from = 0) const {
    for (std::size_t at = text_.find(key, from); at != text_.npos; at = text_.find(key, at + 1)) {
      std::size_t colon = at + key.size();
      std::size_t begin = at;
      const auto is_quote = [&](std::size_t i) {
        return i < text_.size() && (text_[i] == '"' || text_[i] == '\'');
      };
      if (at > 0 && is_quote(at - 1) && is_quote(colon)) {
        ++colon;
        --begin;
      }
      while (colon < text_.size() && (text_[colon] == ' ' || text_[colon] == '\t')) ++colon;
      if (colon >= text_.size() || text_[colon] != ':') continue;
      const std::size_t before = begin == 0 ? text_.npos : text_.find_last_not_of(" \t", begin - 1);
      if (before == text_.npos || text_.substr(before, 1).find_first_of("\n\r{,-") == 0)
        return colon + 1;
    }
    return text_.npos;
  }
  bool has_key(const std::string& key) const { return key_at(key) != text_.npos; }
  /// The same at the front of a line, without blanks before it.
  bool has_top_key(const std::string& key) const {
    return text_.starts_with(key + ":") || has_word("\n" + key + ":");
  }

  /// Whether a key has one of those values; of none, any but nothing and null.
  bool says(const std::string& key, const Names& values) const {
    for (std::size_t at = key_at(key); at != text_.npos; at = key_at(key, at)) {
      std::size_t begin = text_.find_first_not_of(" \t\"'", at);
      if (begin == text_.npos) return false;
      std::size_t end = begin;
      while (end < text_.size() && is_name(text_[end])) ++end;
      const std::string value(text_.substr(begin, end - begin));
      const bool is_null = value.empty() || value == "null" || value == "false";
      if (values.empty() ? !is_null : std::ranges::find(values, value) != values.end()) return true;
    }
    return false;
  }

  bool fit(const Sign& sign) const {
    const auto all = [](const Names& names, const auto& holds) {
      return std::ranges::all_of(names, [&](const std::string& name) {
        for (std::size_t at = 0; at <= name.size();) {
          const std::size_t end = std::min(name.find('|', at), name.size());
          if (holds(name.substr(at, end - at))) return true;
          at = end + 1;
        }
        return false;
      });
    };
    return all(sign.keys, [&](const std::string& one) { return has_key(one); }) &&
           all(sign.options, [&](const std::string& one) { return has_option(one); }) &&
           all(sign.words, [&](const std::string& one) { return has_word(one); }) &&
           std::ranges::all_of(sign.says,
                               [&](const auto& one) { return says(one.first, one.second); });
  }

 private:
  std::string_view text_;
  std::set<std::string> options_;
};

Names names_of(Map& map, const char* key) {
  Names names;
  if (const auto list = map.optional(key))
    for (const Value& one : list->as_list()) names.push_back(one.as_string());
  return names;
}

std::vector<Sign> read_signs() {
  const auto document = Document::load_foreign(data_folder() / "platforms/signs.yaml");
  std::vector<Sign> signs;
  for (const Value& one : document->root().as_map().require("signs").as_list()) {
    Map map = one.as_map();
    Sign sign{.what = map.require("what").as_string(),
              .format = map.string_or("format", ""),
              .topic = map.string_or("topic", ""),
              .remedy = map.string_or("remedy", ""),
              .keys = names_of(map, "keys"),
              .options = names_of(map, "options"),
              .words = names_of(map, "words"),
              .says = {}};
    if (const auto says = map.optional("says")) {
      Map values = says->as_map();
      for (const std::string& key : values.keys())
        sign.says.emplace_back(key, names_of(values, key.c_str()));
    }
    map.finish();
    signs.push_back(std::move(sign));
  }
  return signs;
}

ForeignFile foreign_of(const Sign& sign) {
  const std::string remedy =
      !sign.remedy.empty()   ? sign.remedy
      : !sign.format.empty() ? "`rehearse import config FILE --on NxCLUSTER` makes a scenario of it"
      : !sign.topic.empty()  ? "`rehearse help " + sign.topic + "` says what is here of it"
                             : "import a configuration of its steps, or write a scenario";
  return {.what = sign.what, .remedy = remedy, .format = sign.format};
}

ForeignFile log(const char* what, const char* format) {
  return {.what = what,
          .remedy = "`rehearse import log FILE --scenario SCENARIO` sets it beside a prediction",
          .format = format};
}

/// Whether what stands before a word is no part of it; a colour of the terminal is none.
bool begins_word(std::string_view line, std::size_t place) {
  if (place == 0 || std::isalpha(static_cast<unsigned char>(line[place - 1])) == 0) return true;
  constexpr std::size_t kColour = 8;
  const std::size_t from = place > kColour ? place - kColour : 0;
  return line[place - 1] == 'm' && line.substr(from, place - from).find('\x1b') != line.npos;
}

/// Whether one line has all of these words.
bool on_one_line(std::string_view text, const Names& words) {
  for (std::size_t at = text.find(words[0]); at != text.npos; at = text.find(words[0], at + 1)) {
    const std::size_t begin = text.rfind('\n', at) + 1;
    const std::string_view line = text.substr(begin, text.find('\n', at) - begin);
    if (std::ranges::all_of(words, [&](const std::string& word) {
          const std::size_t place = line.find(word);
          return place != line.npos && begins_word(line, place);
        }))
      return true;
  }
  return false;
}

}  // namespace

std::optional<ForeignFile> foreign_log(std::string_view text) {
  const auto has = [&](std::string_view word) { return text.find(word) != std::string_view::npos; };
  if (has("elapsed time per iteration (ms):") || has("elapsed time per iteration (s):"))
    return log("a log of Megatron-LM", "megatron_log");
  if (has(":::MLLOG")) return log("a log of MLPerf", "mlperf_log");
  const bool breakdown = has("time (ms) |") && (has(" forward: ") || has(" fwd: "));
  if (has("SamplesPerSec=") || has("iter time (s):") || breakdown)
    return log("a log of DeepSpeed", "deepspeed_log");
  if (has("train_step_timing in s")) return log("a log of NeMo", "nemo_log");
  if (has("tokens_per_second_per_gpu:")) return log("a log of torchtune", "torchtune_log");
  if (has(" throughput/batches_per_sec:")) return log("a log of Composer", "composer_log");
  if (on_one_line(text, {"tps:", "loss:", "memory:"}) ||
      on_one_line(text, {"wps:", "loss:", "memory:"}))
    return log("a log of torchtitan", "torchtitan_log");
  if (has("train_speed(iter/s)") || has("train_speed(s/it)"))
    return log("a log of ms-swift", "trainer_log");
  if (has("elapsed_time_per_iteration_ms:")) return log("a log of nanotron", "nanotron_log");
  if (has("throughput/device/tokens_per_second")) return log("a log of OLMo", "olmo_log");
  if (has("throughput/device/TPS")) return log("a log of OLMo-core", "olmo_core_log");
  if (has("iter time:") && has("(step)")) return log("a log of litgpt", "litgpt_log");
  if (has("TFLOP/s/device:") && has("completed step:"))
    return log("a log of MaxText", "maxtext_log");
  if (on_one_line(text, {"iter ", "loss ", "time ", "ms"}))
    return log("a log of nanoGPT", "nanogpt_log");
  if (on_one_line(text, {"step:", "train_time:", "step_avg:"}))
    return log("a log of modded-nanogpt", "modded_nanogpt_log");
  if (on_one_line(text, {"time: ", "data: ", "max mem: "}))
    return log("a log of torchvision's MetricLogger", "metric_logger_log");
  if (has("|Loss: ") && (has("it/s") || has("s/it")))
    return log("a log of torchtune", "trainer_log");
  if (has("\"log_history\"") || has("train_steps_per_second") ||
      on_one_line(text, {"'loss':", "'learning_rate':", "'epoch':"}) ||
      (has("***** Running training *****") && has("s/it]")))
    return log("a log of Hugging Face's Trainer", "trainer_log");
  const std::string_view top = text.substr(0, text.find('\n'));
  const bool has_clock = top.find("_runtime") != top.npos || top.find("_timestamp") != top.npos ||
                         top.find("Relative Time (Process)") != top.npos;
  if (has_clock && top.find("tep") != top.npos && top.find(',') != top.npos)
    return log("a run's history of wandb (CSV)", "history_log");
  if (top.find("utilization.gpu") != std::string_view::npos)
    return log("a CSV of nvidia-smi", "nvidia_smi_log");
  return std::nullopt;
}

std::optional<ForeignFile> foreign_training(std::string_view text) {
  static const std::vector<Sign> signs = read_signs();
  const Looked looked(text);
  if (looked.has_top_key("cluster") && looked.has_top_key("strategy") &&
      looked.has_top_key("model"))
    return std::nullopt;  // a scenario of ours
  const auto sign = std::ranges::find_if(signs, [&](const Sign& one) { return looked.fit(one); });
  if (sign != signs.end()) return foreign_of(*sign);
  return foreign_log(text);
}

}  // namespace rehearse::inline config
