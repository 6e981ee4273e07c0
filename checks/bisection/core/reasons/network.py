"""Pairs of nodes and what is bad between them, other traffic, and the verdict on a network."""

from collections.abc import Mapping
from typing import Any

from bisection.core.format import amount, change, number, plural, size_of, some, times
from bisection.core.reasons.kinds import Topic

# Where a person looks first, by the component.
LOOK = {
    "switch": "the switch: its state, firmware and temperature",
    "links": "the uplinks of the switch: ports that are down or slower, transceivers, routing",
    "node": "its adapter and firmware, PCIe slot (width and speed), cable and transceiver; error "
    "counters of its port",
    "latency": "its adapter and firmware, clock and power settings, other processes",
    "way": "the uplink that its traffic takes: the node is fine on its own switch",
    "cable": "one uplink of the switch: its cable, transceivers and error counters at both ends",
    "path": "the route between the two nodes: error counters of every link on it",
}

Values = Mapping[str, Any]  # of a BAD_COMPONENT


def component(v: Values) -> str:
    """A component's name: node cn17, cable of switch leaf3 to cn1 and cn5."""
    names = v["names"]
    if v["part"] == "path":
        return f"path {' - '.join(names)}"
    if v["part"] == "way":
        return f"uplink of node {names[0]}"
    name = names[0] if names[0].startswith("switch ") else f"switch {names[0]}"
    if v["part"] == "cable":
        return f"cable of {name} to {some(v['serves'], 4)}"
    if v["part"] == "switch":
        return f"links of {name} to others" if v["beyond"] else name
    return f"{v['part']} {names[0]}"


def symptom(v: Values) -> str:
    """Returns a symptom of a component: bandwidth it sends x0.80."""
    return f"{(v['kind'] + ' ' + v['way']).strip()} x{number(v['factor'])}"


def look(v: Values) -> str:
    """Returns where to look for what makes a component bad."""
    part = v["part"]
    if part == "switch" and v["beyond"]:
        part = "links"
    if part == "node" and {s["kind"] for s in v["symptoms"]} == {"latency"}:
        part = "latency"
    return LOOK[part]


def retests(v: Values) -> str:
    """Returns what the second stage measured of a component: x0.80 in 8 pairs."""
    tried = [part for part in v["symptoms"] if part["rerun"]]
    if not tried:
        return "none"
    sure = max(tried, key=lambda part: part["z"])
    counted = "node" if v["part"] == "switch" else "pair"
    return f"x{number(sure['rerun'])} in {plural(sure['retests'], counted)}"


def slowness(v: Values) -> str:
    """How slow a component is: bandwidth sends x0.60, rerun: x0.61 in 8 pairs."""
    parts = ", ".join(map(symptom, v["symptoms"]))
    if v.get("drift"):
        return f"{parts} of what it was in earlier sessions, in two sessions"
    return f"{parts}, rerun: {retests(v)}"


def factor(ratio: list) -> str:
    """A ratio with its interval: 1.48 [1.42, 1.55]."""
    value, low, high = ratio
    return f"{times(value)} [{times(low)}, {times(high)}]"


def _unknown(missing: list) -> str:
    return f"the topology lacks {some(missing, 4)}" if missing else "no topology is known"


class Network(Topic):
    """Faults of a network, and reasons for no verdict on it."""

    # ---- pairs of nodes ----

    PAIRS_FOREIGN = "{path} is no result of pairs: {key} is missing or wrong"
    PAIRS_CORRUPT = "{path} is damaged: record {record} of {of}, {nodes} nodes: {content}"
    PAIRS_MANY_NODES = "{path} has {nodes} nodes; at most {most} can be judged"
    PAIRS_CONCURRENT = "pairs measured at the same time slow each other down: nothing is reported"
    PAIRS_CLEARED = "suspects of the first stage that were as the others in the rerun: {suspects}"
    PAIRS_PATHS_LEFT = "further slow paths, not rerun, so not reported: {suspects}"
    PAIRS_NOT_RETESTED = "no pair was rerun, and no component is reported; suspects: {suspects}"
    PAIRS_FEW_NODES = "{nodes} nodes do not tell a bad node from noise: {needed} do"

    # size, record: B; wanted: records
    def PAIRS_TRUNCATED(path: str, size: int, record: int, wanted: int = 0) -> str:
        whole = f"{wanted or 'a whole number of'} records of {record} B"
        return f"{path} is truncated: {size} B are not {whole}"

    # missing: nodes that the topology lacks
    def PAIRS_CLUSTERED(switches: int, missing: list = ()) -> str:
        return f"{_unknown(missing)}: latency shows the {switches} switches used here"

    def PAIRS_NO_SWITCHES(missing: list = ()) -> str:
        alike = "all pairs are judged alike, and no switch, uplink or cable can be named"
        return f"{_unknown(missing)}, and latency does not show one: {alike}"

    # factor: of a component that is reported all the same
    def PAIRS_NOISE(noise: float, limit: float, factor: float = 0) -> str:
        named = f"only a component {factor:.1f} times slower is" if factor else "no component"
        cause = "other jobs on the network, or other processes on the cores"
        return f"pair-to-pair noise is {noise:.0%} (limit {limit:.0%}): {named} reported ({cause})"

    # part, names, serves, beyond, symptoms: of analysis.blame.BadComponent; drift: by its past
    def BAD_COMPONENT(**v: Any) -> str:
        return f"{component(v)}: {slowness(v)}; look at {look(v)}"

    # ---- the verdict on a network ----

    COMPONENT_SUSPECTED = "suspect: {component}"
    LAUNCH_BAD = "{launch}: {reason}"
    PART_UNMEASURED = "{check}: {why}"
    PART_NOT_RUN = "not in this run"
    NOTHING_BLAMED = "{place}: no bandwidth of pairs could be judged"

    def LEVEL_WORSE(test: str, metric: str, **row: Any) -> str:
        return f"{test}, {metric}: {change({'metric': metric, **row})}"

    def BELOW_ADAPTER(bandwidth: float, rate: float, share: float) -> str:
        gets, rate = amount(bandwidth, "B/s"), amount(rate, "B/s")
        return f"a pair of nodes gets {gets}, {share:.0%} of its adapters' rate of {rate}"

    # ---- what other traffic costs; place: apart or beside ----

    IMPACT_WITHHELD = "{victim} under {aggressor} ({place}) is not judged: {why}"
    FEW_CYCLES = "{cycles} cycles were measured; {needed} are needed"
    LOAD_UNKNOWN = "the aggressor was not measured alone"
    NOT_LOADED_ENOUGH = "the aggressor moved {load:.0%} of its bytes alone"
    NOT_QUIET = "quiet twice, the second took {ratio:.2f} of the time of the first"

    # mean, p99: [loaded over quiet, low, high]
    def CONGESTED(victim: str, aggressor: str, place: str, mean: list, p99: list) -> str:
        who = f"{victim} under {aggressor} ({place})"
        return f"{who} takes {factor(mean)} times as long, its p99 {factor(p99)}"

    # ---- what of the network explains that a code got slower; points: fractions of its time ----

    def NETWORK_EXPLAINS(
        cause: str, change: float, method: str, size: float, points: float, within: list, of: float
    ) -> str:
        size, more = size_of(size), " (more than single messages)" * (cause == "pattern")
        of_size = {"message": f"single messages of {size}", "pattern": f"{method} at {size}"}
        name, (low, high) = of_size.get(cause, cause), (f"{100 * end:.0f}" for end in within)
        part = f"{100 * points:.0f}" + (f" [{low}, {high}]" if low != high else "")
        return f"{name} {100 * change:+.0f}%{more} explains {part} of {100 * of:.0f} points"

    # patterns: [[method, size]]
    def NETWORK_EXPLAINS_NOTHING(patterns: list, fraction: float, points: float, of: float) -> str:
        names = some([f"{method} at {size_of(size)}" for method, size in patterns], 4)
        gives = f"{100 * max(0.0, points):.0f} of {100 * of:.0f} points"
        time = f"{fraction:.0%} of the time"
        return f"the network does not explain it: {names}, {time}, gives {gives}"
