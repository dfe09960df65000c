#pragma once

#include <string>

namespace rehearse::inline base {

/// From now on SIGINT and SIGTERM end the process with 130 and 143, as shells count, and a line on
/// standard error.
void end_at_stop_signals();

/// From now on SIGINT and SIGTERM only leave a note, here and in processes forked later, so that
/// work can end where its files are whole. One more, a fifth of a second later, ends the process at
/// once. SIGUSR1, by which ChildRanks asks its ranks to stop, leaves a note each time.
void catch_stop_signals();

/// The signal that came; 0 if none has.
int stop_signal();

/// Throws the Error of a program that was stopped and goes on when it is run again; `kept` says
/// from what ("FOLDER holds what was measured"), and `remedy` how.
[[noreturn]] void fail_as_stopped(
    const std::string& kept, const std::string& remedy = "the same command goes on from there");

}  // namespace rehearse::inline base
