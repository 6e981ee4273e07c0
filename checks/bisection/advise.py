"""`bisection advise npar`: which NPAR to recommend on a partition, and what a rule of thumb loses.

Measured are all choices in turn in one launch; the answer is a table, one row a launch.
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

from bisection import literature, results
from bisection.bench import BenchError, build, launch
from bisection.run import home
from bisection.summary import columns

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
    hosts: int
    cores: int | None  # of a host, as far as it says
    times: dict  # NPAR -> seconds of a step, one a round

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
        "thumb lose. Exit code: 0 a table was printed, 2 usage, 3 there is nothing to advise from.",
    )
    advise.add_argument("what", choices=("npar",))
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
        help="measure now, with so many ranks on this host; may be repeated, or be a list: 2,4",
    )
    advise.add_argument(
        "--case",
        choices=CASES,
        action="append",
        help="default: all that were measured; mini1 with --measure",
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
    except ValueError as error:
        print(f"bisection advise: error: {error}", file=sys.stderr)
        return USAGE
    try:
        if ranks:
            sweeps = measured(ranks, options.case or ["mini1"], options.rounds)
        else:
            sweeps = stored(options.folders, options.case, options.partition)
    except (BenchError, OSError) as error:
        print(f"bisection advise: error: {error}", file=sys.stderr)
        return NOTHING
    if not sweeps:
        print(
            "bisection advise: error: no results of the npar checks with two ranks or more; "
            "measure some with `bisection run -n ^npar`, or here with --measure 2,4",
            file=sys.stderr,
        )
        return NOTHING
    print("\n".join(table(sweeps)))
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


def stored(folders, cases, partition):
    """The newest launch of each case and number of ranks among the results kept."""
    newest = {}
    for folder in [Path(name) for name in folders or [home() / "results"]]:
        if not folder.is_dir():
            raise BenchError(f"--from {folder}: no such folder")
        for path in sorted(folder.rglob("*.json")):
            try:
                result = results.load(path, "npar")
                found = sweep(result)
            except (results.ResultError, KeyError, TypeError, ValueError, OverflowError):
                continue  # of another kernel, or not whole
            labels = result.get("labels", {})
            if not found or (partition and labels.get("partition") != partition):
                continue
            if cases and found.case not in cases:
                continue
            key = found.case, found.ranks, found.hosts
            if key not in newest or newest[key][0] <= result["started"]:
                newest[key] = result["started"], found
    return [found for _, found in sorted(newest.values(), key=lambda pair: _order(pair[1]))]


def _order(found):
    return found.case, found.ranks, found.hosts


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
        hosts=len(hosts),
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
    heads = ["case", "cores", "best NPAR", "as good", *(f"at {name}" for name, _ in RULES)]
    rows = [[*heads, "worst / best"]]
    for found in sweeps:
        row = [found.case, str(found.ranks), str(found.best)]
        row.append(", ".join(str(n) for n in found.ties()) or "-")
        for _, rule in RULES:
            choice = nearest(found.times, max(1, rule(found.ranks)))
            loss = "best" if choice == found.best else found.over_best(choice).loss()
            row.append(f"NPAR {choice}: {loss}")
        rows.append([*row, f"{found.spread():.2f}"])
    yield from ("  " + line for line in columns(rows))
    yield ""
    yield from warnings(sweeps)
    yield ""
    yield from published()


def warnings(sweeps):
    hosts = max(found.hosts for found in sweeps)
    over = [found for found in sweeps if found.cores and found.ranks > found.cores]
    if hosts == 1:
        yield (
            "All ranks ran on one host: this says nothing about a network, and one host is not a "
            "cluster. Take no advice for one from it."
        )
    if over:
        counts = ", ".join(str(found.ranks) for found in over)
        yield (
            f"{counts} ranks shared {over[0].cores} cores: such times show that all works, "
            "not which choice is best."
        )


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
