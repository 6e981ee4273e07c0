"""The report as Markdown, JUnit, Prometheus, and a list of bad nodes."""

import math
import re
import statistics
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from bisection.analysis.model import Event, Row
from bisection.analysis.outlying import slower
from bisection.core.format import amount, finite, interval, plain, short, times, utc
from bisection.core.grouping import grouped
from bisection.core.identity import IDENTITY, TestId
from bisection.core.reasons import ADAPTER_FAULTS, MACHINE_FAULTS, MEMORY_FAULTS, REPORTED
from bisection.core.reasons.base import clause
from bisection.core.reasons.launches import Blocked, LaunchFault, Misplaced, NodeFail
from bisection.core.reasons.performance import SlowNode, WorseSince
from bisection.core.topology import expanded
from bisection.core.units import UNITS, Unit
from bisection.core.verdicts import COMPARED, Exit, Verdict
from bisection.judge import decision
from bisection.judge.alarms import by_check
from bisection.judge.decision import Weight
from bisection.report import words
from bisection.report.opening import opening
from bisection.report.report_data import STATES, Report, headline
from bisection.report.sections import PURPOSE, sections
from bisection.report.text_tables import TextTable, case_name
from bisection.runs.run_verdict import RunVerdict, TestResult

LABELS = (*IDENTITY, "metric")

# ---- Markdown ----

MD_ROWS, MD_FOLDED = 50, 10  # of a table, and of one that a page folds


def markdown(report: Report) -> str:
    """The report as Markdown, for a summary page of CI or a mail."""
    start = opening(report)
    lines = [f"# {_md(report.title)}", "", f"**{STATES[start.state]} {_md(start.headline)}**", ""]
    lines += ["\n\n".join(map(_md, start.sentences)), ""] if start.sentences else []
    if start.unsafe:
        lines += [f"> **Not to be trusted:** {_md(start.unsafe)}", ""]
    if start.since:
        lines += [f"**{_md(start.since)}**", "", *(f"* {_md(text)}" for text in start.news), ""]
    lines += ["**What to do**", ""] if start.steps else []
    lines += [
        f"* {_md(text)}" + f": {_md_code(command)}" * bool(command) for text, command in start.steps
    ]
    for section in sections(report):
        if section.shown:
            lines += ["", f"## {section.title}"]
            lines += ["", *(f"* {_md(note)}" for note in section.notes)] if section.notes else []
            for table in section.tables:
                lines += ["", *_md_table(table)]
    origin = f"{report.about}. " if report.about else ""
    lines += ["", _md(f"{origin}Made {utc(report.written)}."), "", _md(PURPOSE)]
    return "\n".join(lines) + "\n"


def _md_table(table: TextTable) -> list[str]:
    from tabulate import tabulate

    def cell(text: str, kind: str) -> str:
        code = kind in ("code", "command", "files")
        lines = (_md_code(t).replace("|", "\\|") if code else _md(t) for t in text.split("\n"))
        return "<br>".join(lines)

    most = MD_FOLDED if table.folded else MD_ROWS
    cells = [list(map(cell, row, table.kinds)) for row in table.rows[:most]]
    align = ["right" if kind == "num" else "global" for kind in table.kinds]
    text = tabulate(cells, table.head, "pipe", disable_numparse=True, stralign=None, colalign=align)
    left = len(table.rows) - most
    parts = [
        f"{_md(table.title)}:" if table.title else "",
        f"All rows: {_md(table.alike)}." if table.alike else "",
        text,
        table.note or (f"{left} more rows are in report.html." if left > 0 else ""),
    ]
    return "\n\n".join(filter(None, parts)).splitlines()


def _md(text: Any) -> str:
    """Text on one line that Markdown takes for nothing else."""
    text = " ".join(plain(text).split())
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_|\[\]#~])", r"\\\1", text)


def _md_code(text: Any) -> str:
    text = " ".join(plain(text).replace("`", "'").split())
    return text and f"`{text}`"


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


# What a finding about a run as a whole is.
KIND_OF = {
    Weight.WRONG: Verdict.FAIL,
    Weight.SLOWER: Verdict.REGRESSED,
    Weight.UNMEASURED: Verdict.NOT_MEASURED,
    Weight.DOUBT: Verdict.NOT_MEASURED,
}


class JunitTest(NamedTuple):
    """A test of JUnit."""

    suite: str
    place: str  # the class
    name: str
    verdict: Verdict
    message: str
    seconds: float = 0.0


def junit(report: Report) -> str:
    """The report as JUnit XML, in which something was not measured if the exit code says so, and
    something fails whenever it is not 0. A report that is part of a run has the tests of the run
    alone, whose verdict does not depend on the metrics that were compared."""
    entries = [*_tests(report.run)] if report.run else []
    entries += [] if report.of_run else _metrics(report.rows)
    code = report.exit_code
    entries += map(_alarm, report.alarms if code else ())
    verdict = Verdict.NOT_MEASURED if code == Exit.NOT_MEASURED else Verdict.FAIL
    if code and TAGS[verdict] not in {TAGS.get(entry.verdict) for entry in entries}:
        text = headline(report)[1]
        entries.append(JunitTest("the verdict", "bisection.verdict", text, verdict, text))
    root = ET.Element("testsuites", {"name": "bisection", **_counts(entries)})
    for name, members in grouped(entries, lambda entry: entry.suite).items():
        suite = ET.SubElement(root, "testsuite", {"name": plain(name), **_counts(members)})
        for entry in members:
            names = {"classname": plain(entry.place), "name": plain(entry.name)}
            names["time"] = f"{entry.seconds:.3f}"
            test = ET.SubElement(suite, "testcase", names)
            if tag := TAGS.get(entry.verdict):
                ET.SubElement(test, tag, message=plain(entry.message))
    return ET.tostring(root, encoding="unicode", xml_declaration=True)


def _tests(verdict: RunVerdict) -> Iterator[JunitTest]:
    """The tests of a run, then what is wrong with it as a whole. A launch measures several tests:
    its duration is shared out evenly among them."""
    followed, bad = {case.follows for case in verdict.judged}, set(map(id, verdict.bad))
    members = Counter(case.launch for case in verdict.judged)
    launches = {case.launch: case.seconds for case in verdict.cases if case.is_launch}
    for case in verdict.cases:
        if case.fixture and (id(case) not in bad or case.name in followed):
            continue  # its tests are counted instead
        shared = launches.get(case.launch, 0.0) / max(1, members[case.launch])
        seconds = case.seconds if case.fixture else shared
        check, kind = case.check or "build", verdict.outcome(case)
        name = case_name(case) + (f" run {case.run}" if case.run else "")
        message = clause(case.reason) or "no cause is recorded"
        place = f"{case.place}.{check}"
        yield JunitTest(f"{check} on {case.place}", place, name, kind, message, seconds)
    for name, weight in decision.OF_RUN.items():
        for text in map(str, getattr(verdict, name) if name != "alarms" else ()):
            yield JunitTest("the run", "bisection.run", text, KIND_OF[weight], text)


def _alarm(alarm: WorseSince) -> JunitTest:
    name = f"worse since session {alarm.session[:8]} on {alarm.where}"  # the same every night
    message = "; ".join([str(alarm), *map(": ".join, words.next_steps(alarm))])
    return JunitTest("the history", "bisection.history", name, Verdict.REGRESSED, message)


def _metrics(rows: Sequence[Row]) -> Iterator[JunitTest]:
    """The metrics of a comparison that were judged."""
    for row in rows:
        verdict = row.verdict
        if verdict == Verdict.INCONCLUSIVE and row.limit is not None:  # one session beside others
            verdict = Verdict.NOT_MEASURED if slower([row]) else Verdict.UNCHANGED
        elif verdict == Verdict.INCONCLUSIVE and row.low is None:
            continue
        text = f"{row.verdict}: {amount(row.before.median, row.unit)} before, "
        text += f"{amount(row.after.median, row.unit)} after"
        if finite(row.ratio):
            text += f", ratio {times(row.ratio)} {interval(row.low, row.high)}".rstrip()
        text = "; ".join(filter(None, (text, words.why(row))))
        suite, place = f"comparison of {row.check} on {row.place}", f"{row.place}.{row.check}"
        yield JunitTest(suite, f"comparison.{place}", row.label, verdict, text)


def _counts(entries: list[JunitTest]) -> dict[str, str]:
    tags = Counter(TAGS.get(entry.verdict) for entry in entries)
    names = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    counts = {name: str(tags[tag]) for name, tag in names.items()}
    seconds = sum(entry.seconds for entry in entries)
    return {"tests": str(len(entries)), **counts, "time": f"{seconds:.3f}"}


# ---- Prometheus ----

RUN_VERDICTS = [verdict for verdict in Verdict if verdict not in COMPARED] + [Verdict.NOT_MEASURED]
HELP = {
    "exit_code": "Exit code of the run or the comparison",
    "run_timestamp": "Unix time of the start of the run",
    "bad_node": "1 for a node that results accuse by name",
    "tests": "Tests of the run",
    "metrics": "Metrics compared",
    "slower_metrics": "Metrics slower than in all earlier sessions, confirmed by a retest or not",
    "alarms": "Events of the history since which metrics are worse, and that nobody accepted",
    "alarm_metrics": "Metrics worse since a session, of an alarm of the history",
    "alarm_start_timestamp": "Unix time of the session since which metrics are worse",
    "measured": "Time of a step, or a metric that has limits: the median of the session's runs",
    "allowance_used": "Part of the allowance: 0 at the better limit, 1 at the failing limit",
    "change": "After over before, of metrics that got slower or faster, as measured",
}
# name, without `bisection_` and the unit; value; its unit, one of ours; labels, the same names for
# every value of a gauge
Sample = tuple[str, Any, str, dict[str, str]]


def prometheus(report: Report) -> str:
    """Gauges for the textfile collector of Prometheus's node exporter. Every one has the labels
    `system` and `partition`, so that systems on one host do not collide."""
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    registry, gauges = CollectorRegistry(), {}
    for name, value, unit, labels in _samples(report):
        if not finite(value):
            continue
        known, full = UNITS.get(unit, Unit()), name
        if unit:
            spelt = re.sub(r"[^a-z0-9]+", "_", unit.lower().replace("/s", "_per_second"))
            full = f"{name}_{known.base or spelt.strip('_') or 'units'}"
        if full not in gauges:
            gauges[full] = Gauge(f"bisection_{full}", HELP[name], labels, registry=registry)
        gauges[full].labels(*map(plain, labels.values())).set(value * known.size)
    return generate_latest(registry).decode()


def _samples(report: Report) -> Iterator[Sample]:
    run, rows = report.run, report.rows
    judged, alarms = run.judged if run else [], [e for e in report.evidence.events if e.alarm]
    tests: list[TestId | Event] = [*judged, *rows, *alarms]
    places = dict.fromkeys((test.system, test.partition) for test in tests)
    nowhere = (run.request.system if run else "", "")
    system, partition = next(iter(places), nowhere)
    for node in bad_nodes(report):  # whose partition is not known
        partition = partition if len(places) == 1 else ""
        yield "bad_node", 1, "", {"system": system, "partition": partition, "node": node}
    for here in places or [nowhere]:
        place = dict(zip(("system", "partition"), here, strict=True))
        yield "exit_code", report.exit_code, "", place
        if run:
            yield "run_timestamp", run.started or math.nan, "s", place
            counts = Counter(run.outcome(c) for c in judged if (c.system, c.partition) == here)
            for verdict in RUN_VERDICTS:
                yield "tests", counts[verdict], "", {**place, "verdict": verdict}
            for state, reasons in (("confirmed", run.slower), ("outlier", run.outliers)):
                count = sum((r.system, r.partition) == here for r in reasons)
                yield "slower_metrics", count, "", {**place, "state": state}
        yield "alarms", sum((e.system, e.partition) == here for e in alarms), "", place
        if report.comparison:
            counts = Counter(r.verdict for r in rows if (r.system, r.partition) == here)
            for verdict in COMPARED:
                yield "metrics", counts[verdict], "", {**place, "verdict": verdict}
    for event in alarms:
        names = ("system", "partition", "environ", "session")
        labels = {name: getattr(event, name) for name in names}
        yield "alarm_start_timestamp", event.at, "s", labels
        for check, count, *_ in by_check(event):
            yield "alarm_metrics", count, "", {**labels, "check": check}
    measured = [case for case in judged if case.verdict != Verdict.NOT_MEASURED]
    pairs = [(case, metric) for case in measured for metric in case.metrics if finite(metric.value)]
    for key, members in grouped(pairs, lambda pair: (*pair[0].identity, pair[1].name)).items():
        labels, metrics = dict(zip(LABELS, key, strict=True)), [metric for _, metric in members]
        last = metrics[-1]
        if last.asserted or last.name == "time":  # 3,000 metrics are 1 MB, of which no panel asks
            yield "measured", statistics.median(m.value for m in metrics), last.unit, labels
        if None not in (last.low, last.high):
            used = statistics.median(metric.allowance_used for metric in metrics)
            yield "allowance_used", used, "ratio", labels
    for row in rows:
        if row.verdict in (Verdict.REGRESSED, Verdict.IMPROVED):
            yield "change", row.ratio, "ratio", dict(zip(LABELS, row.key, strict=True))


# ---- nodes ----

INTERCONNECT = "INTERCONNECT"  # in place of a reason's code: a component that is a node


def nodecheck(report: Report) -> str:
    """A line per bad node: its name and why, as health checks and `scontrol update nodename=NODE
    reason=WHY` take them; empty if there is none. Only confirmed ones: of several that are not told
    apart none, and none that looked slow once."""
    texts = {node: reason_line(whys) for node, whys in bad_nodes(report).items()}
    return "".join(f"{node} {text}\n" for node, text in texts.items())


def reason_line(whys: Sequence[tuple[str, str]]) -> str:
    """Why a node is bad, as a scheduler keeps it, of (code, why)."""
    return "bisection: " + short("; ".join(dict.fromkeys(why for _, why in whys)), 240)


def bad_nodes(report: Report) -> dict[str, list[tuple[str, str]]]:
    """The nodes that results accuse by name -> codes of the reasons, and why, in words on one line
    without what a shell would take for its own."""
    reasons: dict[str, list[tuple[str, str]]] = {}
    for node, code, reason in _accusations(report):
        if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", node.strip()):
            text = " ".join(re.sub(r"[\"'`$\\]", "", plain(reason)).split())
            reasons.setdefault(node.strip(), []).append((code, text))
    return dict(sorted(reasons.items()))


def _accusations(report: Report) -> Iterator[tuple[str, str, str]]:
    """(node, code of a reason, why)."""
    run = report.run or RunVerdict()
    others = [
        remark for remark in run.remarks if isinstance(remark, ADAPTER_FAULTS + MEMORY_FAULTS)
    ]
    for reason in [*report.suspects, *run.slow_nodes, *others]:
        if not isinstance(reason, SlowNode):
            yield reason.host, reason.code, str(reason)
        elif len(reason.nodes) == 1:
            yield reason.nodes[0], reason.code, f"{reason.longer}, in {reason.where}"
    for blame in report.evidence.blames:
        yield from ((node, INTERCONNECT, why) for node, why in blame.bad_nodes())
    for case in run.bad:
        if isinstance(case.reason, Blocked):
            for node, why in case.reason.down:
                why = "no reason is given" if why in ("", "none") else why
                text = f"down or drained, so that a job was not started: {why}"
                yield node, case.reason.code, text
        for host in _accused(case):
            yield host, getattr(case.reason, "code", ""), f"{case_name(case)}: {case.reason}"


def _accused(case: TestResult) -> list[str]:
    """The hosts of a test that its reason names: where a fault of the machine was, or where ranks
    were placed wrongly."""
    reason = case.reason
    accuses = isinstance(reason, (Misplaced, *MACHINE_FAULTS)) and not isinstance(reason, REPORTED)
    if not accuses or not isinstance(reason, LaunchFault):
        return []
    named, nodes = reason.accused, expanded(reason.nodes)
    if isinstance(reason, NodeFail):  # by Slurm's names
        nodes = [node for node, _ in reason.down] or nodes
    elif len(nodes) > 1:  # it is not known which one ran out of time or memory
        nodes = []
    hosts = {host: host if host in nodes else host.partition(".")[0] for host in case.record.hosts}
    accused = [host for host, node in hosts.items() if named & {host, node} or node in nodes]
    return accused + [node for node in nodes if node not in hosts.values()]
