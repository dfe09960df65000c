// `rehearse decode`: how fast a served language model generates.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "base/error.hpp"
#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "planner/typed_question.hpp"
#include "rollout/decode_views.hpp"
#include "scenario/named_network.hpp"

namespace rehearse::inline cli {
namespace {

struct DecodeCommand {
  std::string model, on, engine = "vllm", cache = "16bit";
  std::string format;  ///< empty: as its weights are published
  Serving serving;
  int prompt = 1024, response = 1024;
  double memory = 0;  ///< 0: the engine's
  std::vector<double> batches;
  AnswerOptions answer;
};

/// Makes the model that the command asks for. std::invalid_argument where nothing can serve it.
DecodeTable table_of(const DecodeCommand& command, const TransformerShape& network,
                     const Cluster& cluster) {
  Serving serving = command.serving;
  serving.format = parse_served_format(command.format);
  if (command.cache == "8bit") serving.cache_element = Bytes(1);
  const DecodeModel model(network, cluster, read_engine(command.engine), serving);
  return decode_table(network.name, command.on, model, command.prompt, command.response,
                      command.memory, command.batches);
}

/// The first change of one or two options with which the command has an answer.
std::string what_answers(const DecodeCommand& command, const TransformerShape& network,
                         const Cluster& cluster) {
  const auto answers = [&](const auto& change) {
    DecodeCommand changed = command;
    change(changed);
    try {
      table_of(changed, network, cluster);
      return true;
    } catch (const std::invalid_argument&) {
      return false;
    }
  };
  if (!is_served(network)) return "another --model, such as llama_3_8b";
  if (answers([](DecodeCommand& one) { one.batches.clear(); })) return "leave --batch out";
  if (answers([](DecodeCommand& one) { one.memory = 0; })) return "leave --memory out";
  const auto most = static_cast<int>(std::min<std::size_t>(cluster.gpu_count(), 1024));
  for (const std::string& format : {command.format, std::string("bf16"), std::string("fp8")})
    for (int ranks = 1; ranks <= most; ranks *= 2) {
      const auto changes = [&](DecodeCommand& one) {
        one.format = format;
        one.serving.tensor_parallel = ranks;
      };
      const bool with_batches = answers(changes);
      if (!with_batches && !answers([&](DecodeCommand& one) {
            changes(one);
            one.batches.clear();
          }))
        continue;
      std::vector<std::string> words;
      if (ranks != command.serving.tensor_parallel)
        words.push_back(fmt::format("--tensor-parallel {}", ranks));
      if (format != command.format) words.push_back("--precision " + format);
      if (!with_batches) words.emplace_back("without --batch");
      return fmt::format("{}", fmt::join(words, " "));
    }
  if (answers([](DecodeCommand& one) { one.serving.attention_data_parallel = 1; }))
    return "leave --attention-data-parallel out";
  if (answers([](DecodeCommand& one) { one.serving.expert_parallel = 1; }))
    return "leave --expert-parallel out";
  for (const std::string& engine : engine_names())
    if (answers([&](DecodeCommand& one) { one.engine = engine; }))
      return fmt::format("--engine {}", engine);
  for (int tokens = 1024; tokens > 1; tokens /= 2)
    if (answers([&](DecodeCommand& one) { one.prompt = one.response = tokens; }))
      return fmt::format("fewer tokens: --prompt {0} --response {0}", tokens);
  return "another --model, or more or other GPUs with --on";
}

/// It has the format of the weights: as asked, else as they are published, else 16 bits.
DecodeCommand with_format(DecodeCommand command, const std::string& published,
                          const Cluster& cluster) {
  const bool has_bf16 = cluster.gpu_count() == 0 ||
                        cluster.node(gpu_places(cluster).front().node).gpu.bf16 > FlopsPerSecond(0);
  if (command.format == "bf16" && !has_bf16)
    throw InputError(fmt::format(
        "rehearse decode: error: {} has no unit for bf16, and no engine serves it there\n"
        "remedy: leave --precision out, and it serves fp16",
        cluster.node(gpu_places(cluster).front().node).gpu.name));
  if (!command.format.empty()) return command;
  command.format = published.empty() ? "bf16" : published;
  const std::vector<std::string> formats = served_formats();
  if (std::ranges::find(formats, command.format) == formats.end())
    throw InputError(
        fmt::format("rehearse decode: error: {} is published in {}, whose kernels are not here\n"
                    "remedy: --precision bf16, which it was made from",
                    command.model, published));
  return command;
}

void decode(const DecodeCommand& asked) {
  const auto [network, published] = read_served_network(asked.model);
  const Cluster cluster = typed_cluster(asked.on, "--on");
  const DecodeCommand command = with_format(asked, published, cluster);
  check_outputs({{"--output", command.answer.output}});
  try {
    const DecodeTable table = table_of(command, network, cluster);
    write_answer({.table = [&](int, bool) { return to_table(table); },
                  .json = [&] { return to_json(table); },
                  .csv = [&] { return to_csv(table); }},
                 command.answer);
  } catch (const std::invalid_argument& wrong) {
    throw InputError(fmt::format("rehearse decode: error: {}\nremedy: {}", wrong.what(),
                                 what_answers(command, network, cluster)));
  }
}

/// "sglang (0.5), ...": with the versions that their numbers are of.
std::string engine_words() {
  std::string text = "Default vllm. Versions that were measured:";
  for (const std::string& name : engine_names())
    text += fmt::format("\n{}: {}", name, read_engine(name).versions);
  return text;
}

}  // namespace

void add_decode(CLI::App& app) {
  const auto command = std::make_shared<DecodeCommand>();
  CLI::App& decode_app =
      *app.add_subcommand("decode", "How fast a served language model generates, batch by batch");
  add(decode_app, "--model", command->model, "A built-in network, or a config.json", "MODEL")
      ->required();
  add(decode_app, "--on", command->on, "Machines: --on 1xaws_p5, or a map of a cluster's keys",
      "NxCLUSTER")
      ->required();
  add_choice(decode_app, "--engine", command->engine, engine_words(), engine_names());
  add_count(decode_app, "--tensor-parallel", command->serving.tensor_parallel,
            "GPUs that share each layer (default 1)", 1, 1024);
  add_count(decode_app, "--attention-data-parallel", command->serving.attention_data_parallel,
            "Groups of these that share experts alone (default 1)", 1, 1024);
  add_count(decode_app, "--expert-parallel", command->serving.expert_parallel,
            "Parts of the GPUs that have whole experts of their own (default 1)", 1, 1024);
  add_choice(decode_app, "--precision", command->format,
             "Of weights: bf16, fp8, nvfp4 or mxfp4; else as the\nnetwork is published",
             served_formats());
  add_choice(decode_app, "--cache", command->cache, "Of keys and values: 16bit or 8bit",
             {"16bit", "8bit"});
  add_count(decode_app, "--prompt", command->prompt, "Tokens of a prompt (default 1024)", 1,
            10'000'000);
  add_count(decode_app, "--response", command->response,
            "Tokens of a response (default 1024): time per output\ntoken needs a second one", 2,
            10'000'000);
  add_parsed(decode_app, "--memory", command->memory, parse_fraction,
             "Share of a GPU for weights and cache, else the engine's", "SHARE");
  decode_app
      .add_option("--batch", command->batches,
                  "Sequences at a time (repeatable); else powers of two")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000))
      ->allow_extra_args(false);
  add_format(decode_app, command->answer);
  add_output(decode_app, command->answer);
  decode_app.footer(
      "Example:\n"
      "  rehearse decode --model llama_3_70b --on 1xaws_p5 --tensor-parallel 4 --batch 64");
  decode_app.callback([command] { decode(*command); });
}

}  // namespace rehearse::inline cli
