#include "profile/nccl_tests.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "config/whole_file.hpp"
#include "profile/nccl_tests_json.hpp"
#include "profile/nccl_tests_log.hpp"
#include "profile/rccl_tests_records.hpp"

namespace rehearse::inline profile {
namespace {

/// Terminals' colours and bare carriage returns, which logs hold and which carry nothing.
std::string without_colours(const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b' && i + 1 < text.size() && text[i + 1] == '[') {
      i = std::min(text.find_first_of("ABCDHJKfhlmsu", i + 2), text.size() - 1);
    } else if (text[i] != '\r') {
      result += text[i];
    }
  }
  return result;
}

/// A text log may begin with a line of a launcher's own that looks like JSON.
bool has_table(const std::string& text) { return text.find("nThread ") != std::string::npos; }

}  // namespace

CommPoints read_nccl_tests(const std::filesystem::path& file, const NcclTestsOptions& options) {
  const std::string text = read_whole_file(file), name = file.string();
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) throw InputError(name + ":1:1: error: the file is empty");
  if (is_rccl_tests_records(text)) return read_rccl_tests_records(text, name, options);
  if (text[first] == '{' && !has_table(text)) return read_nccl_tests_json(text, name, options);
  return read_nccl_tests_log(make_text_source(without_colours(text), name, file.parent_path()),
                             options);
}

}  // namespace rehearse::inline profile
