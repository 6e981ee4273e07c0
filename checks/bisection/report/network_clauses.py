"""Clauses of the verdict on a network."""

from collections.abc import Callable, Mapping
from typing import Any

from bisection.core.format import amount
from bisection.core.reasons import Code
from bisection.report.ratios import change

Values = Mapping[str, Any]


def _below(v: Values) -> str:
    bandwidth, rate = (amount(v[name], "B/s") for name in ("bandwidth", "rate"))
    return f"a pair of nodes gets {bandwidth}, {v['share']:.0%} of its adapters' rate of {rate}"


NETWORK: dict[Code, str | Callable[[Values], str]] = {
    Code.NODES_NEEDED: "needs {needed} nodes, a launch here has {nodes}",
    Code.COMPONENT_SUSPECTED: "suspected: {component!n}",
    Code.LAUNCH_BAD: "{launch}: {reason!n}",
    Code.LEVEL_WORSE: lambda v: f"{v['test']}, {v['metric']}: {change(v)}",
    Code.BELOW_ADAPTER: _below,
    Code.PART_UNMEASURED: "{check}: {why!n:?*|not in this run}",
    Code.NOTHING_BLAMED: "{place}: no bandwidth of pairs could be judged",
}
