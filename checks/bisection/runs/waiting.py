"""Waiting for a scheduler, its queue, and a host whose cores no other process uses.

All jobs of a run that waits in a queue have one name, by which they are found and cancelled.
"""

import contextlib
import os
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bisection.core.format import some, utc
from bisection.core.paths import text_of
from bisection.core.thresholds import LIMITS
from bisection.core.topology import expanded
from bisection.schedulers.scheduler import Scheduler

PAUSES = (0.5, 1, 2, 4, 8)  # s, before each further look
PERIOD = 10.0  # s, between looks at the queue
NOT_INSTALLED = 127  # a shell's exit code
PROC = Path("/proc")
SAMPLE = 1.0  # s that one look takes
PAUSE = 5.0  # s between two looks
LOOKS = 3  # quiet looks in a row that end the waiting
KERNEL_THREAD = 0x200000  # PF_KTHREAD of linux/sched.h


def silence(scheduler: Scheduler, say: Callable[[str, float], None]) -> str:
    """Waits until a scheduler answers; returns its last error, "" once it answers, or if it is not
    asked. `say` is called once with the error and the longest wait (s), if it does not answer at
    once."""
    until, reported = time.monotonic() + LIMITS.controller_silent, False
    while not (answer := scheduler.ping()):
        if time.monotonic() > until or answer.code == NOT_INSTALLED:
            return answer.error
        if not reported:
            say(answer.error, LIMITS.controller_silent)
        reported = True
        time.sleep(PAUSES[2])
    return ""


def job_name(folder: Path) -> str:
    """A name for the jobs of a run, which no other run has, by its results folder."""
    return f"bisection-{folder.name}-{secrets.token_hex(2)}"


def cancel(scheduler: Scheduler, name: str, once: bool = False) -> list[str] | None:
    """Cancels the jobs of a run, until none is left or some do not go; `once`: without waiting.
    Returns the identifiers of jobs that are left; None if the scheduler did not answer."""
    left: list[str] | None = None
    for pause in (0, *PAUSES):
        time.sleep(pause)
        jobs = scheduler.queued(name)
        left = None if jobs is None else [job.id for job in jobs if job.state != "COMPLETING"]
        if left:
            scheduler.cancel(left)
        if once or jobs == []:
            break
    return left


# ---- a run that waits ----


class Watch:
    """Looks now and then at the jobs of a run while none of them runs.

    It reports why the next one waits, once for each of the scheduler's reasons. Where others have
    taken the nodes that were chosen before the run, its jobs no longer ask for these: the scheduler
    then chooses.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        name: str,
        chosen: Iterable[Sequence[str]],
        say: Callable[[str], None],
    ) -> None:
        self.scheduler, self.name, self.say = scheduler, name, say
        self.chosen = {frozenset(nodes) for nodes in chosen}
        self.next = time.monotonic() + PERIOD
        self.since: dict[str, float] = {}  # job -> when it was first seen waiting
        self.said: set[tuple[str, str]] = set()  # job, reason

    def look(self) -> None:
        """Asks the scheduler if it is time to."""
        now = time.monotonic()
        if not self.name or now < self.next:
            return
        self.next = now + PERIOD
        jobs = self.scheduler.queued(self.name) or []
        # the others wait for this one
        first = next((job for job in jobs if job.reason != "Dependency"), None)
        if first is None or any(job.state != "PENDING" for job in jobs):
            return
        waited = now - self.since.setdefault(first.id, now)
        if waited >= PERIOD and (first.id, first.reason) not in self.said:
            self.said.add((first.id, first.reason))
            known = first.start.isdecimal()
            start = f"; expected start {utc(float(first.start))}" if known else ""
            where = f"waiting: job {first.id} in queue {first.queue}"
            self.say(f"{where}; {self.scheduler.title}'s reason: {first.reason}{start}")
        if waited >= LIMITS.nodes_taken and frozenset(expanded(first.nodes)) in self.chosen:
            same = [job.id for job in jobs if job.nodes == first.nodes]
            freed = [number for number in same if self.scheduler.free(number)]
            if first.id in freed:
                nodes = some(expanded(first.nodes))
                self.say(f"requested nodes {nodes} are busy: job {some(freed)} may run on any node")


# ---- a host that is quiet, before anything is timed ----


def busy(seconds: float = SAMPLE) -> str:
    """Returns what others use of the cores that this process may use, "" if that is next to
    nothing, by a look of some seconds. The caller's own processes must rest meanwhile."""
    before, began = _used(), time.monotonic()
    time.sleep(seconds)
    after, lasted = _used(), time.monotonic() - began
    ticks = os.sysconf("SC_CLK_TCK") * lasted
    cpus = [name for name in after if name.startswith("cpu") and name in before]
    used = sum(after[name] - before[name] for name in cpus) / ticks
    if used < LIMITS.busy_cores:
        return ""
    names: dict[str, float] = defaultdict(float)
    for key in after.keys() & before.keys() - set(cpus):
        names[key.partition(" ")[2]] += (after[key] - before[key]) / ticks
    most = sorted(names.items(), key=lambda pair: -pair[1])[:3]
    least = LIMITS.busy_cores / 2
    top = ", ".join(f"{name} {part:.1f}" for name, part in most if part >= least)
    text = f"other processes use {used:.1f} of {len(cpus)} cores"
    return f"{text} ({top})" if top else text


def _used() -> dict[str, int]:
    """Clock ticks so far: of each CPU of ours by its name, of each process but the kernel's by its
    number and name."""
    ours = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    ticks = {}
    for line in text_of(PROC / "stat").splitlines():
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


def until_quiet(budget: float, say: Callable[[str, float], None]) -> str:
    """Looks at the cores until they are quiet, or until a budget (s) is spent; 0 looks once. `say`
    is called with what uses the cores, once, before the waiting begins, and the budget.

    Returns:
        What uses the cores still; "" if they are quiet.
    """
    until, quiet, reason = time.monotonic() + budget, 0, busy()
    if reason and budget:
        say(reason, budget)
        while quiet < LOOKS and time.monotonic() < until:
            time.sleep(min(PAUSE, max(until - time.monotonic(), 0)))
            now = busy()
            quiet, reason = (0, now) if now else (quiet + 1, reason)
        reason = "" if quiet == LOOKS else reason
    return reason
