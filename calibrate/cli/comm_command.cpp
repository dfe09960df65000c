#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "base/error.hpp"
#include "cli/comm_calibration.hpp"

namespace rehearse::inline calibrate {
namespace {

struct CommCommand {
  CommRequest request;
  std::vector<std::string> sizes, collectives, overlap = {"1MiB", "16MiB"};
  std::string link_rate;
  double timeout = 300;
  bool dry_run = false;
};

std::vector<Bytes> sizes_of(const std::string& option, const std::vector<std::string>& texts) {
  std::vector<Bytes> sizes;
  for (const std::string& text : texts) {
    try {
      sizes.push_back(parse_bytes(text));
    } catch (const std::invalid_argument& error) {
      throw InputError(fmt::format("error: {}: {}", option, error.what()));
    }
    if (!(sizes.back() > Bytes(0)))
      throw InputError(fmt::format("error: {}: a size of nothing", option));
  }
  return sizes;
}

void fill_options(CommCommand& command) {
  SweepOptions& options = command.request.sweep;
  options.sizes =
      command.sizes.empty() ? default_sweep_sizes() : sizes_of("--sizes", command.sizes);
  const bool none = command.overlap == std::vector<std::string>{"none"};
  if (!none) options.overlapped = sizes_of("--overlap", command.overlap);
  if (!command.link_rate.empty()) {
    try {
      command.request.link_rate = parse_bytes_per_second(command.link_rate);
    } catch (const std::invalid_argument& error) {
      throw InputError(fmt::format("error: --link-rate: {}", error.what()));
    }
  }
  command.request.timeout = std::chrono::milliseconds(static_cast<long>(command.timeout * 1e3));
  if (command.collectives.empty()) return;
  std::erase_if(options.kinds, [&](CollectiveKind kind) {
    const auto& names = command.collectives;
    return std::find(names.begin(), names.end(), to_string(kind)) == names.end();
  });
}

void print_summary(const SweepResult& result, const std::string& file) {
  for (const SweepPoint& point : result.points) {
    const Seconds each = point.median / bus_factor(point.kind, result.ranks);
    fmt::print("{:<14} {:>9}  {:>8} ({} to {})  busbw {}\n", to_string(point.kind),
               format(point.size), format(point.median), format(point.p5), format(point.p95),
               format(point.size / each));
  }
  for (const SweepOverlap& one : result.overlaps) {
    fmt::print(
        "{:<14} {:>9}  beside compute {:.2f} times as long; compute beside it {:.2f} times\n",
        to_string(one.kind), format(one.size), one.comm_slowdown(), one.compute_slowdown());
  }
  fmt::print("profile: {}\n", file);
}

void run_comm(CommCommand& command, const Invocation& invocation) {
  fill_options(command);
  if (command.dry_run) return print_comm_plan(command.request);
  command.request.span = {};
  if (const auto result = calibrate_comm(command.request, invocation))
    print_summary(*result, command.request.output.string());
}

}  // namespace

void add_comm_command(CLI::App& app, const Invocation& invocation) {
  auto command = std::make_shared<CommCommand>();
  CommRequest& request = command->request;
  CLI::App* comm = app.add_subcommand("comm", "Time collectives between processes, and fit them");
  std::vector<std::string> names;
  names.reserve(kCalibratedKinds.size());
  for (const CollectiveKind kind : kCalibratedKinds) names.push_back(to_string(kind));
  comm->add_option("--nproc", request.nproc,
                   "Processes on this node, where no launcher started several")
      ->check(CLI::Range(2, 1024))
      ->type_name("N");
  comm->add_option("--threads", request.threads,
                   "Host threads of each; else its share of the cores")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  comm->add_option("--sizes", command->sizes,
                   "1KiB,1MiB,...; 1KiB to 64MiB by powers of 2 otherwise")
      ->delimiter(',')
      ->type_name("SIZE,...");
  comm->add_option("--collectives", command->collectives,
                   "Of " + fmt::format("{}", fmt::join(names, ", ")))
      ->delimiter(',')
      ->check(CLI::IsMember(names))
      ->type_name("NAME,...");
  comm->add_option("--overlap", command->overlap, "Sizes to measure beside compute, or none")
      ->delimiter(',')
      ->type_name("SIZE,...");
  comm->add_option("--repeat", request.sweep.repetitions, "Repetitions of each size")
      ->check(CLI::Range(kLeastSweepRepetitions, 100000))
      ->type_name("N");
  comm->add_option("--link-rate", command->link_rate,
                   "Of each node's link, such as 200Mbps: fit a transport for\n"
                   "other rates and numbers of nodes (Gloo)")
      ->type_name("RATE");
  comm->add_option("--timeout", command->timeout, "Seconds to wait for another rank")
      ->check(CLI::Range(1.0, 1e6))
      ->type_name("S");
  comm->add_option("--name", request.name, "Name of the profile; else the file's")
      ->type_name("NAME");
  comm->add_option("--output", request.output,
                   "The profile (YAML). Its points (CSV) and its samples (JSON)\n"
                   "lie beside it; a sweep that was stopped goes on from them")
      ->required()
      ->type_name("FILE");
  comm->add_flag("--cpu", request.cpu, "Gloo between CPUs though there is a GPU");
  comm->add_flag("--dry-run", command->dry_run,
                 "Print what would be measured, and how long it takes");
  comm->add_flag("--quiet", request.quiet, "No progress line");
  comm->callback([command, &invocation] { run_comm(*command, invocation); });
}

}  // namespace rehearse::inline calibrate
