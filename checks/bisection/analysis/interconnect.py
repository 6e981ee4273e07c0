"""The network judged: go, look or no-go, and what speaks against it."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path

from bisection.analysis import blame, pairs
from bisection.analysis.blame import BadComponent, Blame
from bisection.analysis.model import Comparison, Row
from bisection.analysis.pairs import Matrix
from bisection.core import paths, topology
from bisection.core.reasons import Code, Reason
from bisection.core.thresholds import LIMITS
from bisection.core.topology import TopologyError
from bisection.core.verdicts import Verdict
from bisection.kernels import adapters, results
from bisection.kernels.results import ResultError
from bisection.runs.model import RunVerdict, TestResult
from bisection.store.database import Session
from bisection.store.marks import results_of

TIERS = ("triage", "interconnect")  # whose question is the network
# The checks that measure the network, and what of it.
CHECKS = {
    "noise": "interruptions and memory bandwidth of each core",
    "pairs": "each node, cable and switch",
    "network": "communication patterns",
    "congestion": "the impact of other jobs",
    "transpose": "the best transpose method",
}
# Faults of hosts that a run notes, and that a network's verdict must not pass over.
OF_HOSTS = (Code.ADAPTER_ERRORS, Code.ADAPTER_DIFFERS, Code.TCP_LOSSES, Code.SLOW_CLOCK)


class Grade(str, Enum):
    """Whether a network can be taken over."""

    GO = "go"
    LOOK = "look"  # something must be looked at first
    NO_GO = "no-go"

    __str__ = str.__str__
    __format__ = str.__format__


@dataclass
class Finding:
    """What speaks against a network."""

    grade: Grade
    reason: Reason


@dataclass
class Interconnect:
    """What a run says of its network."""

    blames: "Blames" = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)  # the worst first
    levels: list[Row] = field(default_factory=list)  # beside the sessions before
    networks: dict[str, str] = field(default_factory=dict)  # partition -> adapters that carried
    unmeasured: list[Reason] = field(default_factory=list)

    @property
    def grade(self) -> Grade:
        """That of the worst finding."""
        grades = [finding.grade for finding in self.findings]
        return next((g for g in (Grade.NO_GO, Grade.LOOK) if g in grades), Grade.GO)


# ---- components ----


Blames = list[tuple[TestResult, Blame]]  # of each launch of `pairs`


def accuse(run: RunVerdict, home: Path, before: Sequence[Session] = ()) -> Blames:
    """Blames components for slow pairs, and fails the test that measured them.

    Args:
        run: a run whose files are kept.
        home: the folder of everything that is generated.
        before: earlier sessions of its kind, oldest first; their results folders may be gone.
    """
    blames: Blames = []
    nights = results_of(home, {session.uuid for session in before}) if before else {}
    earlier = [nights[session.uuid] for session in before if session.uuid in nights]
    for case in run.judged:
        accused = case.reason is not None and case.reason.code == Code.BAD_COMPONENTS
        if case.kernel != pairs.KERNEL or not (case.verdict == Verdict.PASS or accused):
            continue
        try:
            matrix = read(kept(case))
        except ResultError as error:
            case.verdict, case.reason = Verdict.NOT_MEASURED, error.reason
            continue
        past = [_read_earlier(folder, case) for folder in earlier]
        judged = blame.judge(matrix, [night for night in past if night is not None])
        blames.append((case, judged))
        if judged.bad:
            parts = [component(part).values for part in judged.bad]
            case.verdict = Verdict.FAIL
            case.reason = Reason.of(Code.BAD_COMPONENTS, components=parts)
    return blames


def component(part: BadComponent) -> Reason:
    """A component as a reason."""
    return Reason.of(Code.BAD_COMPONENT, **{**asdict(part), "part": part.part.value})


def kept(case: TestResult) -> Path:
    """The result file of a test's launch in the results folder."""
    return (paths.ROOT / case.files).with_name(Path(case.files).name.removesuffix("*") + "json")


def read(path: Path) -> Matrix:
    """The matrix of a launch whose files are kept, with its switches.

    Raises:
        ResultError: as of bisection.analysis.pairs.read.
    """
    base = str(path).removesuffix("json")
    matrix = pairs.read(path, f"{base}pairs")
    try:
        return matrix.placed(topology.parse(Path(f"{base}topology").read_text()))
    except (OSError, TopologyError):
        return matrix


def _read_earlier(folder: Path, case: TestResult) -> Matrix | None:
    """The matrix of the same launch of an earlier session; None if it has none."""
    try:
        return read(Path(folder, "kernels", kept(case).name))
    except ResultError:
        return None


# ---- the verdict ----


def judge(run: RunVerdict, blames: Blames, comparison: Comparison | None) -> Interconnect | None:
    """The network by a run; None if the run asked another question.

    Args:
        run: after `accuse`.
        blames: what `accuse` returned.
        comparison: of the run with sessions of the network before.
    """
    if run.request.tier not in TIERS and not blames:
        return None
    rows = [row for row in comparison.rows if row.check in CHECKS] if comparison else []
    network = Interconnect(
        blames=blames,
        levels=[row for row in rows if row.check != "transpose" and row.metric not in UNSTABLE],
        networks=_networks(run),
        unmeasured=list(_unmeasured(run, blames)),
    )
    order = (Grade.NO_GO, Grade.LOOK)
    findings = [*_of_blames(network.blames), *_of_run(run), *_of_levels(rows), *_of_rates(blames)]
    network.findings = sorted(findings, key=lambda finding: order.index(finding.grade))
    return network


UNSTABLE = ("time", "time_min", "time_p99", "suspects", "suspect_pairs")  # of `pairs`


def _of_blames(blames: Blames) -> Iterator[Finding]:
    for _, judged in blames:
        yield from (Finding(Grade.NO_GO, component(part)) for part in judged.bad)
        yield from (Finding(Grade.LOOK, component(part)) for part in judged.suspects)
        for part in judged.worse:
            reason = component(part)
            yield Finding(Grade.LOOK, Reason.of(Code.COMPONENT_DEGRADED, component=reason.values))


def _of_run(run: RunVerdict) -> Iterator[Finding]:
    seen = set()
    for case in run.bad:
        reason = case.reason or Reason.of(Code.TEXT)
        if case.follows or reason.code == Code.BAD_COMPONENTS or reason in seen:
            continue
        seen.add(reason)
        failed = case.verdict == Verdict.FAIL
        where = Reason.of(Code.LAUNCH_BAD, launch=case.group, reason=reason)
        yield Finding(Grade.NO_GO if failed else Grade.LOOK, where)
    for failure in run.failures:
        yield Finding(Grade.NO_GO, failure)
    for remark in run.remarks:
        if remark.code in OF_HOSTS:
            yield Finding(Grade.LOOK, remark)


def _of_levels(rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        if row.verdict == Verdict.REGRESSED:
            yield Finding(Grade.NO_GO, Reason.of(Code.LEVEL_WORSE, change=row.change))


def _of_rates(blames: Blames) -> Iterator[Finding]:
    """Bandwidths of pairs that are far below the rate of the adapters that carried them."""
    for case, judged in blames:
        level = next((k.levels for k in judged.kinds if k.kind.name == "bandwidth"), [])
        rate = _rate(case)
        if not level or not rate:
            continue
        share = level[0].value / rate
        if share < LIMITS.adapter_share:
            values = {"bandwidth": level[0].value, "rate": rate, "share": share}
            yield Finding(Grade.LOOK, Reason.of(Code.BELOW_ADAPTER, **values))


def _rate(case: TestResult) -> float:
    """The rate of a node's adapters that carried messages, B/s; 0 where it is unknown."""
    result = results.load(kept(case), pairs.KERNEL)
    carried = {name for name, _ in adapters.carriers(result)}
    first = next(iter(result.get("adapters") or []), {"list": []})
    rates = [a["rate"] for a in first["list"] if adapters.device(a) in carried]
    return sum(rates) * 1e9 / 8 if rates and all(rates) else 0.0


def _networks(run: RunVerdict) -> dict[str, str]:
    return {
        f"{case.system}:{case.partition}": case.facts["network"]
        for case in run.cases
        if case.facts.get("network")
    }


def _unmeasured(run: RunVerdict, blames: Blames) -> Iterator[Reason]:
    """What of the network was not measured, or measured and not judged, and why."""
    for check, part in CHECKS.items():
        cases = [case for case in run.judged if case.check == check]
        if any(run.outcome(case) in (Verdict.PASS, Verdict.FAIL) for case in cases):
            continue
        why = next((case.reason for case in cases if case.reason), None)
        yield Reason.of(Code.PART_UNMEASURED, check=check, part=part, why=why)
    for case, judged in blames:
        for kind in judged.kinds:
            if kind.withheld:
                values = {"launch": case.group, "kind": kind.kind.name, "why": kind.withheld}
                yield Reason.of(Code.KIND_WITHHELD, **values)
