#pragma once

#include <filesystem>
#include <vector>

#include "study/sweep.hpp"

namespace rehearse {

/// This program as studies need it: a report without what belongs to its file, so that the same
/// content has the same text.
Simulator simulator();
/// The same without the largest batch that fits, which takes as long as the rest; its results have
/// keys of their own.
Simulator quick_simulator();

/// MissingError if it cannot be made.
void make_folder(const std::filesystem::path& folder);

/// Goes on with what is there, where it is of this study and program; InputError where it is not.
void take_up(ResultStore& store, const StudyIdentity& identity,
             const std::vector<StudyPoint>& points, bool quiet);

}  // namespace rehearse
