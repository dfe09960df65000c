// The command lines of `import` and `validate`.
#include "cli/arguments.hpp"
#include "cli/command_line.hpp"
#include "cli/shared_options.hpp"

namespace rehearse {
namespace {

void add_import_form(CLI::App& import, const std::string& form, const std::string& about,
                     ImportCommand& command) {
  CLI::App* app = import.add_subcommand(form, about);
  app->add_option("FILES", command.files, "Files to import")->required();
  app->add_option("--name", command.name, "Name of the profile")->type_name("NAME");
  app->add_option("--hardware", command.hardware, "What it was measured on")->type_name("TEXT");
  app->add_option("--source", command.source, "Where the numbers were published")
      ->type_name("TEXT");
  app->add_option("--links", command.links,
                  "Links of the machine: \"{nvlink: 300GBps, nics: 4, nic: 100Gbps}\"")
      ->type_name("MAP");
  app->add_option("--output", command.output, "Write the profile to this file")->type_name("FILE");
  if (form == "nccl-tests") {
    app->add_option("--collective", command.collective, "Where the log does not name its program")
        ->check(one_of(collective_names()))
        ->type_name("NAME");
    app->add_option("--ranks", command.ranks, "Where the log does not list them")
        ->check(CLI::Range(2, 1000000))
        ->type_name("N");
    app->add_option("--nodes", command.nodes, "Likewise")
        ->check(CLI::Range(1, 1000000))
        ->type_name("N");
    app->add_flag("--in-place", command.in_place, "Take the in-place columns");
  }
  app->callback([&command, form] {
    command.form = form;
    import_command(command);
  });
}

void add_size(CLI::App& app, const std::string& name, Bytes& size, const std::string& about) {
  app.add_option_function<std::string>(
         name, [&size](const std::string& text) { size = parse_memory(text); }, about)
      ->check(a_memory())
      ->type_name("SIZE");
}

/// A bound such as "5%".
void add_share(CLI::App& app, const std::string& name, std::optional<double>& share,
               const std::string& about) {
  app.add_option_function<std::string>(
         name, [&share](const std::string& text) { share = parse_share(text); }, about)
      ->check(a_share())
      ->type_name("PERCENT");
}

void add_bounds(CLI::App& app, ErrorBounds& bounds) {
  add_share(app, "--fail-mean", bounds.mean,
            "Exit with 1 if a group's mean relative error is more: --fail-mean 5%");
  add_share(app, "--fail-max", bounds.max, "Likewise for each relative error: --fail-max 12%");
  app.add_option("--fail-staleness", bounds.staleness,
                 "Likewise for each mean staleness's difference, in updates")
      ->check(CLI::NonNegativeNumber)
      ->type_name("UPDATES");
  app.add_option("--fail-ks", bounds.distance,
                 "Likewise for each Kolmogorov-Smirnov distance of staleness")
      ->check(CLI::NonNegativeNumber)
      ->type_name("D");
  app.add_option(
         "--fail-accuracy", bounds.accuracy,
         "Likewise if the mean accuracy of a setting's runs is more\n"
         "points off, or a verdict (diverges or not) is wrong:\n--fail-accuracy 2")
      ->check(CLI::NonNegativeNumber)
      ->type_name("POINTS");
}

}  // namespace

void add_import(CLI::App& app, ImportCommand& command) {
  CLI::App* import = app.add_subcommand("import", "Turn measurements into a profile");
  import->require_subcommand(1);
  add_import_form(*import, "nccl-tests", "From the output of nccl-tests", command);
  add_import_form(*import, "points", "From tables of measured points (CSV)", command);
}

void add_collective(CLI::App& app, CollectiveCommand& command) {
  CLI::App* collective = app.add_subcommand(
      "collective", "The table of nccl-tests that is predicted of a cluster");
  collective->add_option("--kind", command.kind, "all_reduce, all_gather, reduce_scatter, ...")
      ->check(one_of(collective_names()))
      ->type_name("NAME");
  collective->add_option("--cluster", command.cluster, "A shipped cluster, or a .yaml file")
      ->required()
      ->type_name("NAME");
  collective->add_option("--nodes", command.nodes, "Of its nodes with GPUs")
      ->check(CLI::Range(1, 1000000))
      ->type_name("N");
  collective->add_option("--gpus-per-node", command.gpus_per_node, "Of each node's GPUs")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  collective
      ->add_option("--change", command.changes,
                   "A key beside `use:`, such as \"nic: 25Gbps\" (repeatable)")
      ->type_name("KEY")
      ->allow_extra_args(false);
  add_size(*collective, "--begin", command.smallest, "Smallest size: 8B");
  add_size(*collective, "--end", command.largest, "Largest size: 8GiB; each is twice the one before");
  add_format(*collective, command.format);
  collective->add_option("--output", command.output, "Write to this file")->type_name("FILE");
  collective->callback([&command] { collective_command(command); });
}

void add_validate(CLI::App& app, ValidateCommand& command) {
  CLI::App* validate = app.add_subcommand("validate", "Predictions beside real measurements");
  validate->add_option("SET", command.files,
                       "Names of shipped sets, files, folders, or all; none: a line each");
  validate
      ->add_option("--metric", command.metrics,
                   "Compare only this key of the report: --metric step_time_s (repeatable)")
      ->type_name("KEY")
      ->allow_extra_args(false);
  validate->add_option("--format", command.format, "table, json, csv or markdown")
      ->check(one_of({"table", "json", "csv", "markdown"}))
      ->type_name("FORMAT");
  validate->add_option("--output", command.output, "Write the table to this file")
      ->type_name("FILE");
  add_jobs(*validate, command.jobs, "Predictions");
  add_html(*validate, command.html);
  add_bounds(*validate, command.bounds);
  validate->add_flag("--live", command.live,
                     "Measure every case anew on this machine first (./rehearse, as root)");
  validate->add_flag("--quiet", command.quiet, "No progress line");
  add_color(*validate, command.color);
  validate->callback([&command] { validate_command(command); });
}

}  // namespace rehearse
