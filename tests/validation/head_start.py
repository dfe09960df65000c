"""Two hosts of the testbed: what part of a message one that is under way gets ahead of a second one which begins when
the first is half through, before the two share the sender's port. Prints the median over messages of several sizes,
like those of a parameter server, each after a pause.

The one that receives has two addresses, like two hosts: hosts take turns at the port.

Were the port shared from the beginning, the first would end at begin + x + 2 (m - x), where m is what a message takes
alone and x how far the first is when the second begins; as much as it ends earlier it had a head start."""

import os
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
import two_hosts  # noqa: E402

SECOND = "10.213.255.1"
SIZES, WARMUP, ALONE, ROUNDS, PAUSE_S = (1 << 20, 3 << 19, 2 << 20), 3, 4, 8, 0.15


def receive(connection):
    """Answers every message with the time when it was there; both hosts have one clock."""
    two_hosts.send_at_once(connection)
    for size in SIZES:
        for _ in range(WARMUP + ALONE + ROUNDS):
            two_hosts.receive_whole(connection, size)
            connection.sendall(struct.pack("d", time.monotonic()))


def answer(place):
    subprocess.run(["ip", "address", "add", f"{SECOND}/16", "dev", os.environ["GLOO_SOCKET_IFNAME"]], check=True)
    with socket.create_server(("", place[1])) as listening:
        threads = [threading.Thread(target=receive, args=(listening.accept()[0],)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Message:
    """Begins to send at once, beside whatever else the process does."""

    def __init__(self, connection, size):
        self.connection = connection
        self.begin = time.monotonic()
        self.thread = threading.Thread(target=connection.sendall, args=(bytes(size),))
        self.thread.start()

    def end(self):
        there = struct.unpack("d", self.connection.recv(8))[0]
        self.thread.join()
        return there


def alone(connection, size):
    message = Message(connection, size)
    took = message.end() - message.begin
    time.sleep(PAUSE_S)
    return took


def head_start(first, second, size, takes):
    one = Message(first, size)
    time.sleep(takes / 2)
    other = Message(second, size)
    passed = other.begin - one.begin
    ahead = one.begin + passed + 2 * (takes - passed) - one.end()
    other.end()
    time.sleep(PAUSE_S)
    return ahead / takes


def ask(place):
    pair = [two_hosts.connect(place), two_hosts.connect((SECOND, place[1]))]
    starts = []
    for size in SIZES:
        for _ in range(WARMUP):
            for connection in pair:
                alone(connection, size)
        takes = statistics.median(alone(connection, size) for _ in range(ALONE) for connection in pair)
        for number in range(ROUNDS):
            starts.append(head_start(pair[number % 2], pair[1 - number % 2], size, takes))
    print(f"{max(0.0, statistics.median(starts)):.3f}")


if __name__ == "__main__":
    two_hosts.play(answer, ask)
