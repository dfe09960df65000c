#include "foreign/topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "base/number.hpp"
#include "base/quoting.hpp"
#include "cluster/cluster.hpp"
#include "config/draft.hpp"

namespace rehearse::inline foreign {
namespace {

[[noreturn]] void fail(const std::string& name, std::size_t line, const std::string& message) {
  throw InputError(
      fmt::format("{}:{}: error: {}\nremedy: give the output of `nvidia-smi topo -m`, "
                  "the file of NCCL_TOPO_DUMP_FILE, or that of lstopo --of xml",
                  name, line, message));
}

std::vector<std::string> words_of_line(std::string line) {
  for (std::size_t escape = line.find('\x1b'); escape != std::string::npos;
       escape = line.find('\x1b'))
    line.erase(escape, std::min(line.find('m', escape), line.size() - 1) - escape + 1);
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

bool is_numbered(const std::string& word, std::string_view name) {
  return word.starts_with(name) && word.size() > name.size() &&
         std::ranges::all_of(word.substr(name.size()),
                             [](unsigned char c) { return std::isdigit(c); });
}
bool is_gpu(const std::string& word) { return is_numbered(word, "GPU"); }
bool is_nic(const std::string& word) {
  for (const char* name :
       {"NIC", "mlx", "bnxt", "hfi", "ib", "cxi", "efa", "irdma", "rocep", "roce"})
    if (word.starts_with(name)) return true;
  return false;
}

/// What nvidia-smi's legend says of a path.
std::string path_of(const std::string& word) {
  if (word == "PIX") return "one PCIe switch";
  if (word == "PXB") return "several PCIe switches";
  if (word == "PHB") return "a socket's own PCIe ports";
  if (word == "NODE") return "one NUMA node of the host";
  if (word == "PCIE") return "PCIe";
  if (word == "SYS" || word == "SOC" || word == "QPI") return "the link between sockets";
  return "";
}

/// Rows of GPUs, and the links of each.
struct Matrix {
  std::vector<std::string> head;
  std::vector<int> links;  ///< of a GPU to all others
  std::size_t pairs = 0, joined = 0;
  std::map<std::string, std::size_t> paths;
  std::set<std::string> unknown;  ///< words for a link that nothing here says

  void take(const std::string& link, const std::string& name, std::size_t line) {
    ++pairs;
    const std::size_t digits = link.find_first_of("0123456789");
    const bool by_link =
        (link.starts_with("NV") || link.starts_with("XGMI")) && digits != link.npos;
    if (!by_link) {
      const std::string path = link.starts_with("XGMI") ? "" : path_of(link);
      if (!path.empty()) ++paths[path];
      const bool is_word =
          std::ranges::any_of(link, [](unsigned char c) { return std::isalpha(c); });
      if (is_word && path.empty() && link != "XGMI" && link != "X" && link != "N/A")
        unknown.insert(link);
      if (link == "XGMI") {
        ++joined;
        ++links.back();
      }
      return;
    }
    const auto count = decimal_number(link.substr(digits));
    if (!count) fail(name, line, fmt::format("no number of links in \"{}\"", link));
    ++joined;
    links.back() += static_cast<int>(*count);
  }

  /// A switch gives each pair all of a GPU's links; a mesh shares them out.
  void tell(NodeTopology& node) const {
    for (const std::string& link : unknown)
      node.untold.push_back(fmt::format(
          "nvlink: nothing here says what the link \"{}\" is, and it counts as none", link));
    const bool alike = std::ranges::all_of(links, [&](int one) { return one == links.front(); });
    const auto others = static_cast<int>(links.size()) - 1;
    const bool all_joined = joined == pairs && pairs > 0;
    node.nvlinks_to_all = alike ? links.front() : 0;
    node.nvlinks = all_joined && others > 0 ? node.nvlinks_to_all / others : node.nvlinks_to_all;
    if (joined > 0 && !alike)
      node.untold.push_back(
          fmt::format("nvlink: {} of {} pairs of GPUs are joined, not as many of each GPU: nothing "
                      "here is such a mesh",
                      joined / 2, pairs / 2));
    // A bridge joins two cards: rings of all of a node's GPUs go another way.
    if (alike && joined == links.size() && links.size() > 2) {
      node.nvlinks = node.nvlinks_to_all = 0;
      node.untold.emplace_back(
          "nvlink: bridges join pairs of GPUs, which nothing here is: all GPUs "
          "exchange by the other paths");
    }
    for (const auto& [path, count] : paths)
      node.paths.push_back(
          fmt::format("{} of {} pairs of GPUs go through {}", count / 2, pairs / 2, path));
  }
};

/// The names above a matrix's columns.
bool is_head(const std::vector<std::string>& words) {
  return words[0] == "GPU0" && (words.size() == 1 || is_gpu(words[1]) || is_nic(words[1]));
}

/// A row for each GPU, and a column for each GPU and NIC. Columns of affinities are no links.
NodeTopology read_matrix(std::string_view text, const std::string& name) {
  NodeTopology node;
  node.what = "an output of `nvidia-smi topo -m`";
  std::istringstream lines{std::string(text)};
  Matrix matrix;
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::vector<std::string> words = words_of_line(line);
    if (words.empty()) continue;
    if (words[0] == "Legend:") break;
    if (is_head(words)) {
      // rocm-smi's weights and hops come before its links; a matrix of peers comes behind them.
      if (matrix.joined > 0 || !matrix.paths.empty()) break;
      matrix = {};
      node.gpus = 0;
      for (const std::string& word : words) {
        if (!is_gpu(word) && !is_nic(word)) break;
        matrix.head.push_back(word);
      }
      continue;
    }
    if (!is_gpu(words[0]) || matrix.head.empty()) continue;
    if (words.size() < matrix.head.size() + 1)
      fail(name, number,
           fmt::format("{} links, and {} columns", words.size() - 1, matrix.head.size()));
    ++node.gpus;
    matrix.links.push_back(0);
    for (std::size_t i = 0; i < matrix.head.size(); ++i)
      if (is_gpu(matrix.head[i]) && matrix.head[i] != words[0])
        matrix.take(words[i + 1], name, number);
  }
  if (node.gpus == 0) fail(name, 1, "no row of a GPU");
  const auto columns = static_cast<int>(std::ranges::count_if(matrix.head, is_gpu));
  if (columns != node.gpus)
    fail(name, 1, fmt::format("{} rows of GPUs, and {} columns of them", node.gpus, columns));
  node.nics = static_cast<int>(std::ranges::count_if(matrix.head, is_nic));
  matrix.tell(node);
  if (text.find("topo -mp") != std::string_view::npos)
    node.untold.emplace_back("nvlink: `topo -mp` leaves it out: `nvidia-smi topo -m` has it");
  if (*node.nics > 0) node.untold.emplace_back("nic: the rate of a NIC does not stand there");
  node.untold.emplace_back("pcie: the rate of a GPU's PCIe link does not stand there");
  return node;
}

/// Elements of XML with their attributes, in order. What is not markup is passed over.
struct Element {
  std::string tag;
  std::map<std::string, std::string> attributes;
  std::size_t line = 0;
};

std::vector<Element> elements_of(std::string_view text, const std::string& name) {
  std::vector<Element> elements;
  std::size_t line = 1;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\n') ++line;
    if (text[at] != '<' || at + 1 >= text.size() || text[at + 1] == '/' || text[at + 1] == '?' ||
        text[at + 1] == '!')
      continue;
    const std::size_t end = text.find('>', at);
    if (end == std::string_view::npos) fail(name, line, "an element that nothing closes");
    Element element{.tag = {}, .attributes = {}, .line = line};
    std::size_t place = at + 1;
    while (place < end && std::isspace(static_cast<unsigned char>(text[place])) == 0 &&
           text[place] != '/')
      element.tag += text[place++];
    while (place < end) {
      const std::size_t equals = text.substr(0, end).find("=\"", place);
      if (equals == std::string_view::npos) break;
      const std::size_t begin = text.find_last_of(" \t\n", equals) + 1;
      const std::size_t close = text.find('"', equals + 2);
      if (close == std::string_view::npos || close > end)
        fail(name, line, "an attribute that nothing closes");
      element.attributes[std::string(text.substr(begin, equals - begin))] =
          std::string(text.substr(equals + 2, close - equals - 2));
      place = close + 1;
    }
    elements.push_back(std::move(element));
    line += static_cast<std::size_t>(std::ranges::count(text.substr(at, end - at), '\n'));
    at = end;
  }
  return elements;
}

std::string attribute(const Element& element, const std::string& name) {
  const auto found = element.attributes.find(name);
  return found == element.attributes.end() ? "" : found->second;
}

/// Rates of NICs: the slower ones are told apart, and one beyond any NIC's is not taken.
void tell_nics(const std::vector<double>& speeds, NodeTopology& node) {
  constexpr double kFastest = 3200;  // Gbit/s
  std::map<double, int> rates;
  for (const double speed : speeds) ++rates[speed];
  while (!rates.empty() && rates.rbegin()->first > kFastest) {
    node.untold.push_back(
        fmt::format("nic: {} NICs of {:g} Gbit/s, which none has: its driver gives "
                    "another unit",
                    rates.rbegin()->second, rates.rbegin()->first));
    rates.erase(std::prev(rates.end()));
  }
  if (rates.empty()) return;
  const auto [fastest, count] = *rates.rbegin();
  node.nics = count;
  node.nic_gbps = fastest;
  rates.erase(std::prev(rates.end()));
  for (const auto& [rate, others] : rates)
    node.untold.push_back(
        fmt::format("nic: {} more of {:g} Gbit/s, which NCCL leaves aside for the "
                    "{} of {:g}",
                    others, rate, count, fastest));
}

NodeTopology read_nccl(const std::vector<Element>& elements, const std::string& name) {
  NodeTopology node;
  node.what = "NCCL's topology";
  std::vector<int> links;
  std::vector<double> speeds;
  for (const Element& element : elements) {
    const auto width = decimal_number(attribute(element, "link_width"));
    const auto transfers = leading_number(attribute(element, "link_speed"));
    // A GPU's: class 0x0302, AMD's 0x1200. 128 of 130 bits are data (PCIe 3.0 to 5.0).
    const std::string kind = attribute(element, "class");
    if (element.tag == "pci" &&
        (kind.starts_with("0x0302") || kind.starts_with("0x0300") || kind.starts_with("0x1200"))) {
      if (width && transfers) node.pcie_gbytes = transfers->value * *width / 8 * 128 / 130;
      if (!attribute(element, "device").empty())
        node.pci_device = attribute(element, "vendor") + ":" + attribute(element, "device");
    }
    if (element.tag == "gpu") {
      ++node.gpus;
      links.push_back(0);
    }
    const bool by_link = element.tag == "nvlink" || element.tag == "xgmi";
    if (by_link && !links.empty()) {
      const auto count = decimal_number(attribute(element, "count"));
      if (!count) fail(name, element.line, fmt::format("an {} without its count", element.tag));
      links.back() += static_cast<int>(*count);
    }
    if (element.tag == "net") {
      const auto speed = decimal_number(attribute(element, "speed"));
      if (!speed) fail(name, element.line, "a net without its speed");
      // Sockets' interfaces of a card that has a verbs device, too, have no rate of their own.
      if (*speed > 0) speeds.push_back(*speed / 1000);
    }
  }
  if (node.gpus == 0) fail(name, 1, "no gpu");
  const bool alike = std::ranges::all_of(links, [&](int one) { return one == links.front(); });
  node.nvlinks = node.nvlinks_to_all = alike ? links.front() : 0;
  if (!alike)
    node.untold.emplace_back("nvlink: not as many links of each GPU: nothing here is such a mesh");
  node.nics = 0;
  tell_nics(speeds, node);
  if (!node.pcie_gbytes)
    node.untold.emplace_back("pcie: the rate of a GPU's PCIe link does not stand there");
  return node;
}

NodeTopology read_lstopo(const std::vector<Element>& elements, const std::string& name) {
  NodeTopology node;
  node.what = "lstopo's topology";
  int cores = 0, nics = 0;
  for (const Element& element : elements) {
    const std::string type = attribute(element, "type");
    if (type == "Core") ++cores;
    const std::string pci = attribute(element, "pci_type");
    const bool nvidia =
        pci.find("[10de:") != std::string::npos || pci.find("[1002:") != std::string::npos;
    if (type == "PCIDev" && nvidia && (pci.starts_with("0302") || pci.starts_with("0300"))) {
      ++node.gpus;
      const std::size_t id = pci.find('[');
      if (pci.size() >= id + 10)
        node.pci_device = "0x" + pci.substr(id + 1, 4) + ":0x" + pci.substr(id + 6, 4);
      const auto rate = decimal_number(attribute(element, "pci_link_speed"));
      if (rate && *rate > 0) node.pcie_gbytes = *rate;
    }
    if (type == "OSDev" && attribute(element, "osdev_type") == "3") ++nics;
  }
  if (node.gpus == 0) fail(name, 1, "no PCI device that is a GPU");
  node.cores = cores;
  node.nics = nics;
  if (nics > 0) node.untold.emplace_back("nic: the rate of a NIC does not stand there");
  node.untold.emplace_back("nvlink: lstopo knows of no NVLinks");
  if (!node.pcie_gbytes)
    node.untold.emplace_back("pcie: the rate of a GPU's PCIe link does not stand there");
  return node;
}

}  // namespace

NodeTopology read_topology(std::string_view text, const std::string& name) {
  if (text.find("<system") != std::string_view::npos)
    return read_nccl(elements_of(text, name), name);
  if (text.find("<topology") != std::string_view::npos)
    return read_lstopo(elements_of(text, name), name);
  return read_matrix(text, name);
}

namespace {

/// Links of a GPU at that GPU's rate each; empty: it has none.
std::string nvlink_line(const NodeTopology& node, const std::string& gpu) {
  if (node.nvlinks.value_or(0) == 0) return "";
  Draft alone;
  alone.set("node.gpu", gpu).set("node.gpus", 1).set("node.pcie", "24GBps").set("nodes", 1);
  const Gpu found =
      read_cluster(Document::parse(alone.flow(), "--gpu")->root()).groups.front().node.gpu;
  const double one = found.architecture ? found.architecture->bounds.link.value() : 0;
  const double datasheet = found.nvlink.value();
  constexpr double kRounding = 1.01;
  const bool is_mesh = one > 0 && node.nvlinks_to_all * one <= kRounding * datasheet;
  const int links = is_mesh ? node.nvlinks_to_all : *node.nvlinks;
  // Links of cards with bridges are slower than their generation's (RTX A6000: 14 GB/s).
  const double rate = one > 0 ? std::min(links * one, datasheet) : datasheet;
  if (rate <= 0)
    return fmt::format("  # nvlink: RATE, of {} links each; nobody says here what one carries\n",
                       links);
  return fmt::format("  nvlink: {:.6g}GBps  # {} links{}\n", rate / 1e9, links,
                     one > 0 ? fmt::format(" of {:.4g} GB/s", rate / links / 1e9)
                             : ", as its datasheet adds them up");
}

}  // namespace

std::string gpu_of_pci_device(const std::string& device) {
  const auto document = Document::load_foreign(data_folder() / "platforms/devices.yaml");
  Map names = document->root().as_map();
  const auto name = names.optional(device);
  return name ? name->as_string() : "";
}

std::string cluster_text(const NodeTopology& node, const std::string& gpu,
                         const std::string& name) {
  std::string text = fmt::format("# From {} ({}).\n", node.what, name);
  for (const auto* list : {&node.paths, &node.untold})
    for (const std::string& one : *list) text += fmt::format("# {}\n", one);
  Draft own;
  own.set("gpu", gpu).set("gpus", node.gpus);
  if (node.pcie_gbytes) own.set("pcie", fmt::format("{:.4g}GBps", *node.pcie_gbytes));
  if (node.cores && *node.cores > 0) own.set("cores", *node.cores);
  if (node.nics && *node.nics > 0 && node.nic_gbps)
    own.set("nics", *node.nics).set("nic", fmt::format("{:.4g}Gbps", *node.nic_gbps));
  Draft cluster;
  cluster.set("name", name).set("nodes", 1);
  // The links' line has a comment of its own.
  return text + cluster.block() + "node:\n" + own.block(2) + nvlink_line(node, gpu);
}

}  // namespace rehearse::inline foreign
