#pragma once

#include <string_view>

namespace rehearse::inline html {

/// The page of every report, whole but for its data: `assets/` and the chart library in one, with
/// the places @TITLE@, @FALLBACK@, @DOCUMENT@ and @EXTRAS@. Made by embed.cmake.
std::string_view page_template();
/// The page of `rehearse serve`, made likewise. It asks for its data itself.
std::string_view serve_template();

}  // namespace rehearse::inline html
