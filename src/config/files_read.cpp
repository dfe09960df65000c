#include "config/files_read.hpp"

namespace rehearse {
namespace {

thread_local FilesRead* innermost = nullptr;

}  // namespace

FilesRead::FilesRead() : outer_(innermost) { innermost = this; }
FilesRead::~FilesRead() { innermost = outer_; }

void FilesRead::note(const std::filesystem::path& name, std::string_view text) {
  for (FilesRead* log = innermost; log != nullptr; log = log->outer_) {
    log->files_.push_back({name, std::string(text)});
  }
}

}  // namespace rehearse
