"""What commands print with --json, and verdict.json: one class per document.

A document begins with its `schema` and `version`. `bisection schema` prints their JSON Schemas,
made of these classes: a comment at a field is its description there. A field that is added leaves
the version as it is. One that is removed, renamed or means another thing makes a new version.
"""

import argparse
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from bisection.analysis.model import Change, ChangePoint, Comparison, Event, Row, Undecided
from bisection.core import thresholds
from bisection.core.format import printable
from bisection.core.reasons.base import Reason, as_data, clause
from bisection.core.reasons.performance import SharedChange
from bisection.core.verdicts import Exit, Grade, Verdict
from bisection.judge import decision
from bisection.kernels.launch_record import LaunchRecord
from bisection.report import osu, words
from bisection.report.osu import OsuNumbers
from bisection.report.verdict_text import sentence
from bisection.runs.run_verdict import VERSION, Request, RunVerdict, TestResult
from bisection.sites.site_files import Defect
from bisection.store.database import Session

if TYPE_CHECKING:  # loads where a network was measured
    from interconnect.network_verdict import Interconnect


@dataclass(kw_only=True)
class Document:
    """A document: JSON with a published schema."""

    name: ClassVar[str]
    version: ClassVar[int] = 1
    exit_code: Exit = Exit.OK  # of the command

    def data(self) -> dict[str, Any]:
        """The document as JSON has it."""
        return {"schema": f"bisection-{self.name}", "version": self.version, **as_data(self)}

    def text(self) -> str:
        return json.dumps(self.data(), indent=1, allow_nan=False)


def add_json(parser: argparse.ArgumentParser, default: Any = False) -> None:
    """Declares --json, of a command that prints a document."""
    text = "print JSON in place of text; `bisection schema` prints its schema"
    parser.add_argument("--json", action="store_true", default=default, help=text)


def shown(options: argparse.Namespace, document: Document, lines: Iterable[str]) -> str:
    """A document as its command prints it: as JSON, or as these lines of text."""
    return document.text() if options.json else printable(lines)


# ---- the verdict on a run ----


@dataclass
class LimitedMetric:
    """A metric of a test with its limits."""

    name: str
    value: float | None
    unit: str
    low: float | None  # limits of passing values; null: none
    high: float | None
    verdict: str  # ReFrame's: pass, fail
    better: str  # lower, higher
    reference: float | None
    asserted: bool


@dataclass
class JudgedCase:
    """A test of a run."""

    test: str  # its name, as ReFrame displays it
    partition: str  # system:partition
    check: str
    case: str
    layout: str
    method: str
    environ: str
    hash: str  # for -n /hash
    run: int  # of several jobs of one test
    fixture: bool  # a build or a launch, which tests need
    launches: Sequence[str]  # names of those that it takes metrics from
    verdict: Verdict
    folders: Sequence[str]  # where ReFrame left its files
    files: str  # where they are kept: a pattern
    ran: bool  # false: the run stopped before it
    cause: str  # of the verdict, in words
    remark: str  # what a person should know though nothing is wrong
    reasons: dict[str, Reason]  # the same, `cause` and `remark`, with their values
    metrics: list[LimitedMetric]
    launch: int  # its place in `launches` of the document

    @classmethod
    def of(cls, case: TestResult, launch: int) -> "JudgedCase":
        names = "check case layout method environ hash run fixture launches verdict folders files"
        same: dict[str, Any] = {name: getattr(case, name) for name in [*names.split(), "ran"]}
        reasons = {"cause": case.reason, "remark": case.remark}
        return cls(
            test=case.name,
            partition=f"{case.system}:{case.partition}",
            **same,
            cause=clause(case.reason),
            remark=clause(case.remark),
            reasons={name: reason for name, reason in reasons.items() if reason},
            metrics=[LimitedMetric(**asdict(m), asserted=m.asserted) for m in case.metrics],
            launch=launch,
        )


@dataclass
class Spent:
    """What the launches of a run held."""

    core_hours: float
    node_hours: float


@dataclass(kw_only=True)
class VerdictDocument(Document, Request):
    """The verdict on a run: verdict.json of its results folder, and `bisection verdict --json`."""

    name = "verdict"
    version = VERSION

    verdict: str  # in one sentence
    session: str  # its identifier
    seconds: float
    price: Spent
    nights: int | None  # sessions that references may be made from; null: not known
    grade: Grade | None  # of the network; null: the tier asks another question
    interconnect: "Interconnect | None"
    osu: list[OsuNumbers]  # of each launch of OSU's micro-benchmarks
    troubles: list[str]  # why the run is not complete
    failures: list[str]  # what is wrong, but of no selected test
    slower: list[str]  # tests slower than in all earlier sessions, confirmed by the retest
    outliers: list[str]  # the same, but not retested
    slow_nodes: list[str]
    suspect_nodes: list[str]  # slow in the only launch that can show it
    worse_components: list[str]  # of the network, than in earlier sessions
    network: list[str]  # suspect components of the network
    alarms: list[str]  # of the history: worse since a session
    remarks: list[str]
    every_node: list[str]  # each node of a campaign over every node, the worst first
    reasons: dict[str, list[Reason]]  # the last eleven fields, with their values
    launches: list[LaunchRecord]
    cases: list[JudgedCase]
    installed: Sequence[str]  # by set-up: time, debian or python, name and version

    @classmethod
    def of(cls, verdict: RunVerdict) -> "VerdictDocument":
        kinds = {name: [*getattr(verdict, name)] for name in verdict.REASONS}
        said: dict[str, Any] = {name: [*map(str, reasons)] for name, reasons in kinds.items()}
        records = {id(case.record): case.record for case in verdict.cases}
        places = {key: place for place, key in enumerate(records)}
        return cls(
            exit_code=decision.of_run(verdict),
            verdict=sentence(verdict),
            session=verdict.session,
            seconds=verdict.seconds,
            price=Spent(*verdict.price),
            nights=verdict.nights,
            grade=verdict.interconnect.grade if verdict.interconnect else None,
            interconnect=verdict.interconnect,
            osu=[each.numbers for each in osu.measured(verdict)],
            **said,
            reasons=kinds,
            **vars(verdict.request),
            launches=[*records.values()],
            cases=[JudgedCase.of(case, places[id(case.record)]) for case in verdict.cases],
            installed=verdict.installed,
        )


# ---- a comparison ----


@dataclass
class NamedSession:
    """A session of a side of a comparison."""

    uuid: str
    start: float  # Unix time
    tags: dict[str, str]


@dataclass
class ComparedRow(Row):
    """One metric of one test on both sides. `ratio` is after over before, of values as measured."""

    why: str = ""  # why it has its verdict, in words


@dataclass(kw_only=True)
class ComparisonDocument(Document):
    """Two groups of sessions compared: `bisection compare --json`."""

    name = "comparison"

    sentence: str
    before: list[NamedSession]
    after: list[NamedSession]
    aa: list[NamedSession]  # of the A/A test
    rows: list[ComparedRow]  # the worst first
    findings: list[SharedChange]  # changes that many metrics share
    advice: list[str]  # what the verdicts lack
    unsafe: str  # why they cannot be trusted
    changes: list[Change]  # of hardware and software
    suspects: list[dict[str, Any]]  # slow nodes: reasons, with their words as `why`
    expected: float | None  # ratio of performance that an upgrade should give
    undecided: list[Undecided]  # the inconclusive rows, by reason
    limits: dict[str, float]  # the thresholds of Bisection
    fail_on: list[str]  # verdicts that are failures
    rerun: str  # a command
    reasons: dict[str, list[Reason]]  # `findings`, `advice` and `unsafe`, with their values

    @classmethod
    def of(
        cls, comparison: Comparison, fail_on: Collection[str] = decision.FAIL_ON
    ) -> "ComparisonDocument":
        """`fail_on`: what of the comparison is a failure."""
        sides = {name: getattr(comparison, name) for name in ("before", "after", "aa")}
        kinds = {name: getattr(comparison, name) for name in ("findings", "advice", "unsafe")}
        return cls(
            exit_code=decision.of_comparison(comparison, fail_on),
            sentence=words.sentence(comparison),
            **{name: [NamedSession(**s) for s in side] for name, side in sides.items()},
            rows=[ComparedRow(**vars(row), why=words.why(row)) for row in comparison.rows],
            findings=comparison.findings,
            advice=[*map(str, comparison.advice)],
            unsafe=words.unsafe(comparison),
            changes=comparison.changes,
            suspects=[{**s.as_dict(), "why": str(s)} for s in comparison.suspects],
            expected=comparison.expected,
            undecided=comparison.undecided,
            limits=thresholds.VALUES,
            fail_on=[*fail_on],
            rerun=words.rerun_of(comparison),
            reasons=kinds,
        )


# ---- a history ----


@dataclass
class HistoryEvent:
    """Changes of level in one direction that began together, or a drift, in one partition."""

    system: str
    partition: str
    environ: str
    session: str  # in which it most probably began
    at: float  # its start, Unix time
    first: float  # start of the first session in which it may have begun, Unix time
    last: float
    state: str  # worse, drift, suspected, back, accepted, better, ended
    alarm: bool
    is_new: bool  # an alarm by the newest session, and none before
    accepted: str  # why it is no alarm any more
    metrics: dict[str, tuple[int, int]]  # check -> metrics that changed, metrics that there are
    before: list[str]  # sessions on the level before
    after: list[str]  # all sessions since it began
    points: list[ChangePoint]  # the metrics that changed
    drift: float | None  # cost per night as a factor, if it is a drift
    nights: int  # of the drift
    changes: list[Change]  # of the environment, that began with it
    candidates: list[tuple[Change, float]]  # that may have; the odds

    @classmethod
    def of(cls, event: Event) -> "HistoryEvent":
        same = "system partition environ session at first last alarm is_new accepted metrics points"
        names = [*same.split(), "drift", "nights", "changes", "candidates"]
        return cls(
            **{name: getattr(event, name) for name in names},
            state=words.state(event),
            before=[session.uuid for session in event.before],
            after=[session.uuid for session in event.after],
        )


@dataclass(kw_only=True)
class HistoryDocument(Document):
    """Metrics that became slower or faster, and since when: `bisection history --json`."""

    name = "history"

    sessions: list[str]  # oldest first
    metrics: int  # that have a history
    too_short: int  # of these, with too few sessions to show a change of level
    events: list[HistoryEvent]
    notes: list[str]  # on sessions and metrics that do not count


# ---- stored sessions ----


@dataclass
class StoredSession:
    """A session of the store."""

    session: str  # its identifier
    start: float  # Unix time
    tags: Mapping[str, str]
    facts: Mapping[str, str]  # what it ran on and with
    excluded: str | None  # why its numbers are left out
    verdict: Verdict  # FAIL if any test failed, else "not measured" if any is missing, else pass
    jobs: Mapping[str, int]  # verdict -> jobs
    disturbed: float  # fraction of samples in which other processes took a core, the mean job
    # What of hardware and software differs from earlier sessions: name -> before, after.
    changed: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(kw_only=True)
class SessionsDocument(Document):
    """Stored sessions, the newest last: `bisection sessions --json`."""

    name = "sessions"

    sessions: list[StoredSession]
    forgotten: dict[str, str]  # identifier -> the day it was forgotten, YYYY-MM-DD


# ---- references ----


@dataclass
class ProposedReference:
    """A reference made from sessions."""

    partition: str  # system:partition
    environ: str
    check: str
    geometry: str
    case: str
    method: str
    metric: str
    unit: str
    bounds: list[float] | None  # reference, lower and upper limit relative to it; null: too wide
    spread: float  # standard deviation of the logarithm between sessions
    sessions: list[str]
    present: Sequence[Any] | None = None  # the entry of the file that stays


@dataclass(kw_only=True)
class ReferencesDocument(Document):
    """References made from stored sessions: `bisection references propose --json`."""

    name = "references"

    system: str
    file: str
    changes: bool  # whether the file would change, or did
    written: bool
    entries: list[ProposedReference]
    too_wide: list[ProposedReference]
    too_few: list[ProposedReference]  # of too few sessions
    not_widened: list[ProposedReference]
    kept: list[ProposedReference]  # as a comment in the file asks
    not_changed: dict[str, list[str]]  # an entry -> its tests without enough sessions
    not_measured: list[str]  # tests that no session has
    used: list[str]  # sessions
    left_out: dict[str, list[str]]  # reason -> sessions
    notes: list[str]


# ---- defects ----


@dataclass(kw_only=True)
class DoctorDocument(Document):
    """Defects of sites, checks, references and stored results: `bisection doctor --json`."""

    name = "doctor"

    defects: list[Defect]
    examined: dict[str, int]


def uuids(sessions: Iterable[Session]) -> list[str]:
    return [session.uuid for session in sessions]
