#pragma once

#include <filesystem>
#include <vector>

#include "study/result_store.hpp"
#include "study/study.hpp"

namespace rehearse {

/// MissingError if it cannot be made.
void make_folder(const std::filesystem::path& folder);

/// Goes on with what is there, where it is of this study and program; InputError where it is not.
/// True if the study has changed since; what is there of its points is kept.
bool take_up(ResultStore& store, const StudyIdentity& identity,
             const std::vector<StudyPoint>& points);

}  // namespace rehearse
