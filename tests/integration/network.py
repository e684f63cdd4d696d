"""Two network namespaces and between them a wire of ours that loses, delays and cuts.

Each namespace has one end of a TUN device; this process reads the packets of both and passes them on, so that the
kernel's own TCP on both sides meets real losses. No netem is needed, which many kernels lack. Needs root, iproute2 and
/dev/net/tun: why_not() says what is missing.
"""

import fcntl
import heapq
import os
import random
import select
import shutil
import struct
import subprocess
import threading
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
A, B = "10.77.0.1", "10.77.0.2"  # the addresses of the two ends
B_LATER = "10.77.0.3"  # and b's, once it has moved
RESOLVER = "127.0.0.77"  # of whoever runs with_resolver's commands
MTU = 1400


def why_not():
    """What this machine lacks, or None."""
    if os.geteuid() != 0:
        return "needs root"
    if shutil.which("ip") is None:
        return "iproute2 is not installed"
    if not os.path.exists("/dev/net/tun"):
        return "no /dev/net/tun"
    name = f"fst-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return f"network namespaces are not permitted: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=False)
    try:
        os.close(_tun("fstry"))
    except OSError as error:
        return f"TUN devices are not permitted: {error}"
    return None


def _tun(name):
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    try:
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    except OSError:
        os.close(fd)
        raise
    return fd


def with_resolver(folder):
    """What a command begins with to ask RESOLVER for the addresses of names, and nobody else."""
    resolv = folder / "resolv.conf"
    resolv.write_text(f"nameserver {RESOLVER}\noptions timeout:1 attempts:2\n")
    return ("unshare", "--mount", "sh", "-c", f"mount --bind {resolv} /etc/resolv.conf && exec \"$@\"", "sh")


class Wire:
    """loss (0..1), delay_s and cut ({"a"}: nothing leaves a) may be changed at any time. stop() takes all away."""

    def __init__(self, seed):
        self.loss, self.delay_s, self.cut = 0.0, 0.0, frozenset()
        self.passed = self.lost = 0
        self.namespaces = {side: f"fs{side}-{os.getpid()}" for side in "ab"}
        self._random = random.Random(seed)
        self._fds = {}
        self._stopped = threading.Event()
        self._thread = None
        try:
            for side, own, other in (("a", A, B), ("b", B, A)):
                self._make(side, own, other)
        except BaseException:
            self._remove()
            raise
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _make(self, side, own, other):
        space, device = self.namespaces[side], f"fs{side}{os.getpid() % 100000}"
        self._ip("netns", "add", space)
        self._fds[side] = _tun(device)
        self._ip("link", "set", device, "netns", space)
        self._ip("-n", space, "link", "set", "lo", "up")
        self._ip("-n", space, "addr", "add", own, "peer", other, "dev", device)
        self._ip("-n", space, "link", "set", device, "mtu", str(MTU), "up")
        if side == "a":
            self._ip("-n", space, "route", "add", B_LATER, "dev", device)

    @staticmethod
    def _ip(*words):
        subprocess.run(["ip", *words], check=True, capture_output=True)

    def move(self):
        """b has its other address and no longer its first: what is sent there is lost without a word."""
        space, device = self.namespaces["b"], f"fsb{os.getpid() % 100000}"
        self._ip("-n", space, "addr", "del", B, "peer", A, "dev", device)
        self._ip("-n", space, "addr", "add", B_LATER, "peer", A, "dev", device)

    def prefix(self, side):
        """What a command begins with to run on that side."""
        return ("ip", "netns", "exec", self.namespaces[side])

    def _run(self):
        waiting, number = [], 0  # (due, number, to, packet)
        other = {self._fds["a"]: ("a", self._fds["b"]), self._fds["b"]: ("b", self._fds["a"])}
        while not self._stopped.is_set():
            timeout = 0.05 if not waiting else min(0.05, max(0.0, waiting[0][0] - time.monotonic()))
            ready, _, _ = select.select(list(other), [], [], timeout)
            for fd in ready:
                side, to = other[fd]
                for packet in self._packets(fd):
                    if side in self.cut or self._random.random() < self.loss:
                        self.lost += 1
                        continue
                    number += 1
                    heapq.heappush(waiting, (time.monotonic() + self.delay_s, number, to, packet))
            while waiting and waiting[0][0] <= time.monotonic():
                _, _, to, packet = heapq.heappop(waiting)
                try:
                    os.write(to, packet)
                    self.passed += 1
                except OSError:
                    self.lost += 1

    @staticmethod
    def _packets(fd):
        for _ in range(64):
            try:
                yield os.read(fd, 65536)
            except OSError:
                return

    def stop(self):
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        self._remove()

    def _remove(self):
        for fd in self._fds.values():
            os.close(fd)
        for space in self.namespaces.values():
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)
