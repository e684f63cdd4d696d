"""A name server for tests: resolver.py ADDRESS FILE answers every question of type A with the IPv4 address in FILE.

FILE is read for each question; empty: no such name. Answers may be kept for no time at all (TTL 0). UDP, port 53.
"""

import pathlib
import socket
import struct
import sys

TYPE_A, NO_ERROR, NO_SUCH_NAME = 1, 0, 3


def question_end(packet):
    at = 12
    while packet[at] != 0:
        at += packet[at] + 1
    return at + 5


def answer(packet, address):
    number, flags = struct.unpack("!HH", packet[:4])
    end = question_end(packet)
    (kind,) = struct.unpack("!H", packet[end - 4:end - 2])
    records = b""
    if address and kind == TYPE_A:
        records = struct.pack("!HHHIH", 0xC00C, TYPE_A, 1, 0, 4) + socket.inet_aton(address)
    code = NO_ERROR if address else NO_SUCH_NAME
    head = struct.pack("!HHHHHH", number, 0x8480 | (flags & 0x0100) | code, 1, 1 if records else 0, 0, 0)
    return head + packet[12:end] + records


def main():
    path = pathlib.Path(sys.argv[2])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((sys.argv[1], 53))
        while True:
            packet, sender = sock.recvfrom(4096)
            try:
                sock.sendto(answer(packet, path.read_text().strip()), sender)
            except (IndexError, struct.error):
                pass


if __name__ == "__main__":
    main()
