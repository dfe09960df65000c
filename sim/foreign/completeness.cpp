// What a configuration leaves open, and what of it cannot be answered here.
#include "foreign/completeness.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "config/document.hpp"
#include "config/mistakes.hpp"
#include "rollout/rl_step.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline foreign {
namespace {

/// The option's fact, which another file or a default may have said.
bool has_answer(const Facts& facts, const std::string& option) {
  static const std::map<std::string, std::vector<const char*>> kFacts = {
      {"precision", {"amp", "dtype", "model.precision"}},
      {"batch", {"micro_batch", "micro_tokens"}},
      {"accumulation", {"accumulation", "global_batch"}},
      {"sequence", {"model.sequence"}}};
  const auto found = kFacts.find(option);
  return found == kFacts.end() ||
         std::ranges::any_of(found->second, [&](const char* name) { return has(facts, name); });
}

}  // namespace

void fail_cannot(const std::vector<Told>& cannot) {
  std::string text;
  for (const Told& one : cannot)
    text +=
        (text.empty() ? "" : "\n\n") +
        std::string(error_at(one.place,
                             fmt::format("{}: it changes the answer, and cannot be said here: {}",
                                         one.key, one.what))
                        .what());
  const bool branches = text.find("it stands under a condition") != std::string::npos;
  throw InputError(text + (branches ? "\nremedy: keep of the conditions what runs, in a copy; "
                                      "--allow leaves out what stands under them"
                                    : "\nremedy: --allow leaves out what cannot be said"));
}

void settle(Translation& told, const Asked& asked) {
  const auto answered = [&](const Told& one) {
    return !one.option.empty() && !asked.option(one.option).empty();
  };
  for (const Told& one : told.cannot)
    if (answered(one))
      told.mapped.push_back({one.key, one.value,
                             fmt::format("--{} {}", one.option, asked.option(one.option)),
                             one.place});
  std::erase_if(told.cannot, answered);
  for (Told& one : told.left)
    if (answered(one)) one.what = fmt::format("--{} {}", one.option, asked.option(one.option));
}

void check_complete(const Translation& told, const Asked& asked, bool alone,
                    const std::string& name) {
  std::vector<Missing> missing = missing_of(told.facts, asked);
  for (const Told& one : told.left)
    if (alone && !has_answer(told.facts, one.option) && asked.option(one.option).empty() &&
        std::ranges::none_of(missing, [&](const Missing& other) {
          return other.remedy.starts_with("--" + one.option);
        }))
      missing.push_back(
          {fmt::format("what {} is: {} leaves it to another", one.key, one.value),
           fmt::format("--{} {}", one.option, one.option == "precision" ? "bf16" : "N")});
  // Left out by --allow, it would be fp32 without a word.
  for (const Told& one : told.cannot)
    if (one.option == "precision" && !has_answer(told.facts, one.option) && asked.precision.empty())
      missing.push_back(
          {fmt::format("which precision trains: nothing here knows {}: {}", one.key, one.value),
           "--precision bf16"});
  if (missing.empty()) return;
  std::string whats, remedies;
  for (const Missing& one : missing) {
    whats += (whats.empty() ? "" : ", nor ") + one.what;
    if (remedies.find(one.remedy) == std::string::npos)
      remedies += (remedies.empty() ? "add " : "; ") + one.remedy;
  }
  throw InputError(
      fmt::format("{}: error: the file does not say {}\nremedy: {}", name, whats, remedies));
}

void check_understood(const std::vector<Entry>& entries, const Translation& told,
                      const Format& format, const std::string& name) {
  const bool says = std::ranges::any_of(told.mapped, [](const Told& one) {
    return one.what.find("model.use") == std::string::npos &&
           one.what.find("model.hf") == std::string::npos;
  });
  const bool names_all = told.unknown.empty() && !told.mapped.empty();
  if (says || names_all || !told.left.empty() || !told.cannot.empty() || entries.empty()) return;
  throw InputError(fmt::format(
      "{}: error: of its {} settings none says here how long a step takes, as {}\n"
      "remedy: give the file that has the batch and the parallelism, or write a scenario",
      name, entries.size(), format.title));
}

void tell_defaults(Translation& told, const Asked& asked) {
  for (const std::string& target : adapters_left_out(told.facts))
    told.left.push_back(
        {"(adapters)", target, "no linear layer of this network by itself", {}, ""});
  const std::int64_t gpus = gpus_of_file(told.facts);
  const bool apart = has(told.facts, "rl_streams");  // fill_post_training compares these
  if (!asked.on.empty() && !apart && gpus > 0 && gpus_of(told.facts, asked) != gpus)
    told.left.push_back({"(machines)",
                         "",
                         fmt::format("--on has {} GPUs in the place of the file's {}",
                                     gpus_of(told.facts, asked), gpus),
                         {},
                         ""});
  if (!has(told.facts, "model.sequence") && asked.sequence.empty() &&
      !has(told.facts, "rl.algorithm"))
    told.left.push_back({"(no length)", "", "the network's own length, or --sequence N", {}, ""});
  for (const auto& [name, fact] : told.facts)
    if (fact.key.empty() &&
        (name == "micro_batch" || (name == "model.sequence" && !has(told.facts, "rl.algorithm"))) &&
        asked.option(name == "micro_batch" ? "batch" : "sequence").empty())
      told.left.push_back({name == "micro_batch" ? "(no batch)" : "(no length)",
                           "",
                           fmt::format("{}, that framework's default", fact.value),
                           {},
                           ""});
}

void read_back(const std::string& scenario, const std::string& name) {
  try {
    const auto document = Document::parse(scenario, name + " (as a scenario)");
    if (asks_for_rl(*document))
      read_rl_question(*document);
    else
      make_schedule(read_scenario(*document));
  } catch (const InputError& wrong) {
    const std::string why = wrong.what();
    const auto says = [&](const char* what) { return why.find(what) != std::string::npos; };
    // Remedies in the words of the scenario have their options here.
    std::string option;
    if (says("hub's cache has no") || says("model.hf: no file"))
      option = "; or add --model NAME (`rehearse list models`), or --model config.json";
    else if (why.find("remedy: ") == std::string::npos && says("model.transformer"))
      option = "\nremedy: add --model NAME (`rehearse list models`), or --model config.json";
    else if (says("rl.lengths."))
      option = "; here of --lengths, which has the mean of prompts and then that of responses";
    else if (says("no whole number of micro-batches"))
      option = "; here --batch N, --accumulation N or --on with as many GPUs as it was written for";
    throw InputError(
        fmt::format("{}: error: what it says cannot run here\n{}{}", name, why, option));
  }
}

}  // namespace rehearse::inline foreign
