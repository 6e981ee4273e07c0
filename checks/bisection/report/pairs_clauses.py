"""Clauses of what was measured between pairs of nodes, and of bad components."""

from collections.abc import Callable, Mapping
from typing import Any

from bisection.core.format import number, plural, size_of, some
from bisection.core.reasons import Code

Values = Mapping[str, Any]

# Where a person looks first, by the component.
LOOK = {
    "switch": "the switch: its state, firmware and temperature",
    "links": "the uplinks of the switch: ports that are down or slower, transceivers, routing",
    "node": "its adapter and firmware, PCIe slot (width and speed), cable and transceiver; error "
    "counters of its port",
    "latency": "its adapter and firmware, clock and power settings, other processes",
    "way": "not the node, which is fine on its own switch: the uplink that its traffic takes",
    "cable": "one uplink of the switch: its cable, transceivers and error counters at both ends",
    "path": "the route between the two nodes: error counters of every link on it",
}


def component(v: Values) -> str:
    """A component's name: node cn17, cable of switch leaf3 to cn1 and cn5."""
    names = v["names"]
    if v["part"] == "path":
        return f"path {' - '.join(names)}"
    if v["part"] == "way":
        return f"way between node {names[0]} and other switches"
    name = names[0] if names[0].startswith("switch ") else f"switch {names[0]}"
    if v["part"] == "cable":
        return f"cable of {name} to {some(v['serves'], 4)}"
    if v["part"] == "switch":
        return f"links of {name} to others" if v["beyond"] else name
    return f"{v['part']} {names[0]}"


def symptom(v: Values) -> str:
    """What shows a component: bandwidth it sends x0.80."""
    return f"{(v['kind'] + ' ' + v['way']).strip()} x{number(v['factor'])}"


def look(v: Values) -> str:
    """Where to look for what makes a component bad."""
    part = v["part"]
    if part == "switch" and v["beyond"]:
        part = "links"
    if part == "node" and {s["kind"] for s in v["symptoms"]} == {"latency"}:
        part = "latency"
    return LOOK[part]


def retests(v: Values) -> str:
    """What the second stage measured of a component: x0.80 in 8 pairs."""
    tried = [part for part in v["symptoms"] if part["again"]]
    if not tried:
        return "not measured again"
    sure = max(tried, key=lambda part: part["z"])
    counted = "node" if v["part"] == "switch" else "pair"
    return f"x{number(sure['again'])} in {plural(sure['retests'], counted)}"


def slowness(v: Values) -> str:
    """How slow a component is: bandwidth sends x0.60, measured again x0.61 in 8 pairs."""
    parts = ", ".join(map(symptom, v["symptoms"]))
    if v.get("drift"):
        return f"{parts} of what it was in earlier sessions, in two sessions"
    return f"{parts}, measured again {retests(v)}"


def _bad(v: Values) -> str:
    return f"{component(v)}: {slowness(v)}; look at {look(v)}"


def _unknown(v: Values) -> str:
    lacks = v.get("missing")
    return f"the topology lacks {some(lacks, 4)}" if lacks else "no topology is known"


def _truncated(v: Values) -> str:
    whole = f"{v['wanted']} records of {v['record']} B" if v["wanted"] else ""
    return f"{v['path']} is truncated: {v['size']} B are not " + (
        whole or f"a whole number of records of {v['record']} B"
    )


PAIRS: dict[Code, str | Callable[[Values], str]] = {
    Code.BAD_COMPONENT: _bad,
    Code.PAIRS_FOREIGN: "{path} is no result of pairs: {key} is missing or wrong",
    Code.PAIRS_TRUNCATED: _truncated,
    Code.PAIRS_CORRUPT: "{path} is damaged: record {record} of {of}, {nodes} nodes: {content}",
    Code.PAIRS_CLUSTERED: lambda v: (
        f"{_unknown(v)}: latency shows the {v['switches']} switches used here"
    ),
    Code.PAIRS_NO_SWITCHES: lambda v: (
        f"{_unknown(v)}, and latency does not show one: all pairs are judged alike, and no switch, "
        "way or cable can be named"
    ),
    Code.PAIRS_CONCURRENT: "pairs were measured at the same time: they slow each other down, and "
    "nothing is blamed",
    Code.PAIRS_FEW_NODES: "{nodes} nodes do not tell a bad node from noise: {needed} do",
    Code.PAIRS_NOISE: lambda v: (
        f"pairs differ by {v['noise']:.0%} without a cause; above {v['limit']:.0%} nothing is "
        + (f"blamed that is not {v['factor']:.1f} times slower" if v.get("factor") else "blamed")
        + ": other jobs on the network, or other processes on the cores"
    ),
    Code.PAIRS_CLEARED: lambda v: (
        f"{plural(v['suspects'], 'suspect')} of the first stage, measured again, was as the others"
        if v["suspects"] == 1
        else f"{v['suspects']:,} suspects of the first stage, measured again, were as the others"
    ),
    Code.PAIRS_PATHS_LEFT: lambda v: (
        f"{plural(v['suspects'], 'slow path')}, not among the slowest, not measured again and not "
        "blamed"
    ),
    Code.PAIRS_NOT_RETESTED: lambda v: (
        f"nothing was measured again: {plural(v['suspects'], 'suspect')}, and nothing is blamed"
    ),
}


def message(size: float) -> str:
    """The size of the messages of a matrix; "" where it is not known."""
    return f", messages of {size_of(size)} per rank" if size > 0 else ""
