#include "cluster/nccl_options.hpp"

#include <algorithm>
#include <charconv>

#include "base/error.hpp"
#include "cluster/cluster_keys.hpp"
#include "config/fields.hpp"

namespace rehearse::inline cluster {
namespace {

constexpr Choices<NcclAlgorithm> kAlgorithms = {
    {"Ring", NcclAlgorithm::ring},       {"Tree", NcclAlgorithm::tree},
    {"NVLS", NcclAlgorithm::nvls},       {"NVLSTree", NcclAlgorithm::nvls_tree},
    {"CollNet", NcclAlgorithm::collnet}, {"PAT", NcclAlgorithm::pat},
    {"direct", NcclAlgorithm::direct}};
constexpr Choices<NcclProtocol> kProtocols = {
    {"LL", NcclProtocol::ll}, {"LL128", NcclProtocol::ll128}, {"Simple", NcclProtocol::simple}};

/// One name or a list of them.
template <class Enum>
Form<std::vector<Enum>> one_or_more(Choices<Enum> choices) {
  const Form<Enum> one = form::choice(choices);
  const Form<std::vector<Enum>> several = form::list(one);
  return {one.type | several.type,
          [one, several](const Value& value) {
            if (!value.is_list()) return std::vector{one.read(value)};
            const std::vector<Enum> read = several.read(value);
            if (read.empty())
              value.fail("expected at least one name; got an empty list", "remove it");
            return read;
          },
          {},
          {},
          false};
}

NcclVersion read_version(const Value& value) {
  const std::string text = value.as_string();
  NcclVersion version;
  const char* const end = text.data() + text.size();
  const auto major = std::from_chars(text.data(), end, version.major);
  const bool dotted = major.ec == std::errc{} && major.ptr != end && *major.ptr == '.';
  const auto minor = dotted ? std::from_chars(major.ptr + 1, end, version.minor) : major;
  const bool ends = minor.ptr == end || *minor.ptr == '.' || *minor.ptr == '+';
  if (!dotted || minor.ec != std::errc{} || !ends || version.major < 2)
    value.fail("expected a version of NCCL; got \"" + text + "\"",
               "write it as NCCL prints it, such as `version: \"2.23.4\"`");
  return version;
}

Fields<NcclOptions> nccl_fields() {
  using N = NcclOptions;
  return {
      field("version", &N::version, Form<NcclVersion>{type::text(), read_version},
            "As NCCL prints it; none: a recent one."),
      silent("algorithms", &N::algorithms, one_or_more(kAlgorithms),
             "NCCL_ALGO: what it may choose from."),
      silent("protocols", &N::protocols, one_or_more(kProtocols), "NCCL_PROTO, likewise."),
      silent("sharp", &N::sharp, "Switches between nodes add up (CollNet).").otherwise("(false)")};
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

std::vector<Key> nccl_keys() { return keys_of(nccl_fields()); }

NcclOptions read_nccl_options(const Value& value) { return read_fields(value, nccl_fields()); }

}  // namespace rehearse::inline cluster
