"""How many ranks per node and threads per rank for molecular dynamics.

One row per launch: its time beside the best on as many cores, and its communication as figures 4 to
11 of Chorley and Walker (2010) show it.
"""

import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bisection.advice import sources
from bisection.core import paths
from bisection.core.format import duration
from bisection.kernels import results
from bisection.kernels.local import build, launch
from bisection.kernels.results import Result
from bisection.report.tables import columns

SHARES = (
    "p2p",
    "collective",
    "barrier",
    "communication",
    "fork_join",
    "two_body_forces",
    "metal_ld_compute",
    "tersoff_forces",
)
PUBLISHED = ((10, "SiC"), (20, "Cu3Au"), (30, "Fe"))


@dataclass
class LayoutRun:
    """One launch, in seconds, bytes and messages per time step."""

    case: str
    ranks: int
    threads: int
    hosts: int
    where: str  # partition and environment
    here: int | None  # cores of this host, where it ran here
    time: float
    low: float  # quartiles
    high: float
    rate: float  # atom-steps/s
    bytes_per_rank: float
    bytes: float
    messages: float
    seconds: dict[str, float]  # of SHARES, mean over ranks

    @property
    def key(self) -> tuple[Any, ...]:
        """What runs must have in common to be one row: case, cores, hosts, threads, place."""
        return self.case, self.cores, self.hosts, self.threads, self.where

    @property
    def cores(self) -> int:
        """Ranks times threads."""
        return self.ranks * self.threads

    def __str__(self) -> str:
        return f"{self.ranks}x{self.threads}"


def layout_run(result: Result) -> LayoutRun | None:
    """The LayoutRun of a result, of its packed method; None if that was not measured."""
    entries = results.of_method(result, "packed")
    if not entries[0]["applicable"] or results.failed_checks(entries[0]):
        return None
    metrics = {name: metric["value"] for name, metric in entries[0]["metrics"].items()}
    time = entries[0]["metrics"]["time"]
    per_rank = result["layout"]["per_rank"]
    hosts = {rank["host"] for rank in per_rank}
    return LayoutRun(
        case=result["case"],
        ranks=len(per_rank),
        threads=result["layout"]["threads"],
        hosts=len(hosts),
        where=place(result),
        here=len(os.sched_getaffinity(0)) if hosts == {socket.gethostname()} else None,
        time=time["value"],
        low=time["low"],
        high=time["high"],
        rate=metrics["atom_steps"],
        bytes_per_rank=metrics["bytes_per_rank"],
        bytes=metrics["bytes"],
        messages=metrics["messages"],
        seconds={name: metrics[f"{name}_share"] * time["value"] for name in SHARES},
    )


def place(result: Result) -> str:
    """Partition and environment of a launch; "here" where it was no check's."""
    labels = result["labels"]
    names = [labels[name] for name in ("partition", "environ") if labels.get(name)]
    return ", ".join(names) or "here"


def measured(core_counts: Sequence[int], cases: Sequence[str], rounds: int) -> list[LayoutRun]:
    """Every split of so many cores into ranks and threads, run here."""
    folder = paths.home() / "cache" / "advise"
    folder.mkdir(parents=True, exist_ok=True)
    executable = build("md")
    found = []
    for case in cases:
        for cores in core_counts:
            for threads in (n for n in range(1, cores + 1) if cores % n == 0):
                arguments = ["--case", case, "--method", "packed", "--baseline", "none"]
                arguments += ["--repeats", str(rounds), "--block", "1", "--warmup", "0"]
                output = folder / f"md-{case}-{cores}-{threads}.json"
                result = launch(executable, cores // threads, arguments, output, threads)
                found.append(layout_run(result))
    return [run for run in found if run]


def table(runs: Sequence[LayoutRun]) -> Iterator[str]:
    """The advice as lines of text."""
    yield "Molecular dynamics: ranks x threads on equal cores, per time step (medians, quartiles)"
    yield ""
    heads = ["case", "cores", "layout", "time", "", "Matom-steps/s", "over the best"]
    rows = [[*heads, "measured on"]]
    for run in runs:
        best = fastest(alike(runs, run))
        over = "best" if run is best else f"{run.time / best.time:.2f}"
        span = f"[{duration(run.low)}, {duration(run.high)}]"
        rate = f"{run.rate / 1e6:.2f}"
        row = [run.case, str(run.cores), str(run), duration(run.time), span, rate, over]
        row.append(run.where)
        rows.append(row)
    yield from ("  " + line for line in columns(rows))
    yield ""
    yield from profile(runs)
    yield ""
    yield from crossovers(runs)
    over = sorted({run.cores for run in runs if run.here and run.cores > run.here})
    yield from one_host([run.hosts for run in runs], "ranks times threads", over)
    yield ""
    yield from published()


def alike(runs: Sequence[LayoutRun], run: LayoutRun) -> list[LayoutRun]:
    """Those of the same case on as many cores of the same place."""

    def kind(one: LayoutRun) -> tuple[Any, ...]:
        return one.case, one.cores, one.hosts, one.where

    return [other for other in runs if kind(other) == kind(run)]


def fastest(runs: Sequence[LayoutRun]) -> LayoutRun:
    """The run with the shortest time per step."""
    return min(runs, key=lambda run: run.time)


def profile(runs: Sequence[LayoutRun]) -> Iterator[str]:
    """What figures 4 to 11 of the paper show, in their order."""
    yield "What a time step sends and where its time goes (figures 4 to 11 of the paper)"
    yield ""
    heads = ["case", "layout", "B per rank", "B in all", "messages", "communication", "share"]
    rows = [[*heads, "barrier", "collective", "point-to-point", "two-body", "metal_ld", "Tersoff"]]
    rows[0].append("fork/join")
    for run in runs:
        counts = [f"{value:,.0f}" for value in (run.bytes_per_rank, run.bytes, run.messages)]
        names = ("barrier", "collective", "p2p", "two_body_forces", "metal_ld_compute")
        rows.append(
            [run.case, str(run), *counts]
            + [seconds(run, "communication"), f"{run.seconds['communication'] / run.time:.1%}"]
            + [seconds(run, name) for name in (*names, "tersoff_forces", "fork_join")]
        )
    yield from ("  " + line for line in columns(rows))


def seconds(run: LayoutRun, name: str) -> str:
    """What a named part of a step takes, as text."""
    return duration(run.seconds[name]) if run.seconds[name] > 0 else "-"


def crossovers(runs: Sequence[LayoutRun]) -> Iterator[str]:
    """Of each case, the layout to take at each number of cores, and where hybrids begin to win."""
    places = {run.where for run in runs}
    for case, where in dict.fromkeys((run.case, run.where) for run in runs):
        times = {}
        name = f"{case} on {where}" if len(places) > 1 else case
        for run in runs:
            if (run.case, run.where) == (case, where):
                layout = "mpi" if run.threads == 1 else str(run)
                times.setdefault(run.cores, {})[layout] = run.time
        compared = {cores: by for cores, by in times.items() if len(by) > 1 and "mpi" in by}
        if not compared:
            yield f"{name}: no two layouts on as many cores, one of them with one rank per core"
            continue
        best = ", ".join(f"{sources.best(compared[n])} on {n}" for n in sorted(compared))
        start = sources.crossover(compared)
        begin = f"hybrid from {start} cores on" if start else "one rank per core throughout"
        yield f"{name}: best {best}; {begin}"


def one_host(hosts: Sequence[int], noun: str, over: Sequence[int]) -> Iterator[str]:
    """Warnings on times that were taken on a single host, or on too few cores.

    Args:
        hosts: of each launch.
        noun: what there were too many of.
        over: how many, where they were more than cores.
    """
    if 1 in hosts:
        which = "All ranks" if set(hosts) == {1} else "The ranks of some launches"
        yield (
            f"{which} ran on one host: no network was measured. This is not valid for a cluster."
        )
    if over:
        yield (
            f"{', '.join(map(str, over))} {noun} shared {len(os.sched_getaffinity(0))} cores: "
            "these times show that everything works, not which choice is best."
        )


def published() -> Iterator[str]:
    """Table 1 of the paper, beside which a machine's own is read (findings D01 to D04)."""
    yield "Published (2010): the best layout by cores, and from which on a hybrid is"
    rows = []
    for cluster, network in (("merlin", "InfiniBand"), ("stella", "10 Gb/s Ethernet")):
        for test, name in PUBLISHED:
            times = sources.md_times(cluster, test)
            best = ", ".join(f"{sources.best(times[n])} on {n}" for n in sorted(times))
            start = sources.crossover(times)
            rows.append([f"{cluster.title()}, {network}", f"test {test}, {name}", best])
            rows[-1].append(f"from {start}")
    yield from ("  " + line for line in columns(rows))
