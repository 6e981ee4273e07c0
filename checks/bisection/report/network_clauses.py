"""Clauses of the network: its components, pairs of nodes, and its verdict."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bisection.core.format import amount, number, plural, some
from bisection.core.reasons import Code

Values = Mapping[str, Any]

# Where to look first, by the kind of a component.
LOOK = {
    "switch": "look at its power, firmware and links",
    "node": "look at its adapter, the adapter's PCIe slot, and its cable",
    "way": "look at the links of its switch to others, and at its routes",
    "cable": "look at the cable, and at the error counters of its ports",
    "path": "look at the route between them",
}


def part_name(v: Values) -> str:
    """A component with its kind: node n3; path n3 - n7."""
    names = v["names"]
    if v["part"] == "path":
        return f"path {' - '.join(names)}"
    if v["part"] == "way":
        return f"node {names[0]} to other switches"
    if v["part"] == "cable":
        return f"a cable of switch {names[0]}, to {some(v['serves'], 4)}"
    beyond = " to other switches" if v["beyond"] else ""
    return f"{v['part']} {names[0]}{beyond}"


def symptoms(given: Sequence[Values]) -> str:
    """What shows that a component is bad: bandwidth x0.51 of the others' (sends)."""
    return "; ".join(
        f"{s['kind']} x{s['factor']:.2f}" + (f" as it {s['way']}" if s["way"] else "")
        for s in given
    )


def again(given: Sequence[Values]) -> str:
    """What the second stage measured: x0.51 in 7 retests."""
    tried = [s for s in given if s["again"] is not None]
    if not tried:
        return "not measured again"
    worst = max(tried, key=lambda s: max(s["again"], 1 / s["again"]))
    return f"again x{worst['again']:.2f} in {plural(worst['retests'], 'retest')}"


def surest(given: Sequence[Values]) -> float:
    """The largest number of standard deviations."""
    return max(s["z"] for s in given)


def _component(v: Values) -> str:
    given = v["symptoms"]
    sure = "" if v["confirmed"] else "suspected: "
    shows = f"{symptoms(given)} of the others' (z {surest(given):.0f}, {again(given)})"
    return f"{sure}{part_name(v)}: {shows}; {LOOK[v['part']]}"


def _components(v: Values) -> str:
    parts = [_component(part) for part in v["components"]]
    return ". ".join(parts[:8]) + (f". And {len(parts) - 8} more" if len(parts) > 8 else "")


def _below(v: Values) -> str:
    bandwidth, rate = (amount(v[name], "B/s") for name in ("bandwidth", "rate"))
    return f"a pair of nodes gets {bandwidth}, {v['share']:.0%} of its adapters' rate of {rate}"


NETWORK: dict[Code, str | Callable[[Values], str]] = {
    Code.NODES_NEEDED: "it needs {needed} nodes, a launch here has {nodes}",
    Code.BAD_COMPONENT: _component,
    Code.BAD_COMPONENTS: _components,
    Code.COMPONENT_DEGRADED: lambda v: (
        f"worse than on earlier nights: {_component(v['component'])}"
    ),
    Code.LAUNCH_BAD: "{launch}: {reason!n}",
    Code.LEVEL_WORSE: "{change!d}",
    Code.BELOW_ADAPTER: _below,
    Code.PART_UNMEASURED: "{check}, {part}: {why!n:?*|not in this run}",
    Code.KIND_WITHHELD: "{launch}, {kind}: {why!n}",
    Code.PAIRS_FOREIGN: "{path} has no usable {key}",
    Code.PAIRS_TRUNCATED: lambda v: (
        f"{v['path']} is not whole: {v['size']} B in records of {v['record']} B"
        + (f", not {v['wanted']} records" if v.get("wanted") else "")
    ),
    Code.PAIRS_CORRUPT: "{path}: record {record} of {of} is wrong, with {nodes} nodes: {content}",
    Code.PAIRS_CLUSTERED: "no topology is known; by latency, the nodes are on {switches} switches",
    Code.PAIRS_NO_SWITCHES: "the switches of the nodes are not known: pairs of one switch and of "
    "two are judged as one kind",
    Code.PAIRS_CONCURRENT: "measured all at once, which shows routes that collide, and no fault",
    Code.PAIRS_FEW_NODES: "{nodes} nodes; from {needed} on, a component can be named",
    Code.PAIRS_NOISE: lambda v: (
        f"pairs differ by {v['noise']:.0%} by chance; above {v['limit']:.0%} nothing is blamed"
    ),
    Code.PAIRS_CLEARED: lambda v: (
        f"{plural(v['suspects'], 'suspect')} in the tournament, as fast as the others in the retest"
    ),
    Code.PAIRS_NOT_RETESTED: lambda v: (
        "no pair was suspected, and none measured again"
        if not v["suspects"]
        else f"{number(v['suspects'])} suspected, and not measured again"
    ),
}
