"""Two hosts of the testbed send a small message to and fro; prints half of the median, in microseconds."""

import os
import socket
import statistics
import time

ROUNDS, WARMUP = 400, 50
# As long as the head of a parameter server's messages.
MESSAGE = bytes(40)
PATIENCE_S = 30


def whole(connection):
    got = 0
    while got < len(MESSAGE):
        got += len(connection.recv(len(MESSAGE) - got))


def answer(place):
    with socket.create_server(place) as listening:
        connection = listening.accept()[0]
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(ROUNDS):
            whole(connection)
            connection.sendall(MESSAGE)


def connect(place):
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection(place, PATIENCE_S)
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def ask(place):
    times = []
    with connect(place) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            connection.sendall(MESSAGE)
            whole(connection)
            times.append(time.perf_counter() - begin)
    print(f"{statistics.median(times[WARMUP:]) / 2 * 1e6:.1f}")


if __name__ == "__main__":
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if os.environ["RANK"] == "0":
        answer(address)
    else:
        ask(address)
