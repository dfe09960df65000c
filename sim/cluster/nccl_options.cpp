#include "cluster/nccl_options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/error.hpp"

namespace rehearse::inline cluster {
namespace {

constexpr std::array kAlgorithms = {
    std::pair{NcclAlgorithm::ring, "Ring"},       std::pair{NcclAlgorithm::tree, "Tree"},
    std::pair{NcclAlgorithm::nvls, "NVLS"},       std::pair{NcclAlgorithm::nvls_tree, "NVLSTree"},
    std::pair{NcclAlgorithm::collnet, "CollNet"}, std::pair{NcclAlgorithm::pat, "PAT"},
    std::pair{NcclAlgorithm::direct, "direct"}};
constexpr std::array kProtocols = {std::pair{NcclProtocol::ll, "LL"},
                                   std::pair{NcclProtocol::ll128, "LL128"},
                                   std::pair{NcclProtocol::simple, "Simple"}};

template <typename Names>
std::vector<std::string> words(const Names& names) {
  std::vector<std::string> all;
  for (const auto& [value, name] : names) all.emplace_back(name);
  return all;
}

template <typename Names>
auto named(const Names& names, const std::string& word) {
  return std::ranges::find_if(names, [&](const auto& one) { return word == one.second; })->first;
}

template <typename Names>
std::string name_of(const Names& names, auto wanted) {
  const auto found =
      std::ranges::find_if(names, [&](const auto& one) { return wanted == one.first; });
  check(found != names.end(), "an algorithm or protocol without a name");
  return found->second;
}

/// One name or a list of them.
template <typename Names>
auto read_names(const Value& value, const Names& names) {
  std::vector<decltype(names[0].first)> read;
  const std::vector<std::string> known = words(names);
  if (!value.is_list()) return std::vector{named(names, value.as_choice(known))};
  for (const Value& one : value.as_list()) read.push_back(named(names, one.as_choice(known)));
  if (read.empty()) value.fail("expected at least one name; got an empty list", "remove it");
  return std::vector<std::remove_const_t<decltype(named(names, ""))>>(read.begin(), read.end());
}

NcclVersion read_version(const Value& value) {
  const std::string text = value.as_string();
  NcclVersion version;
  const char* const end = text.data() + text.size();
  const auto major = std::from_chars(text.data(), end, version.major);
  const bool dotted = major.ec == std::errc{} && major.ptr != end && *major.ptr == '.';
  const auto minor = dotted ? std::from_chars(major.ptr + 1, end, version.minor) : major;
  if (!dotted || minor.ec != std::errc{} || (minor.ptr != end && *minor.ptr != '.') ||
      version.major < 1)
    value.fail("expected a version of NCCL; got \"" + text + "\"",
               "write it as NCCL prints it, such as `version: \"2.23.4\"`");
  return version;
}

}  // namespace

std::string to_string(NcclAlgorithm algorithm) { return name_of(kAlgorithms, algorithm); }
std::string to_string(NcclProtocol protocol) { return name_of(kProtocols, protocol); }

bool NcclOptions::allows(NcclAlgorithm algorithm) const {
  return algorithms.empty() || std::ranges::count(algorithms, algorithm) > 0;
}

bool NcclOptions::allows(NcclProtocol protocol) const {
  return protocols.empty() || std::ranges::count(protocols, protocol) > 0;
}

NcclOptions read_nccl_options(const Value& value) {
  Map map = value.as_map();
  NcclOptions options;
  if (const auto version = map.optional("version")) options.version = read_version(*version);
  if (const auto names = map.optional("algorithms"))
    options.algorithms = read_names(*names, kAlgorithms);
  if (const auto names = map.optional("protocols"))
    options.protocols = read_names(*names, kProtocols);
  if (const auto sharp = map.optional("sharp")) options.sharp = sharp->as_bool();
  map.finish();
  return options;
}

}  // namespace rehearse::inline cluster
