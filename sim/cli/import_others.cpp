// `rehearse import chakra FILE...` and `rehearse import topology FILE`.
#include <fmt/format.h>

#include "base/error.hpp"
#include "base/printable.hpp"
#include "cli/import_config.hpp"
#include "cli/options.hpp"
#include "config/whole_file.hpp"
#include "foreign/topology.hpp"
#include "foreign/traces/chakra_schedule.hpp"

namespace rehearse::inline cli {
namespace {

struct ImportTopologyCommand {
  std::filesystem::path file;
  std::string gpu;
  AnswerOptions answer;
};

void import_topology(const ImportTopologyCommand& command) {
  const std::string name = command.file.string();
  const NodeTopology node = read_topology(read_whole_file(command.file), name);
  check_outputs({{"--output", command.answer.output}}, {command.file});
  const std::string gpu = command.gpu.empty() ? gpu_of_pci_device(node.pci_device) : command.gpu;
  if (gpu.empty())
    throw InputError(fmt::format(
        "{}: error: the file does not say which GPUs they are{}\n"
        "remedy: add --gpu H100-SXM, or another of `rehearse list gpus`",
        name, node.pci_device.empty() ? "" : ", and " + node.pci_device + " is not known here"));
  const std::string text = cluster_text(node, gpu, command.file.stem().string());
  read_cluster(Document::parse(text, name)->root());  // so that what is written can be named
  for (const std::string& one : node.untold) tell(fmt::format("not told: {}\n", one));
  write_answer({.table = [&](int, bool) { return text; }, .json = {}}, command.answer);
}

}  // namespace

void add_import_chakra(CLI::App& import_app) {
  const auto files = std::make_shared<std::vector<std::filesystem::path>>();
  CLI::App& app = *import_app.add_subcommand("chakra", "What Chakra's execution traces hold");
  app.add_option("FILES", *files, "Traces (.et) of ranks of one run")->required();
  app.callback([files] {
    std::vector<ChakraFile> ranks;
    for (const auto& file : *files)
      ranks.push_back({file.string(), read_chakra(read_whole_file(file), file.string())});
    write_stdout(chakra_summary(ranks));
  });
}

void add_import_topology(CLI::App& import_app) {
  const auto command = std::make_shared<ImportTopologyCommand>();
  CLI::App& app = *import_app.add_subcommand(
      "topology", "A cluster file from nvidia-smi topo -m, NCCL's or lstopo's XML");
  app.add_option("FILE", command->file, "The file")->required();
  add(app, "--gpu", command->gpu,
      "Which GPUs they are (`rehearse list gpus`), where the\nfile has no device ids", "NAME");
  add_output(app, command->answer, "Write the cluster to this file");
  app.callback([command] { import_topology(*command); });
}

}  // namespace rehearse::inline cli
