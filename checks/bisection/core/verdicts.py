"""Tiers, the words that a verdict is made of, exit codes, and the error that ends a command."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum


@dataclass(frozen=True)
class Tier:
    """A selection of checks; each check says what of it belongs to which (KernelCheck.tiers)."""

    purpose: str
    minutes: float  # on two cores, at most, where nothing else runs and the kernels are built
    settings: tuple[str, ...] = ()  # of launches, as ReFrame's -S takes them
    largest: bool = False  # of partitions with the same nodes, only that with the largest launches


# `quick` was measured whole (23 November 2026), the others are estimated from samples of launches.
TIERS = {
    "quick": Tier("does everything work: each kernel on its small cases", 3.5),
    "nightly": Tier("is the machine as before: large cases too, one of each kind", 15),
    "upgrade": Tier("what did new software change: every case, layout and method", 31),
    "triage": Tier(
        "is a new network good: slow parts and capacity, in minutes",
        3,
        ("PatternsLaunch.sampling=sweep:--repeats 5 --block 2 --warmup 0",),
        largest=True,
    ),
    "interconnect": Tier(
        "what does the network carry: all tests that communicate most", 5, largest=True
    ),
    "burn": Tier(
        "does each node keep its rate: minutes under full load",
        10,
        ("BurnLaunch.sampling=node:--repeats 3 --block 60",),
    ),
    "nodes": Tier("is each node as its peers: the tier of --every-node", 1),
}


class Word(str, Enum):
    """A word that is stored and printed as it is."""

    def __str__(self) -> str:
        return str(self.value)


class Grade(Word):
    """Verdicts on a network: ready for users or not."""

    GO = "go"
    LOOK = "look"  # a person must look at something first
    NO_GO = "no-go"


class Verdict(Word):
    """On a test of one run, or on a metric of two groups of sessions."""

    # of a run
    PASS = "pass"
    FAIL = "FAIL"
    NOT_APPLICABLE = "not applicable"
    KNOWN = "known failure"
    # of a comparison, the worst first
    REGRESSED = "regressed"
    MISSING = "missing"
    NOT_MEASURED = "not measured"  # of a run, too
    IMPROVED = "improved"
    INCONCLUSIVE = "inconclusive"
    NEW = "new"
    UNCHANGED = "unchanged"


RAN = (Verdict.PASS, Verdict.FAIL, Verdict.KNOWN)
COMPARED = tuple(Verdict)[4:]  # of a comparison


class Against(Word):
    """A speed-up beside the expected ratio."""

    ABOVE = "above"
    AT = "at"
    BELOW = "below"
    UNCLEAR = "unclear"


class Scope(Word):
    """Validity of a verdict: the machine, where sessions were sampled; these sessions, where only
    jobs within them were."""

    MACHINE = "machine"
    SESSIONS = "these sessions"


class Exit(IntEnum):
    """Exit codes of every command."""

    OK = 0
    FAILED = 1
    USAGE = 2  # argparse's own
    NOT_MEASURED = 3
    SLOWER = 4
    INTERRUPTED = 130  # as shells have it: 128 and the number of SIGINT


# What each means. The help of a command lists those that it can give, with their causes there.
MEANINGS = {
    Exit.OK: "done, and nothing is wrong",
    Exit.FAILED: "something is wrong",
    Exit.USAGE: "the command line or an input file cannot be used",
    Exit.NOT_MEASURED: "not everything could be measured or judged",
    Exit.SLOWER: "everything passed, but something is slower, and that is confirmed",
    Exit.INTERRUPTED: "interrupted",
}


def exit_codes(causes: Mapping[Exit, str]) -> str:
    """These exit codes, and those of every command, as lines of help, with their causes."""
    lines = ["exit codes:"]
    for code, cause in sorted({Exit.OK: "", Exit.USAGE: "", **causes}.items()):
        lines.append(f"  {code:<5d}" + ": ".join(filter(None, (MEANINGS[code], cause))))
    return "\n".join(lines)


class BisectionError(Exception):
    """Ends a command with one line, its text, on standard error and with `exit_code`."""

    exit_code = Exit.USAGE


class NotMeasured(BisectionError):
    """Something could not be measured, or loaded in time; the text says why."""

    exit_code = Exit.NOT_MEASURED


class KernelExit(IntEnum):
    """Exit codes of a kernel (src/common/bx.h)."""

    VERIFIED = 0
    WRONG_ANSWER = 1
    USAGE = 2
    RESOURCES = 3
    HANG = 4
