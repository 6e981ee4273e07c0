"""Rules on changes since the earlier sessions."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from bisection.analysis.model import Row
from bisection.analysis.outlying import faster
from bisection.core.identity import IDENTITY
from bisection.core.reasons import Code, Kind, Reason
from bisection.judge.evidence import Evidence
from bisection.runs.model import RunVerdict


def rule(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """Notes how many sessions there are, what changed since the last one, and what is faster."""
    verdict = replace(verdict, nights=evidence.nights)
    rows = evidence.comparison.rows if evidence.comparison else []
    changes = evidence.changes
    remarks = [Code.CHANGED(**asdict(c), since=evidence.since) for c in changes]
    if better := faster(rows):
        remarks.append(reason_of(Code.FASTER, better[0], metrics=len(better)))
    if moved := [row for row in rows if row.baseline_moved]:
        remarks.append(reason_of(Code.BASELINES_MOVED, moved[0], metrics=len(moved)))
    return verdict.noting(remarks=remarks)


def reason_of(code: Kind, row: Row, **more: Any) -> Reason:
    """The Reason of this code on a metric: its test, both sides, how many times slower it is."""
    names = (*IDENTITY, "metric", "unit")
    values: Mapping[str, Any] = {name: getattr(row, name) for name in names}
    sides = {"before": row.before.median, "after": row.seen, "factor": row.excess}
    return code(**values, **sides, sessions=row.before.sessions, **more)
