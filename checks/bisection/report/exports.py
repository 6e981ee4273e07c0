"""The report as Markdown, JUnit, Prometheus, and a list of bad nodes."""

import re
import xml.etree.ElementTree as ET
from collections import Counter

from bisection.core.format import amount, finite, interval, plain, plural, short, times, utc
from bisection.core.verdicts import (
    FAIL,
    INCONCLUSIVE,
    MISSING,
    NOT_MEASURED,
    REGRESSED,
    UNCHANGED,
    VERDICTS,
)
from bisection.report.model import (
    STATES,
    case_name,
    exit_code,
    headline,
    place,
    series_key,
    test_name,
    worst_first,
)
from bisection.report.tables import (
    changes_table,
    failures_table,
    points_table,
    rows_table,
    sessions_table,
    suspects_table,
)


def markdown(report):
    """The report as Markdown, for a summary page of CI or a mail."""
    state, words = headline(report)
    lines = [f"# {_md(report.title)}", "", f"**{STATES[state]} {_md(words)}**", ""]
    comparison = report.comparison
    lines += [f"{_md(text)}\n" for text in (report.outcome,) if text]
    if comparison:
        lines += _md_comparison(comparison)
    if report.history:
        lines += ["## Change points", "", *_md_table(points_table(report.history)), ""]
    if comparison and comparison.suspects:
        lines += ["## Suspect nodes", "", *_md_table(suspects_table(comparison.suspects)), ""]
    sentences = [(pairs.title, text) for pairs in report.pairs for text in pairs.suspects]
    lines += [f"* {_md(title)}: {_md(text)}" for title, text in sentences]
    lines += [""] if sentences else []
    if report.failures:
        lines += ["## Failed and not measured", "", *_md_table(failures_table(report.failures)), ""]
    lines.append(f"Made {utc(report.made)}.")
    return "\n".join(lines) + "\n"


def _md_comparison(comparison):
    lines = [f"{_md(comparison.sentence)}\n"] if comparison.sentence else []
    if comparison.unsafe:
        lines += [f"> **Not to be trusted:** {_md(comparison.unsafe)}", ""]
    lines += [f"* {_md(text)}" for text in comparison.advice]
    if comparison.rerun:
        lines.append(f"* again: {_md_code(comparison.rerun)}")
    lines += ["", "## Compared", "", *_md_table(sessions_table(comparison)), ""]
    lines += ["## What changed", ""]
    if comparison.changes:
        lines += [*_md_table(changes_table(comparison.changes)), ""]
    else:
        lines += ["Nothing that is recorded.", ""]
    counted = [f"{comparison.count(word)} {word}" for word in VERDICTS]
    lines += ["## Rows", "", ", ".join(counted) + ".", ""]
    told = [row for row in comparison.rows if row.verdict != UNCHANGED]
    if told:
        lines += [*_md_table(rows_table(told, 50)), ""]
    return lines


def _md_table(table):
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


def _md(text):
    """Text on one line that Markdown takes for nothing else."""
    text = " ".join(plain(text).split())
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_|\[\]#~])", r"\\\1", text)


def _md_code(text):
    """Text as code, in a fence longer than any in it."""
    text = " ".join(plain(text).split())
    if not text:
        return ""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if len(fence) > 1 else ""
    return f"{fence}{pad}{text}{pad}{fence}"


TAGS = {
    REGRESSED: "failure",
    FAIL: "failure",
    NOT_MEASURED: "error",
    MISSING: "error",
    INCONCLUSIVE: "skipped",
}


def junit(report):
    """JUnit XML: regressed is a failure, not measured and missing are errors, inconclusive is
    skipped."""
    rows = worst_first(report.comparison.rows) if report.comparison else []
    found = [
        (f"{row.check}.{place(row)}", test_name(row), row.verdict, _row_message(row))
        for row in rows
    ]
    found += [
        (
            f"{case.get('check') or 'build'}.{case.get('partition')}.{case.get('environ')}",
            case.get("test") or case_name(case),
            case.get("verdict") or NOT_MEASURED,
            case.get("cause") or "no cause is recorded",
        )
        for case in report.failures
    ]
    counted = Counter(TAGS.get(verdict) for _, _, verdict, _ in found)
    suite = ET.Element(
        "testsuite",
        name="bisection report",
        tests=str(len(found)),
        failures=str(counted["failure"]),
        errors=str(counted["error"]),
        skipped=str(counted["skipped"]),
    )
    for where, name, verdict, message in found:
        test = ET.SubElement(suite, "testcase", classname=plain(where), name=plain(name))
        if tag := TAGS.get(verdict):
            ET.SubElement(test, tag, message=plain(message))
    return ET.tostring(suite, encoding="unicode", xml_declaration=True)


def _row_message(row):
    """Verdict, both values and their ratio in one line."""
    text = f"{row.verdict}: {amount(row.before.median, row.unit)} before, "
    text += f"{amount(row.after.median, row.unit)} after"
    if finite(row.ratio):
        text += f", ratio {times(row.ratio)} {interval(row.low, row.high)}".rstrip()
    return f"{text}; {row.why}" if row.why else text


LABELS = ["system", "partition", "environ", "check", "case", "layout", "method", "metric"]


def prometheus(report):
    """Gauges for the textfile collector of Prometheus's node exporter."""
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    registry = CollectorRegistry()

    def gauge(name, text, value=None, labels=()):
        made = Gauge(f"bisection_{name}", text, labels, registry=registry)
        if value is not None:
            made.set(value)
        return made

    gauge("exit_code", "0 if nothing regressed and all was measured", exit_code(report))
    if finite(report.made):
        gauge("report_made_seconds", "Unix time at which the report was made", report.made)
    failed = gauge("failed_cases", "Cases that failed or were not measured", None, ["verdict"])
    counted = Counter(case.get("verdict") for case in report.failures)
    for verdict in (FAIL, NOT_MEASURED):
        failed.labels(verdict).set(counted[verdict])
    if report.comparison:
        _gauges_of_comparison(report.comparison, gauge)
    return generate_latest(registry).decode()


def _gauges_of_comparison(comparison, gauge):
    start = gauge("session_start_seconds", "Unix time of the newest session", None, ["side"])
    for side, sessions in (("before", comparison.before), ("after", comparison.after)):
        starts = [s["start"] for s in sessions if finite(s.get("start"))]
        if starts:
            start.labels(side).set(max(starts))
    counts = gauge("verdicts", "Rows of the comparison by verdict", None, ["verdict"])
    for verdict in VERDICTS:
        counts.labels(verdict).set(comparison.count(verdict))
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
        labels = [plain(value) for value in series_key(row)]
        for name, value in (("ratio", row.ratio), ("ratio_low", row.low), ("ratio_high", row.high)):
            if finite(value):
                ratios[name].labels(*labels).set(value)
        verdicts.labels(*labels, row.verdict).set(1)


def nodecheck(report):
    """A line a suspect node: its name and why, as health checks and `scontrol update
    nodename=NODE reason=WHY` take them; empty if there is none."""
    reasons = {}
    for node, reason in _suspected(report):
        node = node.strip()
        if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", node):
            known = reasons.setdefault(node, [])
            text = _reason(reason)
            if text not in known:
                known.append(text)
    return "".join(
        f"{node} bisection: {short('; '.join(found), 240)}\n"
        for node, found in sorted(reasons.items())
    )


def _suspected(report):
    """(node, reason), of nodes that results accuse by name."""
    for suspect in report.comparison.suspects if report.comparison else []:
        text = f"{times(suspect.ratio)} times the cost of other nodes in {suspect.where}"
        yield suspect.node, f"{text}, {plural(suspect.jobs, 'job')}; {suspect.why}".rstrip("; ")
    for pairs in report.pairs:
        for sentence in pairs.suspects:
            named = [node for node in pairs.nodes if names(sentence, node)]
            if len(named) == 1:  # of two, the path between them is suspected
                yield named[0], sentence
    for case in report.failures:
        for host in case.get("hosts") or []:
            if names(case.get("cause") or "", str(host)):
                yield str(host), f"{case_name(case)}: {case['cause']}"


def names(sentence, node):
    """Whether `node` is a word of the sentence."""
    return bool(node) and bool(re.search(rf"(?<![\w.-]){re.escape(node)}(?![\w-])", sentence))


def _reason(text):
    """On one line, without what a shell would take for its own."""
    return " ".join(re.sub(r"[\"'`$\\]", "", plain(text)).split())
