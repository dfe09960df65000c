#include "base/sources.hpp"

namespace rehearse {

std::filesystem::path source_folder() { return REHEARSE_SOURCE_DIR; }

}  // namespace rehearse
