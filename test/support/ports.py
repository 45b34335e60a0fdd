"""Free ports. A reserved port stays bound (not listening, SO_REUSEADDR) as long as this process lives, so the kernel
gives it to nobody else, while a program that sets SO_REUSEADDR may still listen on it."""

import random
import socket

_reserved = []


def _bind(port):
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    return sock


def free_port():
    sock = _bind(0)
    _reserved.append(sock)
    return sock.getsockname()[1]


def free_port_base(offsets):
    """A base P such that P + each offset is free: for programs that use a range of ports."""
    while True:
        base = random.randrange(10000, 30000)
        held = []
        try:
            for offset in offsets:
                # Without SO_REUSEADDR first: that fails on a port that anybody holds.
                probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
                try:
                    probe.bind(("127.0.0.1", base + offset))
                finally:
                    probe.close()
                held.append(_bind(base + offset))
        except OSError:
            for sock in held:
                sock.close()
            continue
        _reserved.extend(held)
        return base
