#include "base/program.hpp"

#include <csignal>
#include <exception>

#include "base/child_process.hpp"
#include "base/printable.hpp"

namespace rehearse::inline base {
namespace {

/// An exception that nobody can catch: thrown where memory ran out while another one was on its
/// way, or through what may not throw.
[[noreturn]] void end_uncaught() {
  end_process(end_of_work([]() -> std::string {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
    throw InternalError("internal error: the program was asked to terminate");
  }));
}

}  // namespace

int run_program(const std::function<ExitCode()>& program) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  std::set_terminate(end_uncaught);
  ExitCode code = ExitCode::success;
  const ChildEnd end = end_of_work([&]() -> std::string {
    code = program();
    return "";
  });
  if (end.code == ExitCode::success) return static_cast<int>(code);
  tell(end.text + "\n");
  return static_cast<int>(end.code);
}

}  // namespace rehearse::inline base
