"""What the kernel says of a thread's time."""

from __future__ import annotations

import os
import threading


class Queue:
    """How long the calling thread has stood ready while others had the cores."""

    def __init__(self) -> None:
        self.thread = -1
        self.file = -1

    def seconds(self) -> float:
        """0 where the kernel does not say. A file is kept open for one thread, which a fork, or
        another thread that takes the steps, has open anew."""
        try:
            thread = threading.get_native_id()
            if thread != self.thread:
                if self.file >= 0:
                    os.close(self.file)
                self.thread, self.file = thread, -1
                self.file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
            if self.file < 0:
                return 0.0
            return 1e-9 * int(os.pread(self.file, 96, 0).split()[1])
        except (OSError, ValueError, IndexError):
            return 0.0
