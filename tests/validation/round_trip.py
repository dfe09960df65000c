"""Two hosts of the testbed send a small message to and fro; prints half of the median, in microseconds."""

import socket
import statistics
import sys
import time

sys.dont_write_bytecode = True
import two_hosts  # noqa: E402

ROUNDS, WARMUP = 400, 50
# As long as the head of a parameter server's messages.
MESSAGE = bytes(40)


def answer(place):
    with socket.create_server(place) as listening:
        connection = listening.accept()[0]
    with connection:
        two_hosts.send_at_once(connection)
        for _ in range(ROUNDS):
            two_hosts.receive_whole(connection, len(MESSAGE))
            connection.sendall(MESSAGE)


def ask(place):
    times = []
    with two_hosts.connect(place) as connection:
        two_hosts.send_at_once(connection)
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            connection.sendall(MESSAGE)
            two_hosts.receive_whole(connection, len(MESSAGE))
            times.append(time.perf_counter() - begin)
    print(f"{statistics.median(times[WARMUP:]) / 2 * 1e6:.1f}")


if __name__ == "__main__":
    two_hosts.play(answer, ask)
