"""Recommended settings for users of a partition, as tables of text."""

from collections.abc import Iterator, Sequence

from bisection.advice import sources
from bisection.advice.sources import Launched, LayoutRun, Solved, Sweep, best
from bisection.core.format import duration, plural
from bisection.core.reasons.performance import Excluded
from bisection.core.thresholds import LIMITS
from bisection.report.text_tables import indented

# Published: benchmark -> the rules of thumb for it.
RULES_OF_BENCHMARKS = {1: ("cores/8",), 5: ("cores/16", "cores/32")}


def left_out(excluded: Sequence[str], disturbed: int) -> Iterator[str]:
    """Lines on what is left out: excluded sessions, and so many launches that were disturbed."""
    if excluded:
        yield str(Excluded(tuple(excluded)))
    if disturbed:
        yield (
            f"{plural(disturbed, 'launch', 'launches')} left out: other processes were on their "
            f"cores in more than {LIMITS.disturbed_launch:.0%} of the samples"
        )


def npar_advice(sweeps: Sequence[Sweep]) -> Iterator[str]:
    """Lines: which NPAR is best, what rules of thumb lose, and what was published."""
    heads = ["case", "ranks", "best NPAR", "as good", *(f"at {name}" for name in sources.RULES)]
    rows = [[*heads, "worst / best", "measured on"]]
    for sweep in sweeps:
        several = f" x {sweep.threads} threads" if sweep.threads > 1 else ""
        row = [sweep.case, f"{sweep.ranks}{several}", str(sweep.best)]
        row.append(", ".join(map(str, sweep.ties())) or "-")
        for rule in sources.RULES.values():
            choice = sources.nearest(sweep.times, max(1, rule(sweep.ranks)))
            row.append(f"NPAR {choice}: {_loss(sweep, choice)}")
        rows.append([*row, f"{sources.spread(sweep.medians):.2f}", sweep.where])
    title = "Best NPAR, and what rules of thumb lose against it"
    yield from _table(f"{title} (medians over rounds, 90% intervals)", rows)
    groups: dict[tuple[str, str, int], dict[int, Sweep]] = {}
    # Of the sweeps on as many cores the fastest comes last, and stays.
    for sweep in sorted(sweeps, key=lambda sweep: -min(sweep.medians.values())):
        groups.setdefault((sweep.case, sweep.where, sweep.threads), {})[sweep.cores] = sweep
    for case, where, threads in sorted(key for key, group in groups.items() if len(group) > 1):
        several = f" with {threads} threads per rank" if threads > 1 else ""
        group = groups[case, where, threads]
        times = {cores: sweep.medians for cores, sweep in group.items()}
        yield f"{case} on {where}{several}: {_recommended(times)}"
    yield from _cautions(sweeps)
    yield ""
    # findings V07, V08, V11
    yield "Published (Cray XT4, 2010): cores, best NPAR, loss of the rules named, worst / best"
    rows = []
    for benchmark, rules in RULES_OF_BENCHMARKS.items():
        for cores, of_choices in sources.npar_times(benchmark).items():
            losses = []
            for name in rules:
                choice = sources.nearest(of_choices, sources.RULES[name](cores))
                loss = of_choices[choice] / min(of_choices.values()) - 1
                losses.append(f"{name} -> {choice}: {loss:+.0%}")
            row = [f"bench{benchmark}", str(cores), str(best(of_choices)), ", ".join(losses)]
            rows.append([*row, f"{sources.spread(of_choices):.2f}"])
    yield from indented(rows)
    for benchmark in RULES_OF_BENCHMARKS:
        words = _recommended(sources.npar_times(benchmark))
        yield f"bench{benchmark}: {words}, as the report recommends"


def _table(title: str, rows: Sequence[Sequence[str]]) -> list[str]:
    return [title, "", *indented(rows), ""]


def _recommended(times: dict[int, dict[int, float]]) -> str:
    """The cores to use, of cores -> NPAR -> seconds, and the best NPAR there."""
    cores, efficiency = sources.recommended({n: min(t.values()) for n, t in times.items()})
    return (
        f"{cores} cores with NPAR {best(times[cores])}, the most with a parallel efficiency of at "
        f"least {LIMITS.efficiency:.0%} against {min(times)} ({efficiency:.0%})"
    )


def _loss(sweep: Sweep, choice: int) -> str:
    """A loss against the best choice: +4% [+2%, +6%]."""
    if choice == sweep.best:
        return "best"
    over = sweep.over_best(choice)
    return f"{over.value - 1:+.0%} [{over.low - 1:+.0%}, {over.high - 1:+.0%}]"


def md_advice(runs: Sequence[LayoutRun]) -> Iterator[str]:
    """Lines: ranks and threads on equal cores, and where a step's time goes."""
    heads = ["case", "cores", "layout", "time", "", "Matom-steps/s", "over the best"]
    rows = [[*heads, "measured on"]]
    places: dict[tuple[str, str], dict[int, dict[str, float]]] = {}
    for run in runs:
        by_cores = places.setdefault((run.case, run.where), {})
        layout = "mpi" if run.threads == 1 else run.layout
        by_cores.setdefault(run.cores, {})[layout] = run.time.value
        alike = [r for r in runs if (*r.key[:3], r.where) == (*run.key[:3], run.where)]
        over = run.time.value / min(other.time.value for other in alike)
        span = f"[{duration(run.time.low)}, {duration(run.time.high)}]"
        row = [run.case, str(run.cores), run.layout, duration(run.time.value), span]
        row += [f"{run.values['atom_steps'] / 1e6:.2f}", f"{over:.2f}" if over > 1 else "best"]
        rows.append([*row, run.where])
    title = "Molecular dynamics: ranks x threads on equal cores, per time step"
    yield from _table(f"{title} (medians, quartiles)", rows)
    yield from _profile(runs)
    several = len({run.where for run in runs}) > 1
    for (case, where), by_cores in places.items():
        name = f"{case} on {where}" if several else case
        times = {n: by for n, by in sorted(by_cores.items()) if len(by) > 1 and "mpi" in by}
        if not times:
            yield f"{name}: no two layouts on as many cores, one of them with one rank per core"
            continue
        start = sources.crossover(times)
        begin = f"hybrid from {start} cores on" if start else "one rank per core throughout"
        layouts = ", ".join(f"{best(by_layout)} on {cores}" for cores, by_layout in times.items())
        yield f"{name}: best {layouts}; {begin}"
    yield from _cautions(runs)


def _profile(runs: Sequence[LayoutRun]) -> Iterator[str]:
    """Yields figures 4 to 9 of the paper, in their order; then the loops of 10 and 11."""
    heads = ["case", "layout", "B per rank", "B in all", "messages", "communication", "share"]
    heads += ["barrier", "collective", "point-to-point", "two-body", "metal_ld", "Tersoff"]
    rows = [[*heads, "fork/join"]]
    for run in runs:
        counts = [f"{run.values[name]:,.0f}" for name in ("bytes_per_rank", "bytes", "messages")]
        whole, *seconds = (duration(s) if s > 0 else "-" for s in run.seconds.values())
        share = f"{run.seconds['communication'] / run.time.value:.1%}"
        rows.append([run.case, run.layout, *counts, whole, share, *seconds])
    title = "What a time step sends and where its time goes"
    yield from _table(f"{title} (figures 4 to 9 of the paper; two loops)", rows)


def eigen_advice(launches: Sequence[Solved]) -> Iterator[str]:
    """Lines: the best parallel solver by rows and ranks, and from where on it pays."""
    rows = [["rows", "ranks", "best solver", "time", "over dsyevd", "", "measured on"]]
    places: dict[tuple[str, int], list[Solved]] = {}
    for launch in sorted(launches, key=lambda launch: (launch.where, launch.ranks, launch.rows)):
        places.setdefault((launch.where, launch.ranks), []).append(launch)
        row = [str(launch.rows), str(launch.ranks), launch.best, duration(launch.seconds)]
        span = f"[{launch.ratio.low:.2f}, {launch.ratio.high:.2f}]"
        rows.append([*row, f"{launch.ratio.value:.2f}", span, launch.where])
    title = "Parallel eigensolvers over LAPACK's dsyevd on one core (medians, quartiles)"
    yield from _table(title, rows)
    for (where, ranks), alike in places.items():
        if ranks == 1:
            continue  # beside one core by definition
        start, most = sources.holds_from((s.rows, s.pays) for s in alike), alike[-1].rows
        pays = f"pays from {start} rows on" if start else f"does not pay up to {most} rows"
        yield f"{plural(ranks, 'rank')}, {where}: a parallel solver {pays}"
    yield from _cautions(launches)


def _cautions(launches: Sequence[Launched]) -> Iterator[str]:
    """Warnings on times that were taken on a single host, on too few cores, or beside others."""
    hosts = {launched.hosts for launched in launches}
    if 1 in hosts:
        which = "All ranks" if hosts == {1} else "The ranks of some launches"
        yield f"{which} ran on one host: no network was measured. This is not valid for a cluster."
    if over := sorted({launched.cores for launched in launches if launched.oversubscribed}):
        yield (
            f"{', '.join(map(str, over))} threads in all shared {sources.cores_here()} "
            "cores: these times show that everything works, not which choice is best."
        )
    busy = [launched for launched in launches if launched.disturbed > LIMITS.disturbed_launch]
    if busy:
        yield (
            f"Other processes were on the cores of {plural(len(busy), 'launch', 'launches')}: "
            "rerun on a quiet host."
        )
