// `rehearse serve`: a page on this machine, for questions without a file.
#include "serve/server.hpp"

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/options.hpp"

namespace rehearse::inline cli {

void add_serve(CLI::App& app) {
  const auto port = std::make_shared<int>(0);
  const auto limit = std::make_shared<Seconds>(30);
  CLI::App& serve_app = *app.add_subcommand("serve", "Answer questions on a page, on this machine");
  add_count(serve_app, "--port", *port, "The port of 127.0.0.1; else any that is free", 1, 65535);
  add_parsed(serve_app, "--timeout", *limit, parse_time_above_0, "Of one answer; else 30s", "TIME");
  serve_app.footer(
      "The URL has a token: whoever does not know it, or comes from another page, gets nothing.\n"
      "Ctrl-C ends it. Example:\n"
      "  rehearse serve --port 8080");
  serve_app.callback([port, limit] {
    serve_page({.port = *port,
                .time = std::chrono::milliseconds(static_cast<long long>(1000 * limit->value())),
                .ready = [](const std::string& url) {
                  write_stdout(fmt::format("Open {}\nCtrl-C ends it.\n", url));
                }});
  });
}

}  // namespace rehearse::inline cli
