"""Which NPAR, and what a rule of thumb loses."""

import math
import os
import re
import socket
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bisection.advice import md, sources
from bisection.advice.sources import Estimate, bootstrap
from bisection.core import paths
from bisection.kernels import results
from bisection.kernels.local import build, launch
from bisection.kernels.results import Result
from bisection.report.tables import columns


@dataclass
class Sweep:
    """One launch: every NPAR, round by round."""

    case: str
    ranks: int
    threads: int
    hosts: int
    cores: int | None  # of a host, as far as it says
    where: str  # partition and environment
    times: dict[int, list[float]]  # NPAR -> seconds of a step, one per round

    @property
    def key(self) -> tuple[Any, ...]:
        """What sorts and groups sweeps: case, cores, hosts, threads, place."""
        return self.case, self.ranks * self.threads, self.hosts, self.threads, self.where

    @property
    def best(self) -> int:
        """The NPAR with the shortest median time."""
        return min(self.times, key=lambda npar: statistics.median(self.times[npar]))

    def over_best(self, npar: int) -> Estimate:
        """Time over that of the best choice, by resampling rounds."""
        pairs = list(zip(self.times[npar], self.times[self.best], strict=True))
        return bootstrap([mine / best for mine, best in pairs])

    def ties(self) -> list[int]:
        """Choices that are statistically tied with the best."""
        return [n for n in self.times if n != self.best and self.over_best(n).low <= 1]

    def spread(self) -> float:
        """The slowest choice over the fastest."""
        medians = [statistics.median(seconds) for seconds in self.times.values()]
        return max(medians) / min(medians)


def measured(ranks: Sequence[int], cases: Sequence[str], rounds: int) -> list[Sweep]:
    """Runs the kernel here, oversubscribed where there are more ranks than cores.

    Args:
        ranks: MPI ranks of each launch.
        cases: cases to run.
        rounds: how often each choice is timed.
    """
    folder = paths.home() / "cache" / "advise"
    folder.mkdir(parents=True, exist_ok=True)
    executable = build("npar")
    sweeps = []
    for case in cases:
        for count in ranks:
            choices = ",".join(f"npar-{n}" for n in range(1, count + 1) if count % n == 0)
            arguments = ["--case", case, "--method", choices, "--repeats", str(rounds)]
            arguments += ["--block", "1", "--warmup", "0"]
            result = launch(executable, count, arguments, folder / f"npar-{case}-{count}.json")
            sweeps.append(sweep(result))
    return [part for part in sweeps if part]


def sweep(result: Result) -> Sweep | None:
    """The Sweep of a result; None with fewer than two choices measured."""
    times = {}
    for entry in result["results"]:
        match = re.fullmatch(r"npar-(\d+)", entry["method"])
        samples = entry["samples"]
        if not match or not entry["applicable"] or results.failed_checks(entry):
            continue
        rounds = {}
        for number, seconds in zip(samples["rounds"], samples["seconds"], strict=True):
            rounds.setdefault(number, []).append(float(seconds))
        medians = [statistics.median(rounds[number]) for number in sorted(rounds)]
        if medians and all(math.isfinite(value) and value > 0 for value in medians):
            times[int(match[1])] = medians
    whole = min((len(seconds) for seconds in times.values()), default=0)
    if len(times) < 2 or whole < 3:
        return None
    per_rank = result["layout"]["per_rank"]
    hosts = {rank["host"] for rank in per_rank}
    here = hosts == {socket.gethostname()}
    return Sweep(
        case=result["case"],
        ranks=len(per_rank),
        threads=result["layout"]["threads"],
        hosts=len(hosts),
        where=md.place(result),
        cores=len(os.sched_getaffinity(0)) if here else None,
        times={npar: seconds[:whole] for npar, seconds in sorted(times.items())},
    )


def nearest(choices: Iterable[int], wanted: float) -> int:
    """The choice whose ratio to `wanted` is nearest to one."""
    return min(choices, key=lambda n: (abs(math.log(n / wanted)), n))


RULES = (
    ("cores/8", lambda ranks: ranks / 8),
    ("cores/16", lambda ranks: ranks / 16),
    ("square root", math.sqrt),
)


def table(sweeps: Sequence[Sweep]) -> Iterator[str]:
    """The advice as lines of text."""
    yield "Best NPAR, and what rules of thumb lose against it (medians over rounds, 90% intervals)"
    yield ""
    heads = ["case", "ranks", "best NPAR", "as good", *(f"at {name}" for name, _ in RULES)]
    rows = [[*heads, "worst / best", "measured on"]]
    for found in sweeps:
        several = f" x {found.threads} threads" if found.threads > 1 else ""
        row = [found.case, f"{found.ranks}{several}", str(found.best)]
        row.append(", ".join(str(n) for n in found.ties()) or "-")
        for _, rule in RULES:
            choice = nearest(found.times, max(1, rule(found.ranks)))
            loss = "best" if choice == found.best else found.over_best(choice).loss()
            row.append(f"NPAR {choice}: {loss}")
        rows.append([*row, f"{found.spread():.2f}", found.where])
    yield from ("  " + line for line in columns(rows))
    yield ""
    yield from warnings(sweeps)
    yield ""
    yield from published()


def warnings(sweeps: Sequence[Sweep]) -> Iterator[str]:
    """Lines on sweeps that do not hold for a cluster: one host, more ranks than cores."""
    over = [found.ranks for found in sweeps if found.cores and found.ranks > found.cores]
    return md.one_host([found.hosts for found in sweeps], "ranks", over)


def published() -> Iterator[str]:
    """The curves of 2010 beside which a machine's own are read (findings V07, V08, V11)."""
    yield "Published (Cray XT4, 2010): cores, best NPAR, loss of the rule named, worst / best"
    rows = []
    for benchmark, part in ((1, 8), (5, 16)):
        for cores, by_npar in sources.npar_times(benchmark).items():
            best = sources.best(by_npar)
            choice = nearest(by_npar, cores / part)
            loss = by_npar[choice] / by_npar[best] - 1
            rows.append(
                [
                    f"bench{benchmark}",
                    str(cores),
                    str(best),
                    f"cores/{part} -> {choice}: {loss:+.0%}",
                    f"{sources.spread(by_npar):.2f}",
                ]
            )
    yield from ("  " + line for line in columns(rows))
