"""The units of metrics, and what follows from each: one row per unit."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Unit:
    """The properties of a unit."""

    kind: str = ""  # of reference that its metrics need, of KINDS; "": they need none
    counted: bool = False  # the same in every run: any change counts
    context: bool = False  # explains a time, and is not better or worse itself
    may_be_zero: bool = False
    names: str = ""  # of metrics that have it, a regular expression; "" is no name
    base: str = ""  # Prometheus's base unit
    size: float = 1.0  # in the base unit


KINDS = ("ratio", "time")  # of references; partitions claim kinds
UNITS = {
    "ratio": Unit("ratio", names=r"ratio_.*|of_adapter(_.*)?|sustained", base="ratio"),
    "share": Unit("ratio", context=True, names=r".*_share(_.*)?", base="ratio"),
    "seconds": Unit(context=True, names=r"time_all(_.*)?", base="seconds"),  # shown, not judged
    "s": Unit("time", names=r"time(_.*)?|fit_latency", base="seconds"),
    "ms": Unit(base="seconds", size=1e-3),
    "us": Unit(base="seconds", size=1e-6),
    "ns": Unit(base="seconds", size=1e-9),
    "GHz": Unit(names="clock_end", base="hertz", size=1e9),
    "B/s": Unit("time", names=r"(fit_)?bandwidth(_.*)?", base="bytes_per_second"),
    "atom-steps/s": Unit("time", names="atom_steps"),
    "points/s": Unit("time", names="points"),
    "operations/s": Unit("time", names=r"operations_\w+"),
    "messages/s": Unit("time", names="message_rate"),
    "B": Unit(counted=True, may_be_zero=True, names=r"bytes(_.*)?|message_size", base="bytes"),
    "messages": Unit(counted=True, may_be_zero=True, names=r"messages(_per_patch)?"),
    "sweeps": Unit("ratio", counted=True, may_be_zero=True, names="sweeps"),
    "iterations": Unit(names="iterations"),
    "groups": Unit(context=True, names="groups"),
    # Of a node's sensors:
    "J": Unit(names="energy", base="joules"),
    "degC": Unit(context=True, may_be_zero=True, names="temperature_max", base="celsius"),
    "errors": Unit(context=True, may_be_zero=True, names="corrected_errors"),
    # Of what a launch sends:
    "fraction": Unit(context=True, may_be_zero=True),
    "calls": Unit(context=True, may_be_zero=True),
    "B/message": Unit(context=True, may_be_zero=True),
    "messages/call": Unit(context=True, may_be_zero=True),
    # Of what the kernel `pairs` measured again:
    "nodes": Unit(may_be_zero=True),
    "pairs": Unit(may_be_zero=True),
}
KIND_OF_UNIT = {name: unit.kind for name, unit in UNITS.items() if unit.kind}
COUNTED = tuple(name for name, unit in UNITS.items() if unit.counted)
CONTEXT = tuple(name for name, unit in UNITS.items() if unit.context)


def is_absolute(unit: str) -> bool:
    """True for a time or a rate: what a slower clock changes by itself."""
    return unit.endswith("/s") or (unit in UNITS and UNITS[unit].base == "seconds")
