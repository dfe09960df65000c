#ifdef REHEARSE_MIMALLOC
#include <mimalloc.h>
#include <pthread.h>
#endif

#include <cerrno>

#include "base/child_process.hpp"
#include "base/program.hpp"
#include "base/stop_signal.hpp"
#include "cli/command_line.hpp"
#include "config/key_places.hpp"
#include "keys/keys.hpp"

namespace rehearse {
namespace {

/// Scenarios are simulated in children, each of which copies the page tables of all that this
/// process keeps: what it has freed goes back to the system before it forks.
void fork_without_freed_memory() {
#ifdef REHEARSE_MIMALLOC
  pthread_atfork([] { mi_collect(true); }, nullptr, nullptr);
#endif
}

}  // namespace
}  // namespace rehearse

#ifdef REHEARSE_MIMALLOC
/// Debian's mimalloc is compiled as C: where an operator new finds no memory it tells its handler
/// of errors, and aborts. Libraries initialise themselves before main(), and this comes before
/// them.
[[gnu::section(".preinit_array"), gnu::used]] static void (*const before_libraries)() = [] {
  mi_register_error(
      [](int error, void*) {
        if (error == ENOMEM) rehearse::end_out_of_memory();
      },
      nullptr);
};
#endif

int main(int argc, char** argv) {
  rehearse::fork_without_freed_memory();
  rehearse::end_at_stop_signals();
  rehearse::set_key_places(rehearse::scenario_places);
  return rehearse::run_program([&] { return rehearse::run_command_line(argc, argv); });
}
