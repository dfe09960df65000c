#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rehearse {

/// What reads files that strangers write.
struct Reader {
  std::string name;  ///< "scenario", as the corpus calls it
  void (*read)(const std::string& text) = nullptr;
};

/// All of them; their order is what the first byte of a fuzzer's input chooses from.
const std::vector<Reader>& readers();

/// Gives a text to a reader. It may refuse the text (ExitCode::input, ExitCode::missing), in a
/// message whose first line is not empty. Ends the process by SIGABRT, with what was thrown on
/// standard error, where it does anything else.
void feed(const Reader& reader, std::string_view text);

/// Of a fuzzer's input: the reader that its first byte chooses, and the rest as text.
void feed(std::string_view input);

}  // namespace rehearse
