#include <fmt/format.h>

#include "base/error.hpp"
#include "base/printable.hpp"
#include "cli/commands.hpp"
#include "profile/import.hpp"

namespace rehearse {
namespace {

/// The command that makes the same profile again; it stands in the profile's head.
std::string command_line(const ImportCommand& command) {
  std::string text = "rehearse import " + command.form;
  for (const auto& file : command.files) text += " " + file.string();
  if (!command.links.empty()) text += fmt::format(" --links \"{}\"", command.links);
  return text;
}

}  // namespace

void import_command(const ImportCommand& command) {
  ImportOptions options;
  options.name = command.name;
  options.hardware = command.hardware;
  options.source = command.source;
  options.command = command_line(command);
  if (!command.links.empty())
    options.links = read_comm_links(Document::parse(command.links, "--links")->root());
  if (!command.collective.empty()) {
    options.nccl_tests.collective = parse_collective_kind(command.collective);
  }
  options.nccl_tests.ranks = command.ranks;
  options.nccl_tests.nodes = command.nodes;
  options.nccl_tests.in_place = command.in_place;
  const bool tables = command.form == "points";
  check_outputs({{"--output", command.output}}, command.files);
  const ImportedProfile profile =
      tables ? import_points(command.files, options) : import_nccl_tests(command.files, options);
  for (const std::string& line : profile.left_out)
    tell(fmt::format("warning: left out a damaged row: {}\n", line));
  write_result(command.output, profile.text);
}

}  // namespace rehearse
