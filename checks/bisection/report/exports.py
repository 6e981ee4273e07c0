"""The report as Markdown, JUnit, Prometheus, and a list of bad nodes."""

import re
import statistics
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any, NamedTuple

from bisection.analysis.model import Comparison, Event, Row
from bisection.analysis.outlying import slower
from bisection.analysis.suspicions import Part
from bisection.core.format import amount, finite, interval, plain, short, times, utc
from bisection.core.identity import IDENTITY
from bisection.core.reasons import FAULTS_OF_HOSTS, MACHINE_FAULTS, SLOW_HOSTS, Code, clause
from bisection.core.reasons.network import slowness
from bisection.core.reasons.performance import longer
from bisection.core.topology import expanded
from bisection.core.units import UNITS, Unit
from bisection.core.verdicts import COMPARED, Exit, Verdict
from bisection.judge.alarms import counts
from bisection.report import words
from bisection.report.model import STATES, Report, exit_code, headline, worst_first
from bisection.report.run import counted
from bisection.report.sections import PURPOSE, opening, sections
from bisection.report.tables import Table, case_name
from bisection.runs.model import RunVerdict, TestResult

# ---- Markdown ----

MD_ROWS, MD_FOLDED = 50, 10  # of a table, and of one that a page folds


def markdown(report: Report) -> str:
    """The report as Markdown, for a summary page of CI or a mail."""
    start = opening(report)
    lines = [f"# {_md(report.title)}", "", f"**{STATES[start.state]} {_md(start.headline)}**", ""]
    lines += ["\n\n".join(map(_md, start.sentences)), ""] if start.sentences else []
    if start.unsafe:
        lines += [f"> **Not to be trusted:** {_md(start.unsafe)}", ""]
    lines += [f"* {_md(text)}" for text in start.advice]
    lines += [f"* rerun: {_md_code(start.rerun)}"] if start.rerun else []
    for section in sections(report):
        if section.shown:
            lines += ["", f"## {section.title}"]
            lines += ["", *(f"* {_md(note)}" for note in section.notes)] if section.notes else []
            for table in section.tables:
                lines += ["", *_md_table(table)]
    origin = f"{report.about}. " if report.about else ""
    lines += ["", _md(f"{origin}Made {utc(report.made)}."), "", _md(PURPOSE)]
    return "\n".join(lines) + "\n"


def _md_table(table: Table) -> list[str]:
    from tabulate import tabulate

    most = MD_FOLDED if table.folded else MD_ROWS
    cells = [
        [
            "<br>".join(
                _md_code(line).replace("|", "\\|")
                if kind in ("code", "command", "files")
                else _md(line)
                for line in cell.split("\n")
            )
            for cell, kind in zip(row, table.kinds, strict=True)
        ]
        for row in table.rows[:most]
    ]
    align = ["right" if kind == "num" else "global" for kind in table.kinds]
    text = tabulate(cells, table.head, "pipe", disable_numparse=True, stralign=None, colalign=align)
    left = len(table.rows) - most
    note = table.note or (f"{left} more rows are in report.html." if left > 0 else "")
    above = [f"{_md(table.title)}:"] if table.title else []
    above += [f"All rows: {_md(table.alike)}."] if table.alike else []
    below = [f"Note {n}: {_md(text)}" for n, text in enumerate(table.footnotes, 1)]
    below += [note] if note else []
    lines = [line for part in above for line in (part, "")]
    return [*lines, *text.splitlines(), *(line for part in below for line in ("", part))]


def _md(text: Any) -> str:
    """Text on one line that Markdown takes for nothing else."""
    text = " ".join(plain(text).split())
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_|\[\]#~])", r"\\\1", text)


def _md_code(text: Any) -> str:
    """Text as code, in a fence longer than any in it."""
    text = " ".join(plain(text).split())
    if not text:
        return ""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if len(fence) > 1 else ""
    return f"{fence}{pad}{text}{pad}{fence}"


# ---- JUnit ----

TAGS = {
    Verdict.REGRESSED: "failure",
    Verdict.FAIL: "failure",
    Verdict.NOT_MEASURED: "error",
    Verdict.MISSING: "error",
    Verdict.INCONCLUSIVE: "skipped",
    Verdict.NOT_APPLICABLE: "skipped",
    Verdict.KNOWN: "skipped",
}


class Entry(NamedTuple):
    """A test of JUnit."""

    suite: str
    place: str  # the class
    name: str
    verdict: Verdict
    message: str
    seconds: float = 0.0


def junit(report: Report) -> str:
    """The tests of the newest run as JUnit XML, then the metrics that were compared, unless the
    report is part of the run, whose verdict does not depend on them."""
    entries = _entries(report.run) if report.run else []
    if report.comparison and not report.of_run:
        entries += [
            Entry(
                f"comparison of {row.check} on {row.place}",
                f"comparison.{row.place}.{row.check}",
                row.label,
                _verdict_of(row),
                _row_message(row),
            )
            for row in worst_first(report.comparison.rows)
            if row.verdict != Verdict.INCONCLUSIVE or row.limit is not None or row.low is not None
        ]
    return _junit(entries, exit_code(report), headline(report)[1])


def _verdict_of(row: Row) -> Verdict:
    """A single session that is set beside earlier ones is as they are, or suspected of being
    slower."""
    if row.verdict != Verdict.INCONCLUSIVE or row.limit is None:
        return row.verdict
    return Verdict.NOT_MEASURED if slower([row]) else Verdict.UNCHANGED


def junit_of_run(verdict: RunVerdict) -> str:
    """The tests of a run as JUnit XML: a suite per partition and check; a failed test is a failure,
    one that was not measured an error, one that does not apply is skipped.

    A launch measures several tests: its duration is shared out evenly among them.
    """
    return _junit(_entries(verdict), verdict.exit_code, counted(verdict))


def _entries(verdict: RunVerdict) -> list[Entry]:
    followed = {case.follows for case in verdict.judged}
    members = Counter(case.launch for case in verdict.judged)
    launches = {case.launch: case.seconds for case in verdict.cases if case.is_launch}
    entries = []
    for case in verdict.cases:
        if case.fixture and (case not in verdict.bad or case.name in followed):
            continue  # its tests are counted instead
        seconds = case.seconds
        if not case.fixture and members[case.launch]:
            seconds += launches.get(case.launch, 0.0) / members[case.launch]
        check, kind = case.check or "build", verdict.outcome(case)
        name = case_name(case) + (f" run {case.run}" if case.run else "")
        message = clause(case.reason) or "no cause is recorded"
        place = f"{case.place}.{check}"
        entries.append(Entry(f"{check} on {case.place}", place, name, kind, message, seconds))
    for kind, reasons in (
        (Verdict.NOT_MEASURED, verdict.troubles),
        (Verdict.FAIL, verdict.failures),
        (Verdict.REGRESSED, verdict.slower),
        (Verdict.REGRESSED, verdict.slow_nodes),
        (Verdict.REGRESSED, verdict.alarms),
        (Verdict.NOT_MEASURED, verdict.outliers),
        (Verdict.NOT_MEASURED, verdict.suspect_nodes),
        (Verdict.REGRESSED, [reason for reason in verdict.network if reason["drift"]]),
        (Verdict.NOT_MEASURED, [reason for reason in verdict.network if not reason["drift"]]),
    ):
        texts = map(clause, reasons)
        entries += [Entry("the run", "bisection.run", text, kind, text) for text in texts]
    return entries


def _junit(entries: list[Entry], code: Exit, words: str) -> str:
    """JUnit XML, in which something was not measured if the exit code says so, and something fails
    whenever it is not 0."""
    verdict = Verdict.NOT_MEASURED if code == Exit.NOT_MEASURED else Verdict.FAIL
    if code and TAGS[verdict] not in {TAGS.get(entry.verdict) for entry in entries}:
        entries = [*entries, Entry("the verdict", "bisection.verdict", words, verdict, words)]
    root = ET.Element("testsuites", name="bisection", **_counts(entries))
    for name in dict.fromkeys(entry.suite for entry in entries):
        members = [entry for entry in entries if entry.suite == name]
        suite = ET.SubElement(root, "testsuite", name=plain(name), **_counts(members))
        for entry in members:
            names = {"classname": plain(entry.place), "name": plain(entry.name)}
            test = ET.SubElement(suite, "testcase", **names, time=f"{entry.seconds:.3f}")
            if tag := TAGS.get(entry.verdict):
                ET.SubElement(test, tag, message=plain(entry.message))
    return ET.tostring(root, encoding="unicode", xml_declaration=True)


def _counts(entries: list[Entry]) -> dict[str, str]:
    tags = Counter(TAGS.get(entry.verdict) for entry in entries)
    return {
        "tests": str(len(entries)),
        "failures": str(tags["failure"]),
        "errors": str(tags["error"]),
        "skipped": str(tags["skipped"]),
        "time": f"{sum(entry.seconds for entry in entries):.3f}",
    }


def _row_message(row: Row) -> str:
    """Verdict, both values and their ratio in one line."""
    text = f"{row.verdict}: {amount(row.before.median, row.unit)} before, "
    text += f"{amount(row.after.median, row.unit)} after"
    if finite(row.ratio):
        text += f", ratio {times(row.ratio)} {interval(row.low, row.high)}".rstrip()
    why = words.why(row)
    return f"{text}; {why}" if why else text


# ---- Prometheus ----

LABELS = (*IDENTITY, "metric")


class Gauges:
    """Gauges of Prometheus by name, made when a first value is set."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry

        self.registry = CollectorRegistry()
        self._gauges: dict[str, Any] = {}

    def set(self, name: str, text: str, value: Any, unit: str = "", **labels: str) -> None:
        """Sets a value, unless it is no number.

        Args:
            name: the gauge, without `bisection_` and the unit.
            text: its help.
            value: in `unit`.
            unit: a unit of ours, which becomes the name's end.
            labels: the labels, the same names for every value of a gauge.
        """
        from prometheus_client import Gauge

        if not finite(value):
            return
        if unit:
            spelt = re.sub(r"[^a-z0-9]+", "_", unit.lower().replace("/s", "_per_second"))
            known = UNITS.get(unit, Unit())
            base = known.base or spelt.strip("_") or "units"
            name, value = f"{name}_{base}", value * known.size
        if name not in self._gauges:
            self._gauges[name] = Gauge(f"bisection_{name}", text, labels, registry=self.registry)
        self._gauges[name].labels(*map(plain, labels.values())).set(value)


def prometheus(report: Report) -> str:
    """Gauges for the textfile collector of Prometheus's node exporter. Every one has the labels
    `system` and `partition`, so that systems on one host do not collide."""
    from prometheus_client import generate_latest

    gauges, run, comparison = Gauges(), report.run, report.comparison
    tests = [*(run.cases if run else []), *(comparison.rows if comparison else [])]
    places = dict.fromkeys((test.system, test.partition) for test in tests)
    for system, partition in places or [(run.request.system if run else "", "")]:
        place = {"system": system, "partition": partition}
        gauges.set(
            "exit_code", "Exit code of the run or the comparison", exit_code(report), **place
        )
        text = "Unix time at which the report was made"
        gauges.set("report_timestamp", text, report.made, "s", **place)
        if run:
            here = [c for c in run.judged if (c.system, c.partition) == (system, partition)]
            for verdict, count in _every(map(run.outcome, here), RUN_VERDICTS):
                gauges.set("tests", "Tests of the run", count, **place, verdict=verdict)
            _slower_gauges(gauges, run, place)
        if comparison:
            _place_gauges(gauges, comparison, place)
    for event in (event for event in report.history if event.alarm):
        _alarm_gauges(gauges, event)
    if run:
        _measured_gauges(gauges, run)
    for row in comparison.rows if comparison else []:
        _row_gauges(gauges, row, measured=run is None)
    for suspect in comparison.suspects if comparison else []:
        system, _, partition = suspect.where.partition(":")
        place = {"system": system, "partition": partition, "of": str(len(suspect.nodes))}
        text = "Time on a node over elsewhere; `of`: nodes that cannot be distinguished"
        for node in suspect.nodes:
            gauges.set("suspect_node", text, suspect.ratio, "ratio", **place, node=node)
    return generate_latest(gauges.registry).decode()


RUN_VERDICTS = [verdict for verdict in Verdict if verdict not in COMPARED] + [Verdict.NOT_MEASURED]


def _every(verdicts: Iterable[Verdict], kinds: Iterable[Verdict]) -> Iterator[tuple[Verdict, int]]:
    """Returns how often each kind occurs, those that do not occur too."""
    counts = Counter(verdicts)
    yield from ((kind, counts[kind]) for kind in kinds)


def _place_gauges(gauges: Gauges, comparison: Comparison, place: dict[str, str]) -> None:
    """Adds the gauges of a comparison for a partition."""
    for side, sessions in (("before", comparison.before), ("after", comparison.after)):
        starts = [s["start"] for s in sessions if finite(s.get("start"))]
        newest, text = max(starts, default=None), "Unix time of the newest session"
        gauges.set("session_start_timestamp", text, newest, "s", **place, side=side)
    here = (
        row.verdict
        for row in comparison.rows
        if (row.system, row.partition) == (place["system"], place["partition"])
    )
    for verdict, count in _every(here, COMPARED):
        gauges.set("metrics", "Metrics compared", count, **place, verdict=verdict)
    unsafe = int(bool(comparison.unsafe))
    gauges.set("unsafe", "1 if the verdicts are not to be trusted", unsafe, **place)
    expected = "Performance that the change should give"
    gauges.set("expected", expected, comparison.expected, "ratio", **place)


def _slower_gauges(gauges: Gauges, run: RunVerdict, place: dict[str, str]) -> None:
    """Adds the gauges of metrics that were slower than in all earlier sessions."""
    text = "Metrics slower than in all earlier sessions: in the retest, too, or outliers"
    for state, reasons in (("confirmed", run.slower), ("outlier", run.outliers)):
        here = [r for r in reasons if (r["system"], r["partition"]) == (*place.values(),)]
        gauges.set("slower_metrics", text, len(here), **place, state=state)


def _alarm_gauges(gauges: Gauges, event: Event) -> None:
    """Since when metrics of a partition are worse, and how many of each check."""
    place = {name: getattr(event, name) for name in ("system", "partition", "environ")}
    text = "Metrics worse since a session, of an alarm of the history"
    for check, (count, _) in counts(event).items():
        gauges.set("alarm_metrics", text, count, **place, check=check, session=event.session)
    since = "Unix time of the session since which metrics are worse"
    gauges.set("alarm_start_timestamp", since, event.at, "s", **place, session=event.session)


def _measured_gauges(gauges: Gauges, run: RunVerdict) -> None:
    """Adds the gauges of measured values, of several runs of a test the median, and of the
    limits."""
    metrics: dict[tuple[str, ...], list[Any]] = {}
    for case in run.judged:
        for metric in case.metrics:
            if finite(metric.value):
                metrics.setdefault((*case.identity, metric.name), []).append(metric)
    for key, values in metrics.items():
        labels, last = dict(zip(LABELS, key, strict=True)), values[-1]
        middle = statistics.median(metric.value for metric in values)
        gauges.set("measured", MEASURED, middle, last.unit, **labels)
        for name, text, value in (
            ("reference", "Reference of the metric", last.reference),
            ("lower_bound", "Lower limit of passing values", last.low),
            ("upper_bound", "Upper limit of passing values", last.high),
        ):
            gauges.set(name, text, value, last.unit, **labels)


MEASURED = "Measured value, the median of the newest session's runs"


def _row_gauges(gauges: Gauges, row: Row, measured: bool) -> None:
    """A metric of the comparison; with its newest value where the run's verdict is not known."""
    labels = dict(zip(LABELS, row.key, strict=True))
    if measured:
        gauges.set("measured", MEASURED, row.after.median, row.unit, **labels)
    earlier = "Median of the earlier sessions"
    gauges.set("earlier", earlier, row.before.median, row.unit, **labels)
    for name, text, value in (
        ("change", "After over before, of values as measured", row.ratio),
        ("change_lower", "Lower end of the change's confidence interval", row.low),
        ("change_upper", "Upper end of the change's confidence interval", row.high),
    ):
        gauges.set(name, text, value, "ratio", **labels)
    gauges.set("verdict", "1 for the verdict on the metric", 1, **labels, verdict=row.verdict)


# ---- nodes ----


def nodecheck(report: Report) -> str:
    """A line per bad node: its name and why, as health checks and `scontrol update nodename=NODE
    reason=WHY` take them; empty if there is none. Only confirmed ones: of several that are not told
    apart none, and none that looked slow once."""
    reasons: dict[str, list[str]] = {}
    for node, reason in _suspected(report):
        node = node.strip()
        if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", node):
            known = reasons.setdefault(node, [])
            text = _for_shell(reason)
            if text not in known:
                known.append(text)
    return "".join(
        f"{node} bisection: {short('; '.join(texts), 240)}\n"
        for node, texts in sorted(reasons.items())
    )


def _suspected(report: Report) -> Iterator[tuple[str, str]]:
    """(node, why), of nodes that results accuse by name."""
    run, suspects = report.run, report.comparison.suspects if report.comparison else []
    slow = [Code.SLOW_NODE(**asdict(suspect)) for suspect in suspects]
    slow += run.slow_nodes if run else []
    others = [r for r in run.remarks if r.code in FAULTS_OF_HOSTS - SLOW_HOSTS] if run else []
    for reason in [*slow, *others]:
        if reason.code != Code.SLOW_NODE:
            yield reason["host"], clause(reason)
        elif len(reason["nodes"]) == 1:
            yield reason["nodes"][0], f"{longer(**reason.values)}, in {reason['where']}"
    for component in (component for blame in report.pairs for component in blame.bad):
        if component.part == Part.NODE:  # of all else, no single node is accused
            yield component.names[0], slowness(asdict(component))
    for case in report.failures:
        if case.reason and case.reason.code == Code.BLOCKED:
            for node, why in case.reason["down"] or ():
                why = "no reason is given" if why in ("", "none") else why
                yield node, f"down or drained, so that a job was not started: {why}"
        for host in _accused(case):
            yield host, f"{case_name(case)}: {clause(case.reason)}"


def _accused(case: TestResult) -> list[str]:
    """The hosts of a test that its reason names: where a fault of the machine was, or where ranks
    were placed wrongly."""
    reason = case.reason
    if reason is None or reason.code not in (*MACHINE_FAULTS, Code.MISPLACED):
        return []
    named = {reason["host"]}
    named |= {host for _, host in reason["silent"] or ()}  # ranks that did not answer
    named |= {seat.get("host") for seat in reason["seats"] or ()}
    # By Slurm's names; of several nodes it is not known which one ran out of time or memory.
    nodes = [node for node, _ in reason["down"] or ()] or expanded(reason["nodes"] or "")
    if len(nodes) > 1 and reason.code != Code.NODE_FAIL:
        nodes = []
    hosts = {host: host if host in nodes else host.partition(".")[0] for host in case.record.hosts}
    accused = [host for host, node in hosts.items() if host in named or node in nodes]
    return accused + [node for node in nodes if node not in hosts.values()]


def _for_shell(text: str) -> str:
    """On one line, without what a shell would take for its own."""
    return " ".join(re.sub(r"[\"'`$\\]", "", plain(text)).split())
