#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>

#include "base/error.hpp"
#include "config/record_set.hpp"
#include "model/captured/captured.hpp"

namespace rehearse::captured {

namespace {

/// How a rank's file and its ranks are called.
struct RankWords {
  const char* suffix;
  const char* ranks;
  const char* option;
  int Step::*number;
};

RankWords words_of(ExchangeAxis axis) {
  return axis == ExchangeAxis::embedding
             ? RankWords{"ep", "ranks that share tables", "embedding_parallel",
                         &Step::embedding_parallel}
             : RankWords{"tp", "tensor ranks", "tensor_parallel", &Step::tensor_parallel};
}

/// Degrees that lie beside NAME.model.json, as "2, 4"; empty where none does.
std::string captured_degrees(const std::filesystem::path& whole, const std::string& start) {
  std::set<int> found;
  const std::string end = ".model.json";
  std::error_code ignored;
  const auto folder = whole.has_parent_path() ? whole.parent_path() : std::filesystem::path(".");
  for (const auto& each : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = each.path().filename().string();
    if (!name.starts_with(start) || !name.ends_with(end)) continue;
    if (name.size() <= start.size() + end.size()) continue;
    const char* last = name.data() + (name.size() - end.size());
    int degree = 0;
    const auto read = std::from_chars(name.data() + start.size(), last, degree);
    if (read.ec == std::errc() && read.ptr == last) found.insert(degree);
  }
  return fmt::format("{}", fmt::join(found, ", "));
}

}  // namespace

Model rank_of(const Model& whole, ExchangeAxis axis, int ranks) {
  const RankWords words = words_of(axis);
  const std::filesystem::path file(whole.captured->file);
  const std::filesystem::path name = file.filename().stem();  // of NAME.model.json
  const std::string start = fmt::format(
      "{}.{}", (name.extension() == ".model" ? name.stem() : name).string(), words.suffix);
  const std::filesystem::path own =
      file.parent_path() / fmt::format("{}{}.model.json", start, ranks);
  if (!is_input_file(own)) {
    const std::string degrees = captured_degrees(file, start);
    throw InputError(fmt::format(
        "no file \"{}\": it is captured whole{}, and not as one of {} {}; "
        "capture(..., {}={}) writes it",
        own.string(), degrees.empty() ? "" : fmt::format(" and at {} {}", words.option, degrees),
        ranks, words.ranks, words.option, ranks));
  }
  Model share = read_captured(own, whole.captured->length);
  bool alike = (*share.captured).*words.number == ranks &&
               share.captured->precision == whole.captured->precision &&
               share.units.size() == whole.units.size();
  for (std::size_t i = 0; alike && i < share.units.size(); ++i)
    alike = share.units[i].tensors.size() == whole.units[i].tensors.size();
  if (!alike)
    throw InputError(fmt::format("\"{}\" is not one of {} {} of {}; capture both anew",
                                 own.string(), ranks, words.ranks, whole.captured->file));
  for (std::size_t i = 0; i < share.units.size(); ++i)
    for (std::size_t j = 0; j < share.units[i].tensors.size(); ++j)
      if (share.units[i].tensors[j] < whole.units[i].tensors[j])
        share.units[i].shares[j] = ParameterShare::sharded;
  return share;
}

}  // namespace rehearse::captured
