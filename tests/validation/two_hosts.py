"""What scripts between two hosts of the testbed have in common: rank 0 answers, rank 1 asks and prints what it found."""

import os
import socket
import time

PATIENCE_S = 30


def connect(place):
    """To a host that may not listen yet."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection(place, PATIENCE_S)
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def send_at_once(connection):
    """However small what is sent."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def receive_whole(connection, size):
    while size > 0:
        got = len(connection.recv(min(1 << 20, size)))
        if got == 0:
            raise EOFError
        size -= got


def play(answer, ask):
    """This host's part, with the place where rank 0 listens."""
    place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    part = answer if os.environ["RANK"] == "0" else ask
    part(place)
