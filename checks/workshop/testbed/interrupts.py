"""A slow core: timer interrupts take most of a process's time, as a defective device can.

They are samples of the kernel's software clock (perf_event_open), as a profiler takes them; nobody
reads them. Other processes on the core run as fast as before.
"""

import contextlib
import ctypes
import errno
import os
import platform
import struct
import time
from collections.abc import Iterable, Iterator

from workshop.testbed.hosts import TestbedError

CALLS = {"x86_64": 298, "aarch64": 241, "ppc64le": 319, "riscv64": 241}  # perf_event_open
PERIOD = 20_000  # ns between two interrupts of one event
MOST = 16  # events
SLOWER = 1.5  # times, by which WORK must take longer
WORK = 5000  # turns of a loop: some PERIODs


@contextlib.contextmanager
def interrupted(pids: Iterable[int]) -> Iterator[None]:
    """Within the block, processes and what they start are often interrupted.

    Raises:
        TestbedError: this machine's kernel does not interrupt them.
    """
    count = _needed()
    with contextlib.ExitStack() as stack:
        for thread in (int(t) for pid in pids for t in os.listdir(f"/proc/{pid}/task")):
            for _ in range(count):
                with contextlib.suppress(ProcessLookupError):  # it has ended
                    stack.callback(os.close, _interrupt(thread))
        yield


def _needed() -> int:
    """Returns how many events make this process slower: interrupts take 1 us, on virtual machines
    8."""
    usual = _work()
    with contextlib.ExitStack() as stack:
        for count in range(1, MOST + 1):
            stack.callback(os.close, _interrupt(0))
            if _work() > SLOWER * usual:
                return count
    raise TestbedError(f"{MOST} timers with a period of {PERIOD // 1000} us slow no core down here")


def _work() -> float:
    """Seconds of some work: the best of many attempts, as kernels look at their core. The first are
    a warm-up: a timer begins with a whole period."""
    best = float("inf")
    for attempt in range(200):
        began = time.perf_counter()
        for _ in range(WORK):
            pass
        best = min(best, time.perf_counter() - began) if attempt > 20 else best
    return best


def _interrupt(pid: int) -> int:
    """Opens an event of a thread, 0 for this one, and of all that it starts from then on; the
    interrupts end as it is closed.

    Raises:
        TestbedError: this machine has no such events.
        ProcessLookupError: there is no such thread.
    """
    call = CALLS.get(platform.machine())
    if call is None:
        raise TestbedError(f"perf_event_open is not known on {platform.machine()}")
    software, size, cpu_clock, instruction_pointer = 1, 64, 0, 1
    inherited = 1 << 1
    values = (software, size, cpu_clock, PERIOD, instruction_pointer, 0, inherited)
    attributes = struct.pack("IIQQQQQ", *values)
    library = ctypes.CDLL(None, use_errno=True)
    file = library.syscall(call, attributes.ljust(size, b"\0"), pid, -1, -1, 0)
    if file < 0 and ctypes.get_errno() == errno.ESRCH:
        raise ProcessLookupError(pid)
    if file < 0:
        raise TestbedError(f"perf_event_open: {os.strerror(ctypes.get_errno())}")
    return int(file)
