"""A slow core: timer interrupts take most of a process's time, as a defective device can.

They are samples of the kernel's software clock (perf_event_open), as a profiler takes them; nobody
reads them. Other processes on the core run as fast as before.
"""

import contextlib
import ctypes
import os
import platform
import struct
import time
from collections.abc import Iterator

from bisection.testbed.hosts import TestbedError

CALLS = {"x86_64": 298, "aarch64": 241, "ppc64le": 319, "riscv64": 241}  # perf_event_open
PERIOD = 20_000  # ns between two interrupts of one event
MOST = 16  # events
SLOWER = 1.5  # times, by which 10 us of work must take longer


@contextlib.contextmanager
def interrupted(pid: int) -> Iterator[None]:
    """Within the block, a process (its first thread) is often interrupted.

    Raises:
        TestbedError: this machine's kernel does not interrupt it.
    """
    count = _needed()
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.callback(os.close, _interrupt(pid))
        yield


def _needed() -> int:
    """How many events make this process slower: interrupts take 1 us, on virtual machines 8."""
    usual = _work()
    with contextlib.ExitStack() as stack:
        for count in range(1, MOST + 1):
            stack.callback(os.close, _interrupt(0))
            if _work() > SLOWER * usual:
                return count
    raise TestbedError(f"{MOST} timers with a period of {PERIOD // 1000} us slow no core down here")


def _work() -> float:
    """Seconds of about 10 us of work: the best of many attempts, as the kernels' clock is."""
    best = float("inf")
    for _ in range(500):
        began = time.perf_counter()
        for _ in range(1000):
            pass
        best = min(best, time.perf_counter() - began)
    return best


def _interrupt(pid: int) -> int:
    """Opens an event of a process, 0 for this one; the interrupts end as it is closed."""
    call = CALLS.get(platform.machine())
    if call is None:
        raise TestbedError(f"perf_event_open is not known on {platform.machine()}")
    software, size, cpu_clock, instruction_pointer = 1, 64, 0, 1
    attributes = struct.pack("IIQQQ", software, size, cpu_clock, PERIOD, instruction_pointer)
    library = ctypes.CDLL(None, use_errno=True)
    file = library.syscall(call, attributes.ljust(size, b"\0"), pid, -1, -1, 0)
    if file < 0:
        raise TestbedError(f"perf_event_open: {os.strerror(ctypes.get_errno())}")
    return int(file)
