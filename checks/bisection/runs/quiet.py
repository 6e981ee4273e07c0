"""Checks for other processes on this host's cores before anything is timed."""

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from bisection.core.reasons import Code, Reason
from bisection.core.thresholds import LIMITS

PROC = Path("/proc")
SAMPLE = 1.0  # s that one look takes
PAUSE = 5.0  # s between two looks
LOOKS = 3  # quiet looks in a row that end the waiting
KERNEL_THREAD = 0x200000  # PF_KTHREAD of linux/sched.h


def busy(seconds: float = SAMPLE) -> Reason | None:
    """Returns what others use of the cores that this process may use, None if that is next to
    nothing, by a look of some seconds. The caller's own processes must rest meanwhile."""
    before, began = _used(), time.monotonic()
    time.sleep(seconds)
    after, lasted = _used(), time.monotonic() - began
    ticks = os.sysconf("SC_CLK_TCK") * lasted
    cpus = [name for name in after if name.startswith("cpu") and name in before]
    used = sum(after[name] - before[name] for name in cpus) / ticks
    if used < LIMITS.busy_cores:
        return None
    names: Counter[str] = Counter()
    for key in after.keys() & before.keys() - set(cpus):
        names[key.partition(" ")[2]] += (after[key] - before[key]) / ticks
    top = [[name, part] for name, part in names.most_common(3) if part >= LIMITS.busy_cores / 2]
    return Code.BUSY(used=used, cores=len(cpus), top=top)


def _used() -> dict[str, int]:
    """Clock ticks so far: of each CPU of ours by its name, of each process but the kernel's by its
    number and name."""
    ours = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    ticks = {}
    with contextlib.suppress(OSError):
        for line in (PROC / "stat").read_text().splitlines():
            name, *fields = line.split()
            if name in ours:
                # user nice system idle iowait irq softirq steal; guests are in user and nice
                ticks[name] = sum(map(int, fields[:8])) - int(fields[3]) - int(fields[4])
    for path in PROC.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            number, _, rest = path.read_text(errors="replace").partition(" (")
            name, _, rest = rest.rpartition(") ")
            *_, flags, _, _, _, _, user, system = rest.split()[:13]
            if int(flags) & KERNEL_THREAD:
                continue  # nobody can end it, and some kernels count its time wrongly
            ticks[f"{number} {name}"] = int(user) + int(system)
    return ticks


def wait(budget: float, say: Callable[[Reason, float], None]) -> Reason | None:
    """Looks at the cores until they are quiet, or until a budget (s) is spent; 0 looks once. `say`
    is called with what uses the cores, once, before the waiting begins, and the budget.

    Returns:
        What uses the cores still; None if they are quiet.
    """
    until, quiet, reason = time.monotonic() + budget, 0, busy()
    if reason and budget:
        say(reason, budget)
        while quiet < LOOKS and time.monotonic() < until:
            time.sleep(min(PAUSE, max(until - time.monotonic(), 0)))
            now = busy()
            quiet, reason = (quiet + 1, reason) if now is None else (0, now)
        reason = None if quiet == LOOKS else reason
    return reason
