#pragma once

namespace rehearse {

/// From now on SIGINT and SIGTERM only leave a note, so that work can end where its files are
/// whole. The second of them ends the process as ever.
void catch_stop_signals();

/// The signal that came; 0 if none has.
int stop_signal();

}  // namespace rehearse
