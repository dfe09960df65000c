#pragma once

#include <vector>

#include "validation/summary.hpp"
#include "view/table.hpp"

namespace rehearse::inline validation {

/// Columns of a validation's pages.
inline constexpr std::size_t kTableWidth = 120;

/// A line for each number of a file's cases, red where its interval does not hold what was
/// measured. On a page a name stands once and notes are left out.
enum class CaseTable { page, markdown };
Table table_of(const ComparedFile& compared, CaseTable form);

/// Probabilities that memory suffices beside how many runs did fit.
Table reliability_table(const std::vector<FitBin>& bins);

/// Tables of a summary, each idea in a table of its own; those that are empty are left out.
std::vector<Table> tables_of(const Summary& summary);

}  // namespace rehearse::inline validation
