"""Two hosts of the testbed: what part of a message one that is under way gets ahead of a second one which begins when
the first is half through, before the two share the sender's port. Prints the median over messages of several sizes,
like those of a parameter server, each after a pause.

Were the port shared from the beginning, the first would end at begin + x + 2 (m - x), where m is what a message takes
alone and x how far the first is when the second begins; as much as it ends earlier it had a head start."""

import os
import socket
import statistics
import struct
import threading
import time

SIZES, WARMUP, ALONE, ROUNDS, PAUSE_S, PATIENCE_S = (1 << 20, 3 << 19, 2 << 20), 3, 4, 8, 0.15, 30


def whole(connection, size):
    while size > 0:
        got = len(connection.recv(min(1 << 20, size)))
        if got == 0:
            raise EOFError
        size -= got


def receive(connection):
    """Answers every message with the time when it was there; both hosts have one clock."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for size in SIZES:
        for _ in range(WARMUP + ALONE + ROUNDS):
            whole(connection, size)
            connection.sendall(struct.pack("d", time.monotonic()))


def answer(place):
    with socket.create_server(place) as listening:
        threads = [threading.Thread(target=receive, args=(listening.accept()[0],)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def connect(place):
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection(place, PATIENCE_S)
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


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
    pair = [connect(place), connect(place)]
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
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if os.environ["RANK"] == "0":
        answer(address)
    else:
        ask(address)
