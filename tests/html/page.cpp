// The page of a document: tests/html/check makes those with it that no command makes there.
//   html_page DOCUMENT.json [EXTRAS.json] >page.html
#include <fmt/format.h>

#include <fstream>

#include "html/html.hpp"

namespace {

nlohmann::ordered_json read(const char* name) {
  std::ifstream file(name);
  return nlohmann::ordered_json::parse(file);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) return 2;
  const nlohmann::ordered_json extras = argc == 3 ? read(argv[2]) : nlohmann::ordered_json();
  fmt::print("{}", rehearse::to_html(read(argv[1]), extras));
}
