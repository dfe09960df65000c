#include "scenario/file_kind.hpp"

#include <fmt/format.h>

namespace rehearse::inline scenario {
namespace {

std::optional<FileKind> kind_of(const Map& root) {
  if (root.has("scenario")) {
    if (root.has("objective")) return FileKind::plan;
    if (root.has("vary")) return FileKind::study;
  } else if (root.has("model") && root.has("cluster")) {
    return FileKind::scenario;
  }
  return std::nullopt;
}

std::string name_of(FileKind kind) {
  if (kind == FileKind::scenario) return "scenario";
  return kind == FileKind::study ? "study" : "plan";
}

std::string command_of(FileKind kind) {
  if (kind == FileKind::scenario) return "run";
  return kind == FileKind::study ? "sweep" : "plan";
}

}  // namespace

void check_kind(const Map& root, FileKind asked) {
  const std::optional<FileKind> is = kind_of(root);
  if (!is || *is == asked) return;
  // What a plan has besides may have been forgotten.
  if (*is == FileKind::study && asked == FileKind::plan) return;
  root.where().fail(
      fmt::format("this is a {}, and a {} is asked for", name_of(*is), name_of(asked)),
      fmt::format("`rehearse {} {}` takes it{}", command_of(*is), root.where().file(),
                  *is == FileKind::scenario
                      ? fmt::format("; a {} names it as its scenario", name_of(asked))
                      : ""));
}

}  // namespace rehearse::inline scenario
