#include "foreign/topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "base/error.hpp"
#include "base/number.hpp"
#include "base/quoting.hpp"

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

bool is_nic(const std::string& word) { return word.starts_with("NIC") || word.starts_with("mlx"); }

/// A row for each GPU, and a column for each GPU and NIC.
NodeTopology read_matrix(std::string_view text, const std::string& name) {
  NodeTopology node;
  node.what = "an output of `nvidia-smi topo -m`";
  std::istringstream lines{std::string(text)};
  std::vector<std::string> head;
  std::set<int> joined;
  std::size_t number = 0, pairs = 0, by_nvlink = 0;
  int nics = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::vector<std::string> words = words_of_line(line);
    if (words.empty() || words[0] == "Legend:") {
      if (!words.empty()) break;
      continue;
    }
    if (head.empty() && words[0] == "GPU0") {
      for (const std::string& word : words)
        if (word.starts_with("GPU") || is_nic(word)) head.push_back(word);
      nics = static_cast<int>(std::ranges::count_if(head, is_nic));
      continue;
    }
    if (!words[0].starts_with("GPU") || head.empty()) continue;
    if (words.size() < head.size() + 1)
      fail(name, number, fmt::format("{} links, and {} columns", words.size() - 1, head.size()));
    ++node.gpus;
    for (std::size_t i = 0; i < head.size(); ++i) {
      const std::string& link = words[i + 1];
      if (!head[i].starts_with("GPU") || link == "X") continue;
      ++pairs;
      if (!link.starts_with("NV")) continue;
      ++by_nvlink;
      const auto count = decimal_number(link.substr(2));
      if (!count) fail(name, number, fmt::format("no number of links in \"{}\"", link));
      joined.insert(static_cast<int>(*count));
    }
  }
  if (node.gpus == 0) fail(name, 1, "no row of a GPU");
  node.nics = nics;
  node.nvlinks = by_nvlink == pairs && joined.size() == 1 ? *joined.begin() : 0;
  if (by_nvlink > 0 && (by_nvlink != pairs || joined.size() > 1))
    node.untold.push_back(
        fmt::format("nvlink: {} of {} pairs of GPUs are joined, which is no switch: nothing here "
                    "is such a mesh",
                    by_nvlink / 2, pairs / 2));
  if (nics > 0) node.untold.emplace_back("nic: the rate of a NIC does not stand there");
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
      const std::size_t equals = text.find("=\"", place);
      if (equals == std::string_view::npos || equals > end) break;
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

NodeTopology read_nccl(const std::vector<Element>& elements, const std::string& name) {
  NodeTopology node;
  node.what = "NCCL's topology";
  int links = 0;
  std::set<double> speeds;
  int nics = 0;
  for (const Element& element : elements) {
    if (element.tag == "gpu") {
      ++node.gpus;
      links = 0;
    }
    if (element.tag == "nvlink") {
      const auto count = decimal_number(attribute(element, "count"));
      if (!count) fail(name, element.line, "an nvlink without its count");
      links += static_cast<int>(*count);
      node.nvlinks = links;
    }
    if (element.tag == "net") {
      const auto speed = decimal_number(attribute(element, "speed"));
      if (!speed || *speed <= 0) fail(name, element.line, "a net without its speed");
      speeds.insert(*speed / 1000);
      ++nics;
    }
    const std::string rate = attribute(element, "link_speed");
    const auto width = decimal_number(attribute(element, "link_width"));
    const auto transfers = leading_number(rate);
    // A GPU's: class 0x0302. 128 of 130 bits are data (PCIe 3.0 to 5.0).
    if (element.tag == "pci" && attribute(element, "class").starts_with("0x0302") && width &&
        transfers)
      node.pcie_gbytes = transfers->value * *width / 8 * 128 / 130;
  }
  if (node.gpus == 0) fail(name, 1, "no gpu");
  if (!node.nvlinks) node.nvlinks = 0;
  node.nics = nics;
  if (speeds.size() == 1) node.nic_gbps = *speeds.begin();
  if (speeds.size() > 1) node.untold.emplace_back("nic: there are NICs of several rates");
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

std::string cluster_text(const NodeTopology& node, const std::string& gpu,
                         const std::string& name) {
  std::string text = fmt::format("# From {} ({}).\n", node.what, name);
  for (const std::string& one : node.untold) text += fmt::format("# {}\n", one);
  text += fmt::format("name: {}\nnodes: 1\nnode:\n  gpu: {}\n  gpus: {}\n", yaml_quoted(name), gpu,
                      node.gpus);
  if (node.pcie_gbytes) text += fmt::format("  pcie: {:.4g}GBps\n", *node.pcie_gbytes);
  if (node.cores && *node.cores > 0) text += fmt::format("  cores: {}\n", *node.cores);
  if (node.nics && *node.nics > 0 && node.nic_gbps)
    text += fmt::format("  nics: {}\n  nic: {:.4g}Gbps\n", *node.nics, *node.nic_gbps);
  return text;
}

}  // namespace rehearse::inline foreign
