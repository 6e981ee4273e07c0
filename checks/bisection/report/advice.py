"""Recommended settings for users of a partition, as tables of text."""

import os
from collections.abc import Iterator, Sequence

from bisection.advice import eigen, md, npar, sources
from bisection.advice.eigen import Solved
from bisection.advice.md import LayoutRun
from bisection.advice.npar import Sweep
from bisection.advice.sources import Launched
from bisection.core.format import duration, plural
from bisection.core.thresholds import LIMITS
from bisection.report.tables import indented

# Published: benchmark -> the rules of thumb for it: cores / 8, for example.
RULES_OF_BENCHMARKS = {1: (8,), 5: (16, 32)}
CLUSTERS = {"merlin": "InfiniBand", "stella": "10 Gb/s Ethernet"}
TESTS = {10: "SiC", 20: "Cu3Au", 30: "Fe"}


def npar_advice(sweeps: Sequence[Sweep]) -> Iterator[str]:
    """Lines: which NPAR is best, what rules of thumb lose, and what was published."""
    yield "Best NPAR, and what rules of thumb lose against it (medians over rounds, 90% intervals)"
    yield ""
    heads = ["case", "ranks", "best NPAR", "as good", *(f"at {name}" for name in npar.RULES)]
    rows = [[*heads, "worst / best", "measured on"]]
    for sweep in sweeps:
        several = f" x {sweep.threads} threads" if sweep.threads > 1 else ""
        row = [sweep.case, f"{sweep.ranks}{several}", str(sweep.best)]
        row.append(", ".join(map(str, sweep.ties())) or "-")
        row += [f"NPAR {n}: {_loss(sweep, n)}" for n in map(sweep.by_rule, npar.RULES)]
        rows.append([*row, f"{sweep.spread:.2f}", sweep.where])
    yield from indented(rows)
    yield ""
    for (case, where, threads), group in npar.by_cores(sweeps).items():
        times = {cores: min(sweep.medians.values()) for cores, sweep in group.items()}
        several = f" with {threads} threads per rank" if threads > 1 else ""
        choice = group[npar.recommended(times)].best
        yield f"{case} on {where}{several}: {_recommended(times, choice)}"
    yield from _cautions(sweeps)
    yield ""
    # findings V07, V08, V11
    yield "Published (Cray XT4, 2010): cores, best NPAR, loss of the rules named, worst / best"
    rows = []
    for benchmark, parts in RULES_OF_BENCHMARKS.items():
        for cores, times in sources.npar_times(benchmark).items():
            best, losses = sources.best(times), []
            for part in parts:
                choice = npar.nearest(times, cores / part)
                loss = times[choice] / times[best] - 1
                losses.append(f"cores/{part} -> {choice}: {loss:+.0%}")
            spread = f"{sources.spread(times):.2f}"
            rows.append([f"bench{benchmark}", str(cores), str(best), ", ".join(losses), spread])
    yield from indented(rows)
    for benchmark in RULES_OF_BENCHMARKS:
        published = sources.npar_times(benchmark)
        times = {cores: min(by_npar.values()) for cores, by_npar in published.items()}
        choice = sources.best(published[npar.recommended(times)])
        yield f"bench{benchmark}: {_recommended(times, choice)}, as the report recommends"


def _recommended(times: dict[int, float], choice: int) -> str:
    """The cores to use, of cores -> seconds, and the best NPAR there."""
    cores, least = npar.recommended(times), npar.EFFICIENCY
    efficiency = npar.efficiencies(times)[cores]
    return (
        f"{cores} cores with NPAR {choice}, the most with a parallel efficiency of at least "
        f"{least:.0%} against {min(times)} ({efficiency:.0%})"
    )


def _loss(sweep: Sweep, choice: int) -> str:
    """A loss against the best choice: +4% [+2%, +6%]."""
    if choice == sweep.best:
        return "best"
    over = sweep.over_best(choice)
    return f"{over.value - 1:+.0%} [{over.low - 1:+.0%}, {over.high - 1:+.0%}]"


def md_advice(runs: Sequence[LayoutRun]) -> Iterator[str]:
    """Lines: ranks and threads on equal cores, where a step's time goes, and what was published."""
    yield "Molecular dynamics: ranks x threads on equal cores, per time step (medians, quartiles)"
    yield ""
    heads = ["case", "cores", "layout", "time", "", "Matom-steps/s", "over the best"]
    rows = [[*heads, "measured on"]]
    for run in runs:
        best = md.best_alike(runs, run)
        over = "best" if run is best else f"{run.time.value / best.time.value:.2f}"
        span = f"[{duration(run.time.low)}, {duration(run.time.high)}]"
        row = [run.case, str(run.cores), run.layout, duration(run.time.value), span]
        rows.append([*row, f"{run.rate / 1e6:.2f}", over, run.where])
    yield from indented(rows)
    yield ""
    yield from _profile(runs)
    yield ""
    several = len({run.where for run in runs}) > 1
    for (case, where), times in md.layout_times(runs).items():
        name = f"{case} on {where}" if several else case
        if not times:
            yield f"{name}: no two layouts on as many cores, one of them with one rank per core"
            continue
        start = sources.crossover(times)
        begin = f"hybrid from {start} cores on" if start else "one rank per core throughout"
        yield f"{name}: best {_best_layouts(times)}; {begin}"
    yield from _cautions(runs)
    yield ""
    # table 1 of the paper, findings D01 to D04
    yield "Published (2010): the best layout by cores, and from which on a hybrid is"
    rows = []
    for cluster, network in CLUSTERS.items():
        for test, name in TESTS.items():
            times = sources.md_times(cluster, test)
            row = [f"{cluster.title()}, {network}", f"test {test}, {name}", _best_layouts(times)]
            rows.append([*row, f"from {sources.crossover(times)}"])
    yield from indented(rows)


def eigen_advice(launches: Sequence[Solved]) -> Iterator[str]:
    """Lines: the best parallel solver by rows and ranks, from where on it pays, and what was
    published."""
    yield "Parallel eigensolvers over LAPACK's dsyevd on one core (medians, quartiles)"
    yield ""
    rows = [["rows", "ranks", "best solver", "time", "over dsyevd", "", "measured on"]]
    for launch in sorted(launches, key=lambda launch: (launch.where, launch.ranks, launch.rows)):
        ratio, name = launch.ratios[launch.best], launch.best
        row = [str(launch.rows), str(launch.ranks), name, duration(launch.seconds[name])]
        span = f"[{ratio.low:.2f}, {ratio.high:.2f}]"
        rows.append([*row, f"{ratio.value:.2f}", span, launch.where])
    yield from indented(rows)
    yield ""
    for where, ranks in sorted({(launch.where, launch.ranks) for launch in launches}):
        if ranks == 1:
            continue  # beside one core by definition
        alike = [launch for launch in launches if (launch.where, launch.ranks) == (where, ranks)]
        rows_from, most = eigen.pays_from(alike), max(launch.rows for launch in alike)
        pays = f"pays from {rows_from} rows on" if rows_from else f"does not pay up to {most} rows"
        yield f"{plural(ranks, 'rank')}, {where}: a parallel solver {pays}"
    yield from _cautions(launches)
    yield ""
    # findings H03 and H04
    yield "Published (HPCx, 2004): PDSYEVD on a new network over the old, at first and after SP7"
    published = [
        [data, f"{processors} processors", f"{first}", f"{then}"]
        for data, processors, first, then in eigen.upgrade_ratios()
    ]
    yield from indented(published)


def _profile(runs: Sequence[LayoutRun]) -> Iterator[str]:
    """Yields what figures 4 to 9 of the paper show, in their order; then the loops of 10 and 11."""
    yield "What a time step sends and where its time goes (figures 4 to 9 of the paper; two loops)"
    yield ""
    heads = ["case", "layout", "B per rank", "B in all", "messages", "communication", "share"]
    parts = {
        "barrier": "barrier",
        "collective": "collective",
        "p2p": "point-to-point",
        "two_body_forces": "two-body",
        "metal_ld_compute": "metal_ld",
        "tersoff_forces": "Tersoff",
        "fork_join": "fork/join",
    }
    rows = [[*heads, *parts.values()]]
    for run in runs:
        counts = [f"{value:,.0f}" for value in (run.bytes_per_rank, run.bytes, run.messages)]
        whole, *seconds = (
            duration(run.seconds[name]) if run.seconds[name] > 0 else "-"
            for name in ("communication", *parts)
        )
        share = f"{run.seconds['communication'] / run.time.value:.1%}"
        rows.append([run.case, run.layout, *counts, whole, share, *seconds])
    yield from indented(rows)


def _best_layouts(times: dict[int, dict[str, float]]) -> str:
    return ", ".join(f"{sources.best(times[cores])} on {cores}" for cores in sorted(times))


def _cautions(launches: Sequence[Launched]) -> Iterator[str]:
    """Warnings on times that were taken on a single host, on too few cores, or beside others."""
    hosts = {launched.hosts for launched in launches}
    if 1 in hosts:
        which = "All ranks" if hosts == {1} else "The ranks of some launches"
        yield f"{which} ran on one host: no network was measured. This is not valid for a cluster."
    if over := sorted({launched.cores for launched in launches if launched.oversubscribed}):
        yield (
            f"{', '.join(map(str, over))} threads in all shared {len(os.sched_getaffinity(0))} "
            "cores: these times show that everything works, not which choice is best."
        )
    busy = [launched for launched in launches if launched.preempted > LIMITS.preempted_launch]
    if busy:
        yield (
            f"Other processes were on the cores of {plural(len(busy), 'launch', 'launches')}: "
            "rerun on a quiet host."
        )
