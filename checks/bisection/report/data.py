"""The report as JSON: a comparison as a file of its own, and the data in a page."""

import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from bisection.analysis.model import Comparison, Event, Row, Series
from bisection.core.format import finite, short
from bisection.core.reasons import Reason, clause
from bisection.judge import alarms
from bisection.report import events, pairs, words
from bisection.report.model import Report, worst_first
from bisection.report.run import sentence
from bisection.runs.model import TestResult


def comparison_as_json(comparison: Comparison) -> dict[str, Any]:
    """A comparison, its reasons as codes with values and in words."""
    return {**_head(comparison), "rows": [_row(row) for row in comparison.rows]}


def _head(comparison: Comparison) -> dict[str, Any]:
    """A comparison without its rows."""
    fields = asdict(replace(comparison, rows=[]))
    del fields["rows"]
    reasons = {name: getattr(comparison, name) for name in ("findings", "advice", "unsafe")}
    return fields | {
        "sentence": words.sentence(comparison),
        "advice": list(map(clause, comparison.advice)),
        "unsafe": words.unsafe(comparison),
        "reasons": {name: [r.as_dict() for r in given] for name, given in reasons.items()},
        "suspects": [{**asdict(s), "why": words.suspected(s)} for s in comparison.suspects],
    }


def _row(row: Row) -> dict[str, Any]:
    fields = {name: value for name, value in vars(row).items() if name != "rulings"}
    sides = {"before": asdict(row.before), "after": asdict(row.after)}
    reasons = {
        name: _reason(getattr(row, name)) for name in ("reason", "explained", "cause", "states")
    }
    rulings = [[verdict, _reason(reason)] for verdict, reason in row.rulings]
    return {**fields, **sides, **reasons, "rulings": rulings, "why": words.why(row)}


def _reason(reason: Reason | None) -> dict[str, Any] | None:
    return reason.as_dict() if reason else None


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
    cases = sorted(report.cases, key=lambda case: case.reason is None)
    lists: dict[str, tuple[int, Iterable[Any]]] = {
        "rows": (len(rows), map(_row, rows)),
        "history": (len(report.history), map(_event, report.history)),
        "pairs": (len(report.pairs), map(pairs.as_data, report.pairs)),
        "latest": (len(cases), map(_measured, cases)),
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


def _event(event: Event) -> dict[str, Any]:
    """An event with its worst metrics."""
    return asdict(replace(event, points=alarms.worst_first(event.points)[: events.SHOWN]))


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


def _measured(case: TestResult) -> dict[str, Any]:
    """A test without what is only of use to the run."""
    names = "system partition environ check case layout method verdict".split()
    names += ["files", "name"] if case.reason else []
    kept = {name: value for name in names if (value := getattr(case, name))}
    kept |= {"geometry": case.record.geometry, "hosts": [*case.record.hosts]}
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
    """JSON in ASCII without what would end a script element, and null for what is no number."""
    from jinja2.utils import htmlsafe_json_dumps

    text = json.dumps(value, default=str)
    known = json.loads(text, parse_constant=lambda name: None)  # NaN, Infinity
    return str(htmlsafe_json_dumps(known, separators=(",", ":")))
