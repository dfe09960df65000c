#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace rehearse::inline serve {

struct ServeOptions {
  int port = 0;                                       ///< on 127.0.0.1; 0: any that is free
  std::chrono::milliseconds time{30'000};             ///< limit of one answer
  std::function<void(const std::string& url)> ready;  ///< called once it listens
};

/// Serves the page on 127.0.0.1 alone, until the process ends. Whoever does not know the token in
/// the URL, names another host, or comes from another origin's page gets an empty 404. One answer
/// is simulated at a time, each by this program in a process of its own (run_program_with).
/// MissingError where the port is taken.
void serve_page(const ServeOptions& options);

}  // namespace rehearse::inline serve
