"""What became of a finding of a paper, in English."""

from collections.abc import Mapping
from typing import Any

from bisection.core.format import number, plural
from bisection.core.reasons import Code

Values = Mapping[str, Any]
PARTS = 2  # that are named


def _off(v: Values) -> str:
    """alltoallv[48] / alltoallv[24] is 0.9, not >1; and 2 more."""
    parts = [f"{name} is {number(value)}, not {wanted}" for name, value, wanted in v["parts"]]
    more = f"; and {len(parts) - PARTS} more" if len(parts) > PARTS else ""
    return "; ".join(parts[:PARTS]) + more


def _unmeasured(v: Values) -> str:
    where = f"{v['kernel']} {v['case']} on {plural(v['cores'], 'core')} of {v['machine']}"
    return f"{v['parts']} of {v['of']} not measured, the first by {where}, {v['what']}"


def _lacks(v: Values) -> str:
    """What is lacking: not explained, where no change of the mechanism is known to show it."""
    if v["change"] is None:
        return v["mechanism"]
    if v["change"]:
        return f"true with {v['change']}: {v['mechanism']}"
    return f"not explained; perhaps: {v['mechanism']}"


FINDINGS = {
    Code.FINDING_OFF: _off,
    Code.FINDING_UNMEASURED: _unmeasured,
    Code.FINDING_LACKS: _lacks,
    Code.FINDING_MISSING: "needs {what}",
    Code.FINDING_SHOWN: "shown, though {mechanism}: mend findings.csv",
}
