#include "base/stop_signal.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <string_view>

#include "base/error.hpp"

namespace rehearse::inline base {
namespace {

volatile std::sig_atomic_t caught = 0;
constexpr int kSignalBase = 128;  // as shells count
/// Once more within this is the same wish: timeout(1) tells a process and then its whole group.
constexpr std::int64_t kOnePress = 200;  // ms
std::atomic<std::int64_t> caught_at = 0;

std::int64_t milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

/// Only what a handler of signals may call.
[[noreturn]] void end_now(int signal) {
  constexpr std::string_view kText = "\nrehearse: stopped\n";
  if (write(STDERR_FILENO, kText.data(), kText.size()) < 0) _exit(kSignalBase + signal);
  _exit(kSignalBase + signal);
}

}  // namespace

void end_at_stop_signals() {
  std::signal(SIGINT, end_now);
  std::signal(SIGTERM, end_now);
}

void catch_stop_signals() {
  struct sigaction action {};
  action.sa_flags = SA_RESTART;
  action.sa_handler = [](int signal) {
    if (caught != 0 && milliseconds() - caught_at > kOnePress) end_now(signal);
    if (caught == 0) caught_at = milliseconds();
    caught = signal;
  };
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // From the process that started this one, which may have been told by the terminal as well.
  action.sa_handler = [](int signal) { caught = signal; };
  sigaction(SIGUSR1, &action, nullptr);
}

int stop_signal() { return caught; }

void fail_as_stopped(const std::string& kept, const std::string& remedy) {
  const int signal = caught == SIGINT ? SIGINT : SIGTERM;
  throw Error(static_cast<ExitCode>(kSignalBase + signal),
              fmt::format("stopped; {}\nremedy: {}", kept, remedy));
}

}  // namespace rehearse::inline base
