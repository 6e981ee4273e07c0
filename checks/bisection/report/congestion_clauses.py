"""Clauses of what other traffic costs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bisection.core.format import times
from bisection.core.reasons import Code

Values = Mapping[str, Any]

AT = "{victim} under {aggressor} ({place})"


def factor(ratio: Sequence[float]) -> str:
    """A ratio with its interval: 1.48 [1.42, 1.55]."""
    value, low, high = ratio
    return f"{times(value)} [{times(low)}, {times(high)}]"


CONGESTION: dict[Code, str | Callable[[Values], str]] = {
    Code.CORES_NEEDED: "needs {needed} cores, a launch here has {cores}",
    Code.RANKS_NEEDED: "needs {needed} ranks per node, a launch here has {ranks}",
    Code.CONGESTED: lambda v: (
        f"{AT.format_map(v)} takes {factor(v['mean'])} times as long, its p99 {factor(v['p99'])}"
    ),
    Code.IMPACT_WITHHELD: AT + " is not judged: {why!n}",
    Code.FEW_CYCLES: "{cycles} cycles were measured; {needed} are needed",
    Code.NOT_QUIET: "quiet twice, the second took {ratio:.2f} of the time of the first",
    Code.NOT_LOADED_ENOUGH: lambda v: (
        f"the aggressor moved {v['load']:.0%} of its bytes alone"
        if v["load"] is not None and v["load"] != ""
        else "the aggressor was not measured alone"
    ),
}
