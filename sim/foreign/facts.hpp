#pragma once

#include <map>
#include <string>
#include <vector>

#include "foreign/entry.hpp"
#include "foreign/format.hpp"

namespace rehearse::inline foreign {

/// What is known of a training, in the words of a scenario: "model.sequence", and "sync.X" and
/// "opt.X" for what stands under its strategy and its optimizer. Names without a dot are what a
/// scenario has otherwise: micro_batch, accumulation, global_batch, gpus, nodes, gpus_per_node,
/// sync (ddp, fsdp, fsdp2, zero), opt (adamw), amp (bf16, fp16, fp8), dtype, vocab_divisor,
/// network_layers and network_linears (of a network that a name tells).
struct Fact {
  std::string value;
  std::string key;       ///< the file's own that said it; empty: a default of the format
  TextPosition place;    ///< of that; without a source: of a default
  std::size_t rank = 0;  ///< what later rules say counts
};
using Facts = std::map<std::string, Fact>;

/// A setting of the file, and what became of it.
struct Told {
  std::string key, value;
  std::string what;  ///< "model.sequence", or why it cannot be said
  TextPosition place;
  std::string option{};  ///< one that answers it, or takes its place: "precision"
};

/// A setting that names another file, whose settings count, too.
struct NamedFile {
  Told setting;
  std::string format;      ///< of that file, a name of format_names()
  std::string unless;      ///< why nobody can tell which file it is; empty: it is the value
  bool says_some = false;  ///< without that file the setting still says something
};

/// Every setting of a file stands in one of five lists. `left` are those that the file leaves to
/// another, and lengths and machines that it does not say.
struct Translation {
  Facts facts;
  std::vector<Told> mapped, no_effect, left, unknown, cannot;
  std::vector<NamedFile> named;
};

/// InputError at the place of a value that its key cannot have.
Translation translate(const std::vector<Entry>& entries, const Format& format);

/// The value of a fact; empty where it is not known.
std::string value_of(const Facts& facts, const std::string& name);
bool has(const Facts& facts, const std::string& name);
/// Says a fact that follows from others.
void say(Facts& facts, const std::string& name, const std::string& value);
/// A whole number; 0 where it is not known.
std::int64_t count_of(const Facts& facts, const std::string& name);

}  // namespace rehearse::inline foreign
