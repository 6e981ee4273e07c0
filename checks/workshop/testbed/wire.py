"""A cable that takes its time: stands in for netem, which not every Linux kernel has.

    wire.py PORT SECONDS

PORT is a port of the bridge br0. A device wirePORT takes its place there. Every frame between the
two is held for SECONDS, both ways, until this process ends. Frames keep the headers of offloaded
work (virtio's): segments stay whole and checksums unfinished, so that few, long frames pass. Only
the standard library.
"""

import contextlib
import fcntl
import os
import select
import socket
import struct
import subprocess
import sys
import time
from collections import deque

TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
TAP, NO_INFORMATION, VIRTIO_HEADER = 0x0002, 0x1000, 0x4000
CHECKSUMS, SEGMENTS_4, SEGMENTS_6 = 0x01, 0x02, 0x04
SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING, ETH_P_ALL = 263, 15, 23, 3
LONGEST = 1 << 17  # bytes of a frame with its header
MOST = 4096  # frames on the way; further ones are lost


def ends(port: str) -> tuple[int, socket.socket]:
    """The end at the bridge, a TAP device, and that at the port, a raw socket."""
    bridge = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    flags = TAP | NO_INFORMATION | VIRTIO_HEADER
    fcntl.ioctl(bridge, TUNSETIFF, struct.pack("16sH22x", f"wire{port}".encode(), flags))
    fcntl.ioctl(bridge, TUNSETOFFLOAD, CHECKSUMS | SEGMENTS_4 | SEGMENTS_6)
    cable = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    cable.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    cable.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    cable.bind((port, ETH_P_ALL))
    cable.setblocking(False)
    return bridge, cable


def main(port: str, seconds: float) -> None:
    """Takes the port's place and carries frames; see above."""
    bridge, cable = ends(port)
    for line in (f"wire{port} master br0 up", f"{port} nomaster"):
        subprocess.run(["ip", "link", "set", *line.split()], check=True)
    with contextlib.suppress(OSError):  # else ranks that poll keep it waiting
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    files = {bridge: cable.fileno(), cable.fileno(): bridge}  # in -> out
    on_the_way: deque[tuple[float, int, bytes]] = deque()  # due, out, frame
    while True:
        wait = on_the_way[0][0] - time.monotonic() if on_the_way else None
        ready = select.select(list(files), [], [], wait and max(0.0, wait))[0]
        due = time.monotonic() + seconds
        for file in ready:
            with contextlib.suppress(OSError):  # a cable that is cut
                frame = os.read(file, LONGEST)
                if len(on_the_way) < MOST:
                    on_the_way.append((due, files[file], frame))
        while on_the_way and on_the_way[0][0] <= time.monotonic():
            _, out, frame = on_the_way.popleft()
            with contextlib.suppress(OSError):
                os.write(out, frame)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
