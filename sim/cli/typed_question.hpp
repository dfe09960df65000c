#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

namespace rehearse {

/// A question that the command line asks without a file: `--model llama_3_8b --on 4xaws_p5`.
struct TypedQuestion {
  std::string model;                 ///< a built-in network, or a Hugging Face config; empty: none
  std::string on;                    ///< "4xaws_p5": nodes of a cluster's kind
  std::string strategy = "fsdp";     ///< a strategy's name, or a YAML map with its options
  std::string batch = "1";           ///< samples per GPU
  std::string sequence;              ///< tokens of a sample; empty: the network's own
  std::string precision = "bf16_master";
  std::string tokens;                ///< of the whole training; empty: nothing is said of it
  std::string global_batch;          ///< samples of a step, of a plan; empty: kUsualTokens
  std::string objective;             ///< of a plan; empty: time where tokens are given, else throughput
};

/// Of a step, where a plan over layouts does not say: sequences for every GPU until there are as
/// many tokens. What models of 7 to 70 billion parameters are trained with (Touvron et al. 2023,
/// arXiv:2307.09288).
inline constexpr std::int64_t kUsualTokens = 4 << 20;

/// Adds its options to a command whose `file` is the positional argument with that `name`. What
/// they are set to is there when the command is called.
std::shared_ptr<const TypedQuestion> add_typed_question(CLI::App& app, std::filesystem::path& file,
                                                        const std::string& name,
                                                        const std::string& about);
/// The same for a plan: no strategy and batch are asked for, as it searches them.
std::shared_ptr<const TypedQuestion> add_typed_plan(CLI::App& app, std::filesystem::path& file);

/// The file to read: `file`, or the text of the question under a name of its own, kept as if it had
/// been read (FilesKept). CLI::ParseError unless there is exactly one of the two. A plan of a
/// transformer on several GPUs searches layouts, with the global batch held; of anything else,
/// strategies, batches and recomputation.
std::filesystem::path asked_scenario(const TypedQuestion& question,
                                     const std::filesystem::path& file);
std::filesystem::path asked_plan(const TypedQuestion& question, const std::filesystem::path& file);

/// What files that belong to it are called: "llama_3_8b_on_4xaws_p5".
std::string name_of(const TypedQuestion& question);

}  // namespace rehearse
