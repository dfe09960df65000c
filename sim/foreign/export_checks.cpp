#include "foreign/export_checks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/number.hpp"

namespace rehearse::inline foreign {
namespace {

std::map<std::string, std::string> as_map(const SettingList& settings) {
  return {settings.begin(), settings.end()};
}

/// Whether a check speaks of the version, and of later ones where none is named.
bool in_force(const Check& check, const FrameworkChoice& framework, bool names_version) {
  const std::vector<int> version = version_numbers(framework.version);
  if (!check.until.empty() && version >= version_numbers(check.until)) return false;
  return check.since.empty() || !names_version || version >= version_numbers(check.since);
}

/// `multiple: [num_layers, pipeline_model_parallel_size]`, and how often the second counts.
bool divides(const Check& check, const std::map<std::string, std::string>& settings) {
  const auto number = [&](const std::string& name) {
    const auto found = settings.find(name);
    return found == settings.end() ? std::nullopt : decimal_number(found->second);
  };
  const auto whole = number(check.multiple[0]), part = number(check.multiple[1]);
  if (!whole || !part) return true;
  const double times =
      check.multiple.size() > 2 ? decimal_number(check.multiple[2]).value_or(1) : 1;
  const auto step = static_cast<std::int64_t>(*part * times);
  return step <= 1 || *part <= 1 || static_cast<std::int64_t>(*whole) % step == 0;
}

}  // namespace

CheckedSettings keep_to_checks(SettingList settings, const Format& format,
                               const FrameworkChoice& framework, bool names_version,
                               const std::set<std::string>& said, const std::string& file) {
  CheckedSettings made{.settings = std::move(settings), .environment = {}, .notes = {}};
  for (const Check& check : format.checks) {
    const auto all = as_map(made.settings);
    if (!in_force(check, framework, names_version) || !holds(check.when, all)) continue;
    if (!check.multiple.empty() && divides(check, all)) continue;
    if (!check.variable.empty()) made.environment[check.variable] = check.value;
    for (const auto& one : check.write)
      if (!all.contains(one.first)) made.settings.push_back(one);
    if (!check.drop.empty() && said.contains(check.left)) continue;
    std::erase_if(made.settings, [&](const auto& one) {
      return std::ranges::find(check.drop, one.first) != check.drop.end();
    });
    if (check.why.empty()) continue;
    const bool of_later =
        !check.since.empty() && version_numbers(framework.version) < version_numbers(check.since);
    if (of_later || !check.drop.empty()) {
      made.notes.push_back(check.why + (check.remedy.empty() ? "" : ": " + check.remedy));
      continue;
    }
    throw InputError(fmt::format("{}: error: {} {} refuses this: {}\nremedy: {}", file,
                                 framework.title, framework.version, check.why, check.remedy));
  }
  return made;
}

}  // namespace rehearse::inline foreign
