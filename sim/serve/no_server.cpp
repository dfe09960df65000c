#include "base/error.hpp"
#include "serve/server.hpp"

namespace rehearse::inline serve {

void serve_page(const ServeOptions&) {
  throw MissingError(
      "rehearse: error: this program was built without cpp-httplib, which serve needs\n"
      "remedy: install libcpp-httplib-dev, and build it anew");
}

}  // namespace rehearse::inline serve
