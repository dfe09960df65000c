#include "cli/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "base/error.hpp"
#include "base/number.hpp"
#include "base/quantity.hpp"
#include "config/document.hpp"

namespace rehearse {
namespace {

std::string with_remedy(const std::string& message, const std::string& remedy) {
  return fmt::format("rehearse: error: {}\nremedy: {}", message, remedy);
}

std::string suggestion(const std::string& word, const std::vector<std::string>& known,
                       const std::string& otherwise) {
  const std::string near = nearest(word, known);
  return near.empty() ? otherwise : fmt::format("did you mean \"{}\"?", near);
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// A quantity above 0; nothing for any other text.
template <class Quantity>
std::optional<Quantity> positive(const std::string& text, Quantity (*parse)(const std::string&)) {
  try {
    if (const Quantity quantity = parse(text); quantity > Quantity(0)) return quantity;
  } catch (const std::invalid_argument&) {
    // No quantity either.
  }
  return std::nullopt;
}

/// A check that `parse` takes a text.
template <class Parsed>
CLI::Validator parsed_by(const std::string& name, Parsed (*parse)(const std::string&)) {
  const auto check = [parse](const std::string& text) -> std::string {
    try {
      parse(text);
      return "";
    } catch (const InputError& error) {
      return error.what();
    }
  };
  return {check, "", name};
}

/// A check that a number holds.
template <class Holds>
CLI::Validator a_number(const char* expected, Holds&& holds) {
  const auto check = [expected, holds](std::string& text) {
    const std::optional<double> number = decimal_number(text);
    return number && holds(*number) ? std::string()
                                    : fmt::format("expected {}; got \"{}\"", expected, text);
  };
  return {check, "", "a_number"};
}

}  // namespace

CLI::Validator a_number_above_0() {
  return a_number("a number above 0", [](double number) { return number > 0; });
}

CLI::Validator a_momentum() {
  return a_number("a momentum from 0 to below 0.99999",
                  [](double number) { return number >= 0 && number < 0.99999; });
}

CLI::Validator an_accuracy() {
  return a_number("a share between 0 and 1, such as 0.95",
                  [](double number) { return number > 0 && number < 1; });
}

CLI::Validator a_time() {
  const auto check = [](std::string& text) -> std::string {
    try {
      parse_seconds(text);
      return {};
    } catch (const std::invalid_argument& wrong) {
      return wrong.what();
    }
  };
  return {check, "", "a_time"};
}

CLI::Validator one_of(const std::vector<std::string>& names) {
  const auto check = [names](std::string& text) {
    if (std::find(names.begin(), names.end(), text) != names.end()) return std::string();
    return fmt::format("expected one of {}; got \"{}\"", fmt::join(names, ", "), text);
  };
  return {check, "", "one_of"};
}

double parse_share(const std::string& text) {
  const bool percent = text.ends_with('%');
  const auto number = percent ? decimal_number(text.substr(0, text.size() - 1)) : std::nullopt;
  if (!number || *number < 0) {
    throw InputError(fmt::format("expected a share like 5%; got \"{}\"", text));
  }
  return *number / 100;
}

CLI::Validator a_share() { return parsed_by("a_share", parse_share); }

CLI::Validator a_share_above_0() {
  constexpr double kMostShare = 10;
  const auto check = [](const std::string& text) -> std::string {
    const bool is_one = a_share()(text).empty();
    const double share = is_one ? parse_share(text) : 0;
    if (share > 0 && share <= kMostShare) return "";
    return fmt::format("expected a share above 0, at most 1000%, like 10%; got \"{}\"", text);
  };
  return {check, "", "a_share_above_0"};
}

Seconds parse_timeout(const std::string& text) {
  if (const auto time = positive(text, parse_seconds)) return *time;
  throw InputError(
      fmt::format("expected a time above 0 with its unit, like 90s; got \"{}\"", text));
}

Bytes parse_memory(const std::string& text) {
  if (const auto size = positive(text, parse_bytes)) return *size;
  throw InputError(
      fmt::format("expected a size above 0 with its unit, like 4GiB; got \"{}\"", text));
}

CLI::Validator a_memory() { return parsed_by("a_memory", parse_memory); }

CLI::Validator a_timeout() { return parsed_by("a_timeout", parse_timeout); }

Shard parse_shard(const std::string& text) {
  const std::size_t slash = text.find('/');
  const auto whole = [](const std::string& digits) -> std::size_t {
    const bool plain = !digits.empty() && digits.size() < 10 &&
                       digits.find_first_not_of("0123456789") == std::string::npos;
    return plain ? std::stoul(digits) : 0;
  };
  const Shard shard{.index = whole(text.substr(0, slash)),
                    .count = slash == std::string::npos ? 0 : whole(text.substr(slash + 1))};
  if (shard.index >= 1 && shard.index <= shard.count) return shard;
  throw InputError(fmt::format("expected a shard like 2/8, the second of eight; got \"{}\"", text));
}

CLI::Validator a_shard() { return parsed_by("a_shard", parse_shard); }

std::string usage_message(const CLI::App& app, const CLI::ParseError& wrong, int argc,
                          char** argv) {
  // The command that the words up to here name.
  const CLI::App* command = &app;
  std::string path = "rehearse";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::vector<std::string> commands = command_names(*command);
    if (std::find(commands.begin(), commands.end(), word) != commands.end()) {
      command = command->get_subcommand(word);
      path += " " + word;
    } else if (!commands.empty() && word.rfind('-', 0) != 0) {
      return with_remedy(
          fmt::format("unknown command \"{}\"", word),
          suggestion(word, commands, fmt::format("known: {}", fmt::join(commands, ", "))));
    } else if (word.rfind("--", 0) == 0) {
      const std::string option = word.substr(0, word.find('='));
      const std::vector<std::string> known = option_names(*command);
      if (std::find(known.begin(), known.end(), option) == known.end()) {
        return with_remedy(fmt::format("unknown option \"{}\"", option),
                           suggestion(option, known, path + " --help lists the options"));
      }
    }
  }
  if (!command_names(*command).empty()) {
    return with_remedy("a command is missing",
                       fmt::format("known: {}", fmt::join(command_names(*command), ", ")));
  }
  return with_remedy(wrong.what(), path + " --help shows how it is used");
}

}  // namespace rehearse
