"""The report as Markdown, JUnit, Prometheus, JSON, and a list of bad nodes."""

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from bisection.analysis.model import Comparison, OddNode, Row, Series
from bisection.core.format import amount, finite, interval, plain, short, times, utc
from bisection.core.reasons import MACHINE_FAULTS, Code, Reason
from bisection.core.verdicts import COMPARED, Verdict
from bisection.report import words
from bisection.report.clauses import clause
from bisection.report.model import STATES, Report, exit_code, headline, worst_first
from bisection.report.run import sentence
from bisection.report.slower import slower_lines
from bisection.report.tables import (
    Table,
    case_name,
    changes_table,
    failures_table,
    points_table,
    rows_table,
    sessions_table,
    suspects_table,
)
from bisection.runs.model import RunVerdict, TestResult

# ---- Markdown ----


def markdown(report: Report) -> str:
    """The report as Markdown, for a summary page of CI or a mail."""
    state, text = headline(report)
    lines = [f"# {_md(report.title)}", "", f"**{STATES[state]} {_md(text)}**", ""]
    comparison = report.comparison
    lines += [f"{_md(sentence(report.run))}\n"] if report.run else []
    slower = slower_lines(report.run) if report.run else []
    lines += ["```", *map(plain, slower), "```", ""] if slower else []
    if comparison:
        lines += _md_comparison(comparison)
    if report.history:
        lines += ["## Change points", "", *_md_table(points_table(report.history)), ""]
    if comparison and comparison.suspects:
        lines += ["## Suspect nodes", "", *_md_table(suspects_table(comparison.suspects)), ""]
    odd = [(pairs.title, words.named(one)) for pairs in report.pairs for one in pairs.suspects]
    lines += [f"* {_md(title)}: {_md(text)}" for title, text in odd]
    lines += [""] if odd else []
    if report.failures:
        lines += ["## Failed and not measured", "", *_md_table(failures_table(report.run)), ""]
    lines.append(f"Made {utc(report.made)}.")
    return "\n".join(lines) + "\n"


def _md_comparison(comparison: Comparison) -> list[str]:
    lines = [f"{_md(words.sentence(comparison))}\n"]
    if comparison.unsafe:
        lines += [f"> **Not to be trusted:** {_md(words.unsafe(comparison))}", ""]
    lines += [f"* {_md(clause(advice))}" for advice in comparison.advice]
    if comparison.rerun:
        lines.append(f"* rerun: {_md_code(comparison.rerun)}")
    lines += ["", "## Compared", "", *_md_table(sessions_table(comparison)), ""]
    lines += ["## What changed", ""]
    if comparison.changes:
        lines += [*_md_table(changes_table(comparison.changes)), ""]
    else:
        lines += ["Nothing that is recorded.", ""]
    counted = [f"{comparison.count(verdict)} {verdict}" for verdict in COMPARED]
    lines += ["## Rows", "", ", ".join(counted) + ".", ""]
    listed = [row for row in comparison.rows if row.verdict != Verdict.UNCHANGED]
    if listed:
        lines += [*_md_table(rows_table(listed, 50)), ""]
    return lines


def _md_table(table: Table) -> list[str]:
    rules = ["---:" if kind == "num" else "---" for kind in table.kinds]
    code = [kind in ("code", "command") for kind in table.kinds]
    lines = [f"| {' | '.join(table.head)} |", f"| {' | '.join(rules)} |"]
    for row in table.rows:
        cells = [
            _md_code(cell).replace("|", "\\|") if is_code else _md(cell)
            for cell, is_code in zip(row, code, strict=True)
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines + (["", table.note] if table.note else [])


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
Entry = tuple[str, str, Verdict, str]  # class, name, verdict, message


def junit(report: Report) -> str:
    """The report as JUnit XML: regressed is a failure, not measured and missing are errors."""
    rows = worst_first(report.comparison.rows) if report.comparison else []
    entries = [(f"{r.check}.{r.place}", r.label, r.verdict, _row_message(r)) for r in rows]
    return _junit("bisection report", [*entries, *map(_entry, report.failures)])


def junit_of_run(verdict: RunVerdict) -> str:
    """The verdict on a run as JUnit XML: failed is a failure, not measured an error."""
    entries = [_entry(c) for c in verdict.cases if not c.fixture or c in verdict.bad]
    for kind, reasons in (
        (Verdict.NOT_MEASURED, verdict.troubles),
        (Verdict.FAIL, verdict.failures),
        (Verdict.REGRESSED, verdict.slower),
        (Verdict.NOT_MEASURED, verdict.suspects),
    ):
        texts = map(clause, reasons)
        entries += [("bisection.run", text, kind, text) for text in texts]
    return _junit("bisection", entries, time=f"{verdict.seconds:.3f}")


def _entry(case: TestResult) -> Entry:
    message = clause(case.reason) or "no cause is recorded"
    return f"{case.check or 'build'}.{case.place}", case_name(case), case.verdict, message


def _junit(suite_name: str, entries: Iterable[Entry], **attributes: str) -> str:
    entries = list(entries)
    counted = Counter(TAGS.get(verdict) for _, _, verdict, _ in entries)
    suite = ET.Element(
        "testsuite",
        name=suite_name,
        tests=str(len(entries)),
        failures=str(counted["failure"]),
        errors=str(counted["error"]),
        skipped=str(counted["skipped"]),
        **attributes,
    )
    for where, name, verdict, message in entries:
        test = ET.SubElement(suite, "testcase", classname=plain(where), name=plain(name))
        if tag := TAGS.get(verdict):
            ET.SubElement(test, tag, message=plain(message))
    return ET.tostring(suite, encoding="unicode", xml_declaration=True)


def _row_message(row: Row) -> str:
    """Verdict, both values and their ratio in one line."""
    text = f"{row.verdict}: {amount(row.before.median, row.unit)} before, "
    text += f"{amount(row.after.median, row.unit)} after"
    if finite(row.ratio):
        text += f", ratio {times(row.ratio)} {interval(row.low, row.high)}".rstrip()
    why = words.why(row)
    return f"{text}; {why}" if why else text


# ---- Prometheus ----

LABELS = ["system", "partition", "environ", "check", "case", "layout", "method", "metric"]


def prometheus(report: Report) -> str:
    """Gauges for the textfile collector of Prometheus's node exporter."""
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    registry = CollectorRegistry()

    def gauge(
        name: str, text: str, value: float | None = None, labels: Iterable[str] = ()
    ) -> Gauge:
        new = Gauge(f"bisection_{name}", text, labels, registry=registry)
        if value is not None:
            new.set(value)
        return new

    gauge(
        "exit_code", "0 passed, 1 failed, 3 not measured, 4 slower than before", exit_code(report)
    )
    if finite(report.made):
        gauge("report_made_seconds", "Unix time at which the report was made", report.made)
    failed = gauge("failed_cases", "Cases that failed or were not measured", None, ["verdict"])
    counted = Counter(case.verdict for case in report.failures)
    for verdict in (Verdict.FAIL, Verdict.NOT_MEASURED):
        failed.labels(verdict.value).set(counted[verdict])
    if report.comparison:
        _gauges_of_comparison(report.comparison, gauge)
    return generate_latest(registry).decode()


def _gauges_of_comparison(comparison: Comparison, gauge: Callable[..., Any]) -> None:
    start = gauge("session_start_seconds", "Unix time of the newest session", None, ["side"])
    for side, sessions in (("before", comparison.before), ("after", comparison.after)):
        starts = [s["start"] for s in sessions if finite(s.get("start"))]
        if starts:
            start.labels(side).set(max(starts))
    counts = gauge("verdicts", "Rows of the comparison by verdict", None, ["verdict"])
    for verdict in COMPARED:
        counts.labels(verdict.value).set(comparison.count(verdict))
    gauge("unsafe", "1 if the verdicts are not to be trusted", int(bool(comparison.unsafe)))
    if finite(comparison.expected):
        gauge("expected_ratio", "Performance that the change should give", comparison.expected)
    suspects = gauge("suspect_node_ratio", "Cost on it over elsewhere", None, ["node", "partition"])
    for suspect in comparison.suspects:
        if finite(suspect.ratio):
            suspects.labels(plain(suspect.node), plain(suspect.where)).set(suspect.ratio)
    ratios = {
        name: gauge(name, text, None, LABELS)
        for name, text in (
            ("ratio", "After over before, of values as measured"),
            ("ratio_low", "Lower end of the ratio's interval"),
            ("ratio_high", "Upper end of the ratio's interval"),
        )
    }
    verdicts = gauge("verdict", "1 for the verdict on the row", None, [*LABELS, "verdict"])
    for row in comparison.rows:
        labels = [plain(value) for value in row.key]
        for name, value in (("ratio", row.ratio), ("ratio_low", row.low), ("ratio_high", row.high)):
            if finite(value):
                ratios[name].labels(*labels).set(value)
        verdicts.labels(*labels, row.verdict.value).set(1)


# ---- nodes ----


def nodecheck(report: Report) -> str:
    """A line per suspect node: its name and why, as health checks and `scontrol update
    nodename=NODE reason=WHY` take them; empty if there is none."""
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
    for suspect in report.comparison.suspects if report.comparison else []:
        yield suspect.node, f"{words.suspected(suspect)}, in {suspect.where}"
    for pairs in report.pairs:
        for odd in pairs.suspects:
            if isinstance(odd, OddNode):  # of a path, no single node is accused
                yield odd.node, f"{pairs.title}: {words.suspected(odd)}"
    for case in report.failures:
        for host in _accused(case):
            yield host, f"{case_name(case)}: {clause(case.reason)}"


def _accused(case: TestResult) -> list[str]:
    """The hosts of a test that its reason names: where a fault of the machine was, or where ranks
    were placed wrongly."""
    reason = case.reason
    if reason is None or reason.code not in (*MACHINE_FAULTS, Code.MISPLACED):
        return []
    named = {reason["host"], reason["nodes"], *(node for node, _ in reason["down"] or ())}
    named |= {seat.get("host") for seat in reason["seats"] or ()}
    return [host for host in case.hosts if host in named]


def _for_shell(text: str) -> str:
    """On one line, without what a shell would take for its own."""
    return " ".join(re.sub(r"[\"'`$\\]", "", plain(text)).split())


# ---- JSON: a comparison as a file of its own, and the data in a page ----


def comparison_as_json(comparison: Comparison) -> dict[str, Any]:
    """A comparison, its reasons as codes with values and in words."""
    return {**_head(comparison), "rows": [_row(row) for row in comparison.rows]}


def _head(comparison: Comparison) -> dict[str, Any]:
    """A comparison without its rows."""
    return {
        "before": comparison.before,
        "after": comparison.after,
        "aa": comparison.aa,
        "sentence": words.sentence(comparison),
        "advice": list(map(clause, comparison.advice)),
        "unsafe": words.unsafe(comparison),
        "reasons": {
            name: [reason.as_dict() for reason in reasons]
            for name, reasons in (("advice", comparison.advice), ("unsafe", comparison.unsafe))
        },
        "changes": [asdict(change) for change in comparison.changes],
        "suspects": [{**asdict(s), "why": words.suspected(s)} for s in comparison.suspects],
        "expected": comparison.expected,
        "rerun": comparison.rerun,
        "exit_code": comparison.exit_code,
        "limits": asdict(comparison.limits),
    }


def _row(row: Row) -> dict[str, Any]:
    fields = {name: value for name, value in vars(row).items() if name != "rulings"}
    sides = {"before": asdict(row.before), "after": asdict(row.after)}
    reasons = {name: _reason(getattr(row, name)) for name in ("reason", "explained")}
    rulings = [[verdict, _reason(reason)] for verdict, reason in row.rulings]
    return {**fields, **sides, **reasons, "rulings": rulings, "why": words.why(row)}


def _reason(reason: Reason | None) -> dict[str, Any] | None:
    return reason.as_dict() if reason else None


# ---- in a page ----


def embedded(report: Report, budget: int) -> tuple[str, str]:
    """A report as JSON that is safe in a script element.

    Args:
        report: the report.
        budget: bytes that there is room for.

    Returns:
        The JSON, and a sentence on what is left out.
    """
    comparison = report.comparison
    outcome = sentence(report.run) if report.run else ""
    head = {"title": report.title, "made": report.made, "outcome": outcome}
    if comparison:
        head |= _head(comparison)
    rows = worst_first(comparison.rows) if comparison else []
    lists: dict[str, tuple[int, Iterable[Any]]] = {
        "failures": (len(report.failures), map(_failure, report.failures)),
        "rows": (len(rows), map(_row, rows)),
        "history": (len(report.history), map(asdict, report.history)),
        "pairs": (len(report.pairs), map(asdict, report.pairs)),
        "latest": (len(report.cases), map(_measured, report.cases)),
        "series": (len(report.series), map(_rounded, report.series)),
    }
    text = safe_json(head)
    if len(text) > budget:
        text = safe_json({"title": short(report.title), "made": report.made})
    budget -= len(text) + 200
    parts, left_out = [text[:-1]], []
    for name, (count, items) in lists.items():
        kept, budget = _within(items, budget - len(name) - 8)
        parts.append(f',"{name}":[{",".join(kept)}]')
        if len(kept) < count:
            left_out.append(f"{len(kept):,} of {count:,} {name}")
    note = f"To stay small it holds {', '.join(left_out)}." if left_out else ""
    return "".join(parts) + "}", note


def _within(items: Iterable[Any], budget: int) -> tuple[list[str], int]:
    """The items as JSON as long as there is room, and the room that is left."""
    kept = []
    for item in items:
        text = safe_json(item)
        if len(text) + 1 > budget:
            break
        kept.append(text)
        budget -= len(text) + 1
    return kept, budget


def _failure(case: TestResult) -> dict[str, Any]:
    return {**_measured(case), "hosts": case.hosts, "files": case.files, "test": case.name}


def _measured(case: TestResult) -> dict[str, Any]:
    """A test without what is only of use to the run."""
    names = "system partition environ check case layout geometry method verdict".split()
    kept = {name: value for name in names if (value := getattr(case, name))}
    kept |= {"cause": clause(case.reason), "reason": _reason(case.reason)}
    metrics = {m.name: [_digits(m.value), m.unit] for m in case.metrics}
    return {name: value for name, value in kept.items() if value} | {"metrics": metrics}


def _rounded(series: Series) -> dict[str, Any]:
    fields = asdict(series)
    fields["times"] = [round(t) if finite(t) else None for t in series.times]
    fields["values"] = [_digits(v) for v in series.values]
    return fields


def _digits(value: Any) -> float | None:
    """As many digits as a measurement has, and no more."""
    return float(f"{value:.5g}") if finite(value) else None


def safe_json(value: Any) -> str:
    """JSON in ASCII, without what would end a script element, and null for what is no number."""
    text = json.dumps(
        _null(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"), default=str
    )
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _null(value: Any) -> Any:
    """The same with null for numbers that JSON does not have."""
    if isinstance(value, float):
        return value if finite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _null(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, Iterator)):
        return [_null(item) for item in value]
    return value
