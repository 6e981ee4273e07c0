"""`bisection advise npar|md`: what to recommend to users of a partition, from what was measured.

npar: which NPAR, and what a rule of thumb loses; all choices are measured in turn in one launch.
md: see advise_md.
"""

import math
import os
import random
import re
import socket
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from bisection import advise_md, literature, results
from bisection.bench import BenchError, build, launch
from bisection.run import home
from bisection.summary import columns
from bisection.verdict import DISTURBED

RESAMPLES = 400  # of a bootstrap
USAGE, NOTHING = 2, 3
CASES = (
    "mini1",
    "mini2",
    "mini3",
    "mini4",
    "mini5",
    "bench1",
    "bench2",
    "bench3",
    "bench4",
    "bench5",
)


@dataclass
class Estimate:
    """A number with the interval in which 90% of its resamples lie."""

    value: float
    low: float
    high: float

    def loss(self):
        """As a loss against 1: +4% [2, 6]."""
        return f"{self.value - 1:+.0%} [{self.low - 1:+.0%}, {self.high - 1:+.0%}]"


@dataclass
class Sweep:
    """One launch: every NPAR, round by round."""

    case: str
    ranks: int
    threads: int
    hosts: int
    cores: int | None  # of a host, as far as it says
    where: str  # partition and environment
    times: dict  # NPAR -> seconds of a step, one a round

    @property
    def key(self):
        return self.case, self.ranks * self.threads, self.hosts, self.threads, self.where

    @property
    def best(self):
        return min(self.times, key=lambda npar: statistics.median(self.times[npar]))

    def over_best(self, npar):
        """Time over that of the best, an Estimate by resampling rounds."""
        pairs = list(zip(self.times[npar], self.times[self.best], strict=True))
        return bootstrap([mine / best for mine, best in pairs])

    def ties(self):
        """Choices that cannot be told from the best."""
        return [n for n in self.times if n != self.best and self.over_best(n).low <= 1]

    def spread(self):
        medians = [statistics.median(seconds) for seconds in self.times.values()]
        return max(medians) / min(medians)


def bootstrap(values):
    """The median with its 5% and 95% points; with a fixed seed: the same from the same data."""
    pick = random.Random(1)
    medians = sorted(
        statistics.median(pick.choices(values, k=len(values))) for _ in range(RESAMPLES)
    )
    low, high = medians[RESAMPLES // 20], medians[-1 - RESAMPLES // 20]
    return Estimate(statistics.median(values), low, high)


def add_commands(commands):
    advise = commands.add_parser(
        "advise",
        help="recommend what users should set",
        description="npar: for each launch of the npar checks, the best NPAR and what rules of "
        "thumb lose. md: ranks and threads of molecular dynamics, and what each split sends. "
        "Exit code: 0 a table was printed, 2 usage, 3 there is nothing to advise from.",
    )
    advise.add_argument("what", choices=("npar", "md"))
    advise.add_argument(
        "--from",
        dest="folders",
        metavar="DIR",
        action="append",
        help="folders with result files, searched with all below; default: all results kept",
    )
    advise.add_argument(
        "--measure",
        metavar="RANKS",
        action="append",
        help="measure now, with so many ranks (md: ranks times threads) on this host; may be "
        "repeated, or be a list: 2,4",
    )
    advise.add_argument(
        "--case",
        choices=CASES + advise_md.CASES,
        metavar="CASE",
        action="append",
        help="default: all that were measured; with --measure mini1, cu3au of md",
    )
    advise.add_argument(
        "--partition", metavar="NAME", help="of results kept: only those of this partition"
    )
    advise.add_argument("--rounds", type=int, default=15, help="of --measure; default: 15")
    advise.set_defaults(act=act_advise)


def act_advise(options):
    try:
        if options.rounds < 3:
            raise ValueError(f"--rounds {options.rounds}: at least 3 are needed for a spread")
        if options.measure and (options.folders or options.partition):
            raise ValueError("--measure: measures here; it does not go with --from or --partition")
        ranks = rank_counts(options.measure or [])
        known = CASES if options.what == "npar" else advise_md.CASES
        for case in options.case or []:
            if case not in known:
                raise ValueError(f"--case {case}: of {options.what} there are {', '.join(known)}")
    except ValueError as error:
        print(f"bisection advise: error: {error}", file=sys.stderr)
        return USAGE
    of_npar = options.what == "npar"
    try:
        if ranks and of_npar:
            found = measured(ranks, options.case or ["mini1"], options.rounds)
        elif ranks:
            found = advise_md.measured(ranks, options.case or ["cu3au"], options.rounds)
        else:
            parse = sweep if of_npar else advise_md.layout_run
            found = stored(options.what, parse, options.folders, options.case, options.partition)
    except (BenchError, OSError) as error:
        print(f"bisection advise: error: {error}", file=sys.stderr)
        return NOTHING
    if not found:
        print(
            f"bisection advise: error: no results of the {options.what} checks"
            f"{' with two ranks or more' if of_npar else ''}; "
            f"measure some with `bisection run -n ^{options.what}`, or here with --measure 2,4",
            file=sys.stderr,
        )
        return NOTHING
    print("\n".join((table if of_npar else advise_md.table)(found)))
    return 0


def rank_counts(lists):
    counts = []
    for word in (word for words in lists for word in words.split(",")):
        if not word.isdecimal() or not 2 <= int(word) <= 4096:
            raise ValueError(f"--measure {word}: not a whole number of ranks from 2 to 4096")
        counts.append(int(word))
    return counts


# ---- where sweeps come from ----


def measured(ranks, cases, rounds):
    """Runs the kernel here, oversubscribed where ranks are more than cores."""
    folder = home() / "cache" / "advise"
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
    return [found for found in sweeps if found]


def stored(kernel, parse, folders, cases, partition):
    """The newest launch of each kind (its `key`) among the results kept, as `parse` reads it."""
    newest, left_out = {}, 0
    for folder in [Path(name) for name in folders or [home() / "results"]]:
        if not folder.is_dir():
            raise BenchError(f"--from {folder}: no such folder")
        for path in sorted(folder.rglob("*.json")):
            try:
                result = results.load(path, kernel)
                found = parse(result)
            except (results.ResultError, KeyError, TypeError, ValueError, OverflowError):
                continue  # of another kernel, or not whole
            labels = result.get("labels", {})
            if not found or (partition and labels.get("partition") != partition):
                continue
            if cases and found.case not in cases:
                continue
            if results.disturbed(result) > DISTURBED:
                left_out += 1
                continue
            if found.key not in newest or newest[found.key][0] <= result["started"]:
                newest[found.key] = result["started"], found
    if left_out:
        print(
            f"bisection advise: {left_out} launches left out: other processes were on their cores "
            f"in more than {DISTURBED:.0%} of the samples",
            file=sys.stderr,
        )
    return [newest[key][1] for key in sorted(newest)]


def sweep(result):
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
        where=advise_md.place(result),
        cores=len(os.sched_getaffinity(0)) if here else None,
        times={npar: seconds[:whole] for npar, seconds in sorted(times.items())},
    )


# ---- what they say ----


def nearest(choices, wanted):
    """The choice whose ratio to `wanted` is nearest to one."""
    return min(choices, key=lambda n: (abs(math.log(n / wanted)), n))


RULES = (
    ("cores/8", lambda ranks: ranks / 8),
    ("cores/16", lambda ranks: ranks / 16),
    ("square root", math.sqrt),
)


def table(sweeps):
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


def warnings(sweeps):
    over = [found.ranks for found in sweeps if found.cores and found.ranks > found.cores]
    return advise_md.one_host([found.hosts for found in sweeps], "ranks", over)


def published():
    """The curves of 2010 beside which a machine's own are read (findings V07, V08, V11)."""
    yield "Published (Cray XT4, 2010): cores, best NPAR, loss of the rule named, worst / best"
    rows = []
    for benchmark, part in ((1, 8), (5, 16)):
        for cores, by_npar in literature.npar_times(benchmark).items():
            best = literature.best(by_npar)
            choice = nearest(by_npar, cores / part)
            loss = by_npar[choice] / by_npar[best] - 1
            rows.append(
                [
                    f"bench{benchmark}",
                    str(cores),
                    str(best),
                    f"cores/{part} -> {choice}: {loss:+.0%}",
                    f"{literature.spread(by_npar):.2f}",
                ]
            )
    yield from ("  " + line for line in columns(rows))
