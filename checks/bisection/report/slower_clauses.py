"""Clauses of a run beside earlier sessions, and of a busy machine."""

from collections.abc import Callable, Mapping
from typing import Any

from bisection.core.format import amount, finite, number, plural, some
from bisection.core.reasons import Code
from bisection.report.events import worse_since

Values = Mapping[str, Any]


def _sides(v: Values) -> str:
    words = (v["check"], v["case"], v["layout"], v["method"], v["metric"])
    before, after = (amount(v[side], v["unit"]) for side in ("before", "after"))
    return f"{' '.join(filter(None, words))}: {before} -> {after}"


def _slower(v: Values) -> str:
    again = f", {amount(v['again'], v['unit'])} in the retest" if v["again"] else ""
    earlier = plural(v["sessions"], "earlier session")
    nodes = f", on {some(v['nodes'], 3)} and not on others" if v.get("nodes") else ""
    return f"{_sides(v)}{again}; {number(v['factor'])} times slower than in all of {earlier}{nodes}"


def _did_not_repeat(v: Values) -> str:
    return (
        f"retested {some(v['launches'], 3)}: {plural(v['metrics'], 'metric')}, up to "
        f"{number(v['factor'])} times slower than in all earlier sessions, did not repeat"
    )


def _slow_node(v: Values) -> str:
    nodes, where = v.get("nodes") or [v["node"]], f" ({v['where']})" if v.get("where") else ""
    who, those = f"node {nodes[0]}{where}", "it"
    if nodes[1:]:
        apart = "always ran together" if v.get("always", True) else "ran together too often to tell"
        who, those = f"one of {some(nodes, 16)}{where}, which {apart}", "them"
    return f"{who}: {longer(v, those)}"


def longer(v: Values, those: str = "it") -> str:
    """How much longer jobs on a slow node took, or on several that are not told apart."""
    more = f"{v['ratio'] - 1:.0%} longer" if finite(v.get("ratio")) else "longer"
    return f"{plural(v['jobs'], 'job')} on {those} took {more} than the others"


def _busy(v: Values) -> str:
    top = f" ({', '.join(f'{name} {used:.1f}' for name, used in v['top'])})" if v["top"] else ""
    return f"other processes use {v['used']:.1f} of {v['cores']} cores{top}"


SLOWER: dict[Code, str | Callable[[Values], str]] = {
    Code.SLOWER: _slower,
    Code.SUSPECT: _slower,
    Code.DID_NOT_REPEAT: _did_not_repeat,
    Code.RETEST_SLOWER: "during the retest {control}, which had not looked changed, took "
    "{factor:.2f} times as long: times of the retest are taken by that",
    Code.WORSE_SINCE: worse_since,
    Code.SLOW_NODE: _slow_node,
    Code.FASTER: lambda v: (
        f"{plural(v['metrics'], 'metric')} faster than in all earlier sessions, such as {_sides(v)}"
    ),
    Code.BASELINES_MOVED: lambda v: (
        f"{plural(v['metrics'], 'ratio')} changed because the baseline did, such as {_sides(v)}"
    ),
    Code.CHANGED: "{what}: {before} -> {after}",
    Code.BUSY: _busy,
    Code.LAUNCHES_PREEMPTED: "other processes had the cores of the first {launches} launches; what "
    "they slow down is not measured. Ctrl-C ends the run; --wait 30m waits for a quiet machine "
    "first",
}
