#pragma once

#include "config/document.hpp"

namespace rehearse::inline scenario {

/// Kinds of files that the commands take; each knows files of one kind.
enum class FileKind { scenario, study, plan };

/// InputError at the top of a file that is of another kind, by its keys, than the one asked for: it
/// names the command that takes it. A file of none says so by what it lacks, and so does a study
/// where a plan is asked for.
void check_kind(const Map& root, FileKind asked);

}  // namespace rehearse::inline scenario
