#include "cli/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "base/error.hpp"
#include "base/number.hpp"
#include "base/quantity.hpp"
#include "config/count.hpp"
#include "report/memory_verdict.hpp"

namespace rehearse::inline cli {
namespace {

[[noreturn]] void expected(const char* what, const std::string& text) {
  throw InputError(fmt::format("expected {}; got \"{}\"", what, text));
}

template <class Quantity>
Quantity above_0(const std::string& text, Quantity (*parse)(const std::string&), const char* what) {
  try {
    if (const Quantity quantity = parse(text); quantity > Quantity(0)) return quantity;
  } catch (const std::invalid_argument&) {
    // No quantity either.
  }
  expected(what, text);
}

template <class Holds>
double number_that(const std::string& text, const char* what, Holds&& holds) {
  const std::optional<double> number = decimal_number(text);
  if (!number || !holds(*number)) expected(what, text);
  return *number;
}

CLI::Option* add_common(CLI::App& app, TypedQuestion& question) {
  CLI::Option* model = add(app, "--model", question.model,
                           "Without a file: a built-in network, or a config.json", "MODEL");
  model->needs(add(app, "--on", question.on,
                   "Its machines: --on 4xaws_p5, or a map of a cluster's keys:\n"
                   "--on '{use: aws_p5, nodes: 4}'",
                   "NxCLUSTER"));
  add(app, "--sequence", question.sequence, "Its tokens per sample", "TOKENS")->needs(model);
  add(app, "--tokens", question.tokens, "Tokens of the whole training: 15T", "TOKENS")
      ->needs(model);
  add(app, "--precision", question.precision, "Its precision; else bf16_master", "NAME")
      ->needs(model);
  add(app, "--framework", question.framework,
      "Whose code trains: torch, torchtitan, megatron, deepspeed", "NAME")
      ->needs(model);
  return model;
}

}  // namespace

CLI::Option* add_repeated(CLI::App& app, const std::string& name, std::vector<std::string>& target,
                          const std::string& about, const std::string& type) {
  return add(app, name, target, about, type)->allow_extra_args(false);
}

CLI::Validator one_of(const std::vector<std::string>& names) {
  const auto check = [names](const std::string& text) {
    if (std::ranges::find(names, text) != names.end()) return std::string();
    return fmt::format("expected one of {}; got \"{}\"", fmt::join(names, ", "), text);
  };
  return {check, "", "one_of"};
}

CLI::Option* add_choice(CLI::App& app, const std::string& name, std::string& target,
                        const std::string& about, const std::vector<std::string>& names,
                        const std::string& type) {
  return add(app, name, target, about, type)->check(one_of(names));
}

double parse_share(const std::string& text) {
  const bool percent = text.ends_with('%');
  const auto number = percent ? decimal_number(text.substr(0, text.size() - 1)) : std::nullopt;
  if (!number || *number < 0) expected("a share like 5%", text);
  return *number / 100;
}

double parse_share_above_0(const std::string& text) {
  constexpr double kMost = 10;
  const auto number =
      text.ends_with('%') ? decimal_number(text.substr(0, text.size() - 1)) : std::nullopt;
  if (!number || *number <= 0 || *number / 100 > kMost)
    expected("a share above 0, at most 1000%, like 10%", text);
  return *number / 100;
}

double parse_share_below_1(const std::string& text) {
  const auto number =
      text.ends_with('%') ? decimal_number(text.substr(0, text.size() - 1)) : std::nullopt;
  if (!number || *number <= 0 || *number >= 100)
    expected("a share above 0, below 100%, like 5%", text);
  return *number / 100;
}

Seconds parse_time_above_0(const std::string& text) {
  return above_0(text, parse_seconds, "a time above 0 with its unit, like 90s");
}

Bytes parse_size_above_0(const std::string& text) {
  return above_0(text, parse_bytes, "a size above 0 with its unit, like 4GiB");
}

Shard parse_shard(const std::string& text) {
  const std::size_t slash = text.find('/');
  const auto whole = [](const std::string& digits) -> std::size_t {
    const bool plain = !digits.empty() && digits.size() < 10 &&
                       digits.find_first_not_of("0123456789") == std::string::npos;
    return plain ? std::stoul(digits) : 0;
  };
  const Shard shard{.index = whole(text.substr(0, slash)),
                    .count = slash == std::string::npos ? 0 : whole(text.substr(slash + 1))};
  if (shard.index < 1 || shard.index > shard.count)
    expected("a shard like 2/8, the second of eight", text);
  return shard;
}

double parse_number_above_0(const std::string& text) {
  return number_that(text, "a number above 0", [](double number) { return number > 0; });
}

double parse_momentum(const std::string& text) {
  return number_that(text, "a momentum from 0 to below 0.99999",
                     [](double number) { return number >= 0 && number < 0.99999; });
}

double parse_fraction(const std::string& text) {
  return number_that(text, "a share between 0 and 1, such as 0.95",
                     [](double number) { return number > 0 && number < 1; });
}

CLI::Option* add_format(CLI::App& app, AnswerOptions& answer, const std::string& about) {
  return add_choice(app, "--format", answer.format, about, {"table", "json", "csv"}, "FORMAT");
}

CLI::Option* add_html(CLI::App& app, AnswerOptions& answer) {
  return add(app, "--html", answer.html,
             "Write a page that opens in any browser, without a network", "FILE");
}

void add_color(CLI::App& app, AnswerOptions& answer) {
  add_parsed(app, "--color", answer.color, parse_color_choice, "auto, always or never", "WHEN")
      ->check(one_of({"auto", "always", "never"}));
}

void add_verbose(CLI::App& app, AnswerOptions& answer) {
  app.add_flag("-v,--verbose", answer.verbose, "All tables, not the answer and its reasons alone");
}

void add_output(CLI::App& app, AnswerOptions& answer, const std::string& about) {
  add(app, "--output", answer.output, about, "FILE");
}

void add_overrides(CLI::App& app, std::vector<std::string>& overrides, const std::string& about) {
  add_repeated(app, "--set", overrides, about, "KEY=VALUE");
}

void add_like(CLI::App& app, std::vector<std::string>& overrides) {
  const std::string way = "data-parallel:";
  const auto check = [way](const std::string& text) -> std::string {
    if (text.starts_with(way) && count_number(text.substr(way.size()))) return "";
    return fmt::format("expected data-parallel:TOKENS, such as data-parallel:20B; got \"{}\"",
                       text);
  };
  const auto assign = [&overrides, way](const std::string& text) {
    overrides.push_back("train.like.data_parallel=" + text.substr(way.size()));
  };
  CLI::Option* const like = app.add_option_function<std::string>(
                                   "--like", assign,
                                   "At equal loss: as low as plain synchronous training on so\n"
                                   "many tokens, --like data-parallel:20B")
                                ->check(CLI::Validator(check, "", "like"))
                                ->type_name("WAY:TOKENS");
  // Both say how long the training is.
  if (CLI::Option* const tokens = app.get_option_no_throw("--tokens")) like->excludes(tokens);
}

void add_price(CLI::App& app, std::vector<std::string>& overrides) {
  static const std::vector<std::string> kMarkets = {"on_demand", "reserved", "spot"};
  const auto is_market = [](const std::string& text) {
    return std::ranges::find(kMarkets, text) != kMarkets.end();
  };
  const auto check = [is_market](const std::string& text) -> std::string {
    const std::optional<double> usd = decimal_number(text);
    if (is_market(text) || (usd && *usd >= 0)) return "";
    return fmt::format("expected USD per node and hour, 31.2, or one of {}; got \"{}\"",
                       fmt::join(kMarkets, ", "), text);
  };
  const auto assign = [&overrides, is_market](const std::string& text) {
    overrides.push_back((is_market(text) ? "train.market=" : "cluster.usd_per_hour=") + text);
  };
  app.add_option_function<std::string>("--price", assign,
                                       "What nodes cost: USD per node and hour, 31.2, or the\n"
                                       "market: on_demand (else), reserved or spot")
      ->check(CLI::Validator(check, "", "price"))
      ->type_name("USD");
}

CLI::Option* add_fail_unless(CLI::App& app, std::string& condition) {
  return add_choice(app, "--fail-unless", condition,
                    "Exit with 1 unless its memory fits, or may_fit: at risk is enough",
                    {"fits", "may_fit"}, "CONDITION");
}

void add_jobs(CLI::App& app, int& jobs, const std::string& what) {
  add_count(app, "--jobs", jobs, what + " side by side; else one per core", 1, 1024);
}

void add_answer(CLI::App& app, AnswerOptions& answer, const std::string& formats) {
  add_format(app, answer, formats);
  add_output(app, answer);
  add_html(app, answer);
  add_color(app, answer);
}

std::shared_ptr<const TypedQuestion> add_typed_question(CLI::App& app,
                                                        std::filesystem::path& file) {
  auto question = std::make_shared<TypedQuestion>();
  // Beside a scenario they stand for what another program's file leaves out: see scenario_of().
  app.add_option("SCENARIO", file,
                 "A scenario's file, a shipped one's name, or - (standard input)");
  CLI::Option* model = add_common(app, *question);
  add(app, "--strategy", question->strategy,
      "Its strategy, or a map with its keys: --strategy 'zero: {stage: 1}';\nelse fsdp, or what "
      "the "
      "framework has in its place",
      "NAME")
      ->needs(model);
  add(app, "--batch", question->batch, "Its samples per GPU; else 1", "N")->needs(model);
  return question;
}

std::shared_ptr<const TypedQuestion> add_typed_plan(CLI::App& app, std::filesystem::path& file) {
  auto question = std::make_shared<TypedQuestion>();
  CLI::Option* plan =
      app.add_option("PLAN", file, "The plan file (YAML), a shipped one's name, or -");
  CLI::Option* model = add_common(app, *question);
  model->excludes(plan);
  add(app, "--global-batch", question->global_batch,
      "Its samples per step, over layouts; else 4 Mi tokens", "N")
      ->needs(model);
  add(app, "--objective", question->objective,
      "What is to be best: time (else), cost, throughput ...", "NAME")
      ->needs(model);
  add(app, "--deadline", question->deadline, "Its time to train at most: 2d", "TIME")->needs(model);
  add(app, "--budget", question->budget, "Its cost at most, in USD: 6000", "USD")->needs(model);
  add(app, "--fits", question->fits,
      "Its memory: fits (else), how sure that is to be (99%), or a size\nat most (70GiB)", "CHANCE")
      ->needs(model);
  return question;
}

bool is_typed(const TypedQuestion& question, const std::filesystem::path& file,
              const std::string& name) {
  const bool takes_machines = name == "SCENARIO" && !file.empty();  // scenario_of() looks at both
  if (question.model.empty() && !question.on.empty() && !takes_machines)
    throw CLI::RequiresError("--on", "--model");
  if (question.model.empty() && file.empty())
    throw CLI::RequiredError(fmt::format("{}, or --model and --on,", name));
  return file.empty();
}

}  // namespace rehearse::inline cli
