#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/output.hpp"

namespace rehearse {

/// Options that several commands have, alike in each.

void add_color(CLI::App& app, ColorChoice& color);
/// A page beside whatever else a command writes.
CLI::Option* add_html(CLI::App& app, std::filesystem::path& file);
/// table, json or csv.
CLI::Option* add_format(CLI::App& app, std::string& format,
                        const std::string& about = "table, json or csv");
/// `--set KEY=VALUE`, as often as one likes.
void add_overrides(CLI::App& app, std::vector<std::string>& overrides, const std::string& about);
/// `--fail-unless fits | may_fit`: what the memory of a run must be.
CLI::Option* add_fail_unless(CLI::App& app, std::string& condition);
/// How many children there are at once; `what` they are stands in the help.
void add_jobs(CLI::App& app, int& jobs, const std::string& what = "Simulations");

}  // namespace rehearse
