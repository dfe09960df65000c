#include "config/record_set.hpp"

#include <fmt/format.h>
#include <lzma.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <string_view>
#include <tuple>

#include "base/error.hpp"
#include "config/document.hpp"

namespace rehearse::inline config {
namespace {

constexpr std::string_view kEnding = ".tar.xz";
constexpr std::size_t kMostBytes = std::size_t{128} << 20;
constexpr std::uint64_t kMostMemory = std::uint64_t{512} << 20;  // of the decoder

using Records = std::map<std::string, std::string>;  // by name, without "./"

[[noreturn]] void refuse(const std::filesystem::path& set, const std::string& why) {
  throw InputError(
      fmt::format("{}: error: is no set of records (a tar file packed by xz): {}\nremedy: pack its "
                  "folder again with tests/validation/record_set.py",
                  set.string(), why));
}

// --- what is packed ------------------------------------------------------------------------------

std::string why(lzma_ret code) {
  if (code == LZMA_FORMAT_ERROR) return "it is not packed by xz";
  if (code == LZMA_MEMLIMIT_ERROR) return "unpacking it needs more than 512 MiB";
  return "it is damaged or cut off";
}

std::string unpacked(const std::string& packed, const std::filesystem::path& set) {
  lzma_stream stream = LZMA_STREAM_INIT;
  check(lzma_stream_decoder(&stream, kMostMemory, LZMA_CONCATENATED) == LZMA_OK, "liblzma starts");
  stream.next_in = reinterpret_cast<const std::uint8_t*>(packed.data());
  stream.avail_in = packed.size();
  std::string text;
  std::array<char, 65536> block{};
  lzma_ret code = LZMA_OK;
  while (code == LZMA_OK && text.size() <= kMostBytes) {
    stream.next_out = reinterpret_cast<std::uint8_t*>(block.data());
    stream.avail_out = block.size();
    code = lzma_code(&stream, LZMA_FINISH);
    text.append(block.data(), block.size() - stream.avail_out);
  }
  lzma_end(&stream);
  if (text.size() > kMostBytes) refuse(set, "it holds more than 128 MiB");
  if (code != LZMA_STREAM_END) refuse(set, why(code));
  return text;
}

// --- the tar file in it (POSIX.1-1988, "ustar")
// ---------------------------------------------------

constexpr std::size_t kBlock = 512;

struct Field {
  std::size_t begin, size;
};
constexpr Field kName{0, 100}, kSize{124, 12}, kMagic{257, 5}, kPrefix{345, 155};
constexpr std::size_t kType = 156;

/// Up to its first NUL.
std::string_view field(std::string_view header, Field at) {
  const std::string_view whole = header.substr(at.begin, at.size);
  return whole.substr(0, whole.find('\0'));
}

std::string name_of(std::string_view header) {
  const std::string_view prefix = field(header, kPrefix);
  const std::filesystem::path name(field(header, kName));
  return (prefix.empty() ? name : std::filesystem::path(prefix) / name).lexically_normal().string();
}

Records records_of(std::string_view tar, const std::filesystem::path& set) {
  Records records;
  if (tar.size() % kBlock != 0) refuse(set, "the tar file in it is cut off");
  while (tar.size() >= kBlock && tar[0] != '\0') {
    const std::string_view header = tar.substr(0, kBlock);
    if (field(header, kMagic) != "ustar") refuse(set, "there is no tar file in it");
    std::size_t size = 0;
    const std::string_view octal = field(header, kSize);
    constexpr int kOctal = 8;
    std::from_chars(octal.data(), octal.data() + octal.size(), size, kOctal);
    tar.remove_prefix(kBlock);
    if (size > tar.size()) refuse(set, "the tar file in it is cut off");
    const char type = header[kType];
    if (type != '0' && type != '5')
      refuse(set, fmt::format("\"{}\" is neither a file nor a folder", name_of(header)));
    if (type == '0') records[name_of(header)] = tar.substr(0, size);
    tar.remove_prefix(std::min(tar.size(), (size + kBlock - 1) / kBlock * kBlock));
  }
  return records;
}

// --- sets that were unpacked
// ----------------------------------------------------------------------

/// What tells that a file is another one than before.
auto identity(const std::filesystem::path& file) {
  struct stat status {};
  stat(file.c_str(), &status);
  return std::tuple(status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec,
                    status.st_mtim.tv_nsec);
}

const Records& records_in(const std::filesystem::path& set) {
  struct Unpacked {
    decltype(identity("")) of;
    Records records;
  };
  thread_local std::map<std::filesystem::path, Unpacked> known;
  const auto now = identity(set);
  const auto found = known.find(set);
  if (found != known.end() && found->second.of == now) return found->second.records;
  std::ifstream stream(set, std::ios::binary);
  const std::string packed{std::istreambuf_iterator<char>(stream), {}};
  if (!stream) throw MissingError(fmt::format("{}: error: cannot read the file", set.string()));
  return known.insert_or_assign(set, Unpacked{now, records_of(unpacked(packed, set), set)})
      .first->second.records;
}

/// A place in a set: `staleness/mnist_mlp.tar.xz`, `w4_hurts_1.yaml`.
struct Place {
  std::filesystem::path set;
  std::string name;  ///< empty for the set itself
};

std::optional<Place> place_of(const std::filesystem::path& file) {
  std::filesystem::path set, name;
  for (const std::filesystem::path& part : file) {
    if (!name.empty() || set.native().ends_with(kEnding)) {
      name /= part;
    } else {
      set /= part;
    }
  }
  std::error_code ignored;
  if (!set.native().ends_with(kEnding) || !std::filesystem::is_regular_file(set, ignored))
    return {};
  const std::string inside = name.lexically_normal().string();
  return Place{set, inside == "." ? "" : inside};
}

bool holds_folder(const Place& place) {
  if (place.name.empty()) return true;
  const std::string begin = place.name + "/";
  const Records& records = records_in(place.set);
  const auto first = records.lower_bound(begin);
  return first != records.end() && first->first.starts_with(begin);
}

/// `did you mean "w4_hurts_1.yaml"?`; empty where nothing is like it.
std::string suggestion(const Place& place) {
  std::vector<std::string> names;
  for (const auto& [name, text] : records_in(place.set)) names.push_back(name);
  const std::string meant = nearest(place.name, names);
  return meant.empty() ? "" : fmt::format("did you mean \"{}\"? ", meant);
}

}  // namespace

std::optional<std::string> record_text(const std::filesystem::path& file) {
  const std::optional<Place> place = place_of(file);
  if (!place || place->name.empty()) return {};
  const Records& records = records_in(place->set);
  const auto found = records.find(place->name);
  if (found != records.end()) return found->second;
  throw MissingError(fmt::format("{}: error: the set has no record \"{}\"\nremedy: {}",
                                 place->set.string(), place->name, remedy_for_missing(file, "")));
}

bool is_input_file(const std::filesystem::path& file) {
  std::error_code ignored;
  const std::optional<Place> place = place_of(file);
  if (!place || place->name.empty()) return std::filesystem::is_regular_file(file, ignored);
  return records_in(place->set).contains(place->name);
}

bool is_input_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  const std::optional<Place> place = place_of(folder);
  return place ? holds_folder(*place) : std::filesystem::is_directory(folder, ignored);
}

std::vector<std::filesystem::path> input_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  if (const std::optional<Place> place = place_of(folder)) {
    for (const auto& [name, text] : records_in(place->set)) {
      const std::filesystem::path inside(name);
      if (inside.parent_path() == place->name) files.push_back(folder / inside.filename());
    }
  } else {
    std::error_code missing;
    for (const auto& entry : std::filesystem::directory_iterator(folder, missing))
      if (!entry.is_directory()) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

std::string remedy_for_missing(const std::filesystem::path& file, const std::string& otherwise) {
  const std::optional<Place> place = place_of(file);
  if (!place || place->name.empty()) return otherwise;
  return fmt::format("{}`tar -tf {}` lists what it has", suggestion(*place), place->set.string());
}

}  // namespace rehearse::inline config
