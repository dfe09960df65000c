#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/answer.hpp"
#include "planner/typed_question.hpp"
#include "study/sweep.hpp"

namespace rehearse::inline cli {

/// An option with the name that its value has in the help.
template <class Target>
CLI::Option* add(CLI::App& app, const std::string& name, Target& target, const std::string& about,
                 const std::string& type) {
  return app.add_option(name, target, about)->type_name(type);
}
/// The same for a whole number from `least` to `most`.
template <class Target>
CLI::Option* add_count(CLI::App& app, const std::string& name, Target& target,
                       const std::string& about, std::int64_t least = 1,
                       std::int64_t most = 1'000'000) {
  return add(app, name, target, about, "N")->check(CLI::Range(least, most));
}
/// The same that may be given many times, each with one value.
CLI::Option* add_repeated(CLI::App& app, const std::string& name, std::vector<std::string>& target,
                          const std::string& about, const std::string& type);
/// The same for one of some names: `expected one of table, json, csv; got "xml"`.
CLI::Option* add_choice(CLI::App& app, const std::string& name, std::string& target,
                        const std::string& about, const std::vector<std::string>& names,
                        const std::string& type = "NAME");
/// A check of that kind.
CLI::Validator one_of(const std::vector<std::string>& names);
/// The same for what `parse` makes of a text; the message of what it throws is the option's.
template <class Target, class Parse>
CLI::Option* add_parsed(CLI::App& app, const std::string& name, Target& target, Parse parse,
                        const std::string& about, const std::string& type) {
  const auto read = [&target, parse, name](const std::string& text) {
    try {
      target = parse(text);
    } catch (const std::exception& wrong) {
      throw CLI::ValidationError(name, wrong.what());
    }
  };
  return app.add_option_function<std::string>(name, read, about)->type_name(type);
}

/// Values of options, as text; InputError says what was expected. 0.05 for "5%"; likewise above 0
/// and at most 1000%; a time and a size above 0 with their units; the second of eight for "2/8"; a
/// number above 0, a momentum in [0, 0.99999), and a share in (0, 1) as a number.
double parse_share(const std::string& text);
double parse_share_above_0(const std::string& text);
double parse_share_below_1(const std::string& text);
Seconds parse_time_above_0(const std::string& text);
Bytes parse_size_above_0(const std::string& text);
Shard parse_shard(const std::string& text);
double parse_number_above_0(const std::string& text);
double parse_momentum(const std::string& text);
double parse_fraction(const std::string& text);

/// Options that several commands have, alike in each: `--format`, `--html`, `--color`, `-v`,
/// `--set`,
/// `--fail-unless fits | may_fit`, and how many children there are at once.
CLI::Option* add_format(CLI::App& app, AnswerOptions& answer,
                        const std::string& about = "table, json or csv");
CLI::Option* add_html(CLI::App& app, AnswerOptions& answer);
void add_color(CLI::App& app, AnswerOptions& answer);
void add_verbose(CLI::App& app, AnswerOptions& answer);
void add_output(CLI::App& app, AnswerOptions& answer,
                const std::string& about = "Write to this file");
void add_overrides(CLI::App& app, std::vector<std::string>& overrides, const std::string& about);
/// `--like data-parallel:20B`: an assignment to train.like.data_parallel.
void add_like(CLI::App& app, std::vector<std::string>& overrides);
/// `--price 31.2`, `--price spot`: an assignment to cluster.usd_per_hour or train.market.
void add_price(CLI::App& app, std::vector<std::string>& overrides);
CLI::Option* add_fail_unless(CLI::App& app, std::string& condition);
void add_jobs(CLI::App& app, int& jobs, const std::string& what = "Simulations");
/// `--format`, `--output`, `--html` and `--color`.
void add_answer(CLI::App& app, AnswerOptions& answer, const std::string& formats);

/// Options of a question without a file, to a command whose `file` is the positional argument
/// `name`, and of the same for a plan, whose search finds strategy and batch. What they are set to
/// is there when the command is called.
std::shared_ptr<const TypedQuestion> add_typed_question(CLI::App& app, std::filesystem::path& file);
std::shared_ptr<const TypedQuestion> add_typed_plan(CLI::App& app, std::filesystem::path& file);
/// True where it is asked instead of a file. CLI::ParseError unless there is one of the two.
bool is_typed(const TypedQuestion& question, const std::filesystem::path& file,
              const std::string& name);

}  // namespace rehearse::inline cli
