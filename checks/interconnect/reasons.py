"""Faults of a network, and what was not measured of it."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from bisection.core.format import number, plural, some
from bisection.core.reasons.base import Reason
from bisection.core.verdicts import Word

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


class Part(Word):
    """Kinds of components, the largest explanation first."""

    SWITCH = "switch"  # most of its nodes are slow alike
    NODE = "node"
    WAY = "way"  # between one node and other switches; on its own switch the node is fine
    CABLE = "cable"  # slow paths of one switch to nodes of others
    PATH = "path"  # one pair alone


class Symptom(NamedTuple):
    """Evidence that a component is bad."""

    kind: str  # latency | bandwidth | both ways
    way: str  # sends | receives, as the component does; "" for both
    factor: float  # of the value that its pairs have otherwise
    z: float  # standard deviations
    retests: int = 0  # pairs of the rerun; of a switch, nodes
    rerun: float | None = None  # their factor

    def __str__(self) -> str:
        return f"{(self.kind + ' ' + self.way).strip()} x{number(self.factor)}"


@dataclass(frozen=True, kw_only=True)
class SlowComponent(Reason):
    code = "BAD_COMPONENT"
    counted = ("bad component of the network", "bad components of the network")
    part: Part
    names: tuple[str, ...]  # a switch | a node | two nodes
    symptoms: tuple[Symptom, ...] = ()
    beyond: bool = False  # of a switch: pairs on it are fine, its links to others are slow
    serves: tuple[str, ...] = ()  # of a cable: the nodes at its far end
    confirmed: bool = True  # False: a suspect
    drift: bool = False  # it is named because it is worse than it was

    @classmethod
    def stored(cls, values: dict[str, Any]) -> "SlowComponent":
        symptoms = tuple(Symptom(*part) for part in values["symptoms"])
        return cls(**{**values, "part": Part(values["part"]), "symptoms": symptoms})

    @property
    def factor(self) -> float:
        """That of its worst symptom, of a bandwidth where there is one."""
        factors = [symptom.factor for symptom in self.symptoms]
        return min(factors) if min(factors) < 1 else max(factors)

    @property
    def brief(self) -> str:
        """Returns node cn17 x0.60."""
        return f"{self.name} x{number(self.factor)}"

    @property
    def name(self) -> str:
        """Returns node cn17, cable of switch leaf3 to cn1 and cn5."""
        if self.part == Part.PATH:
            return f"path {' - '.join(self.names)}"
        first = self.names[0]
        if self.part == Part.WAY:
            return f"uplink of node {first}"
        switch = first if first.startswith("switch ") else f"switch {first}"
        if self.part == Part.CABLE:
            return f"cable of {switch} to {some(self.serves, 4)}"
        if self.part == Part.SWITCH:
            return f"links of {switch} to others" if self.beyond else switch
        return f"{self.part} {first}"

    @property
    def look(self) -> str:
        """Where to look for what makes it bad."""
        if self.part == Part.SWITCH and self.beyond:
            return LOOK["links"]
        if self.part == Part.NODE and {symptom.kind for symptom in self.symptoms} == {"latency"}:
            return LOOK["latency"]
        return LOOK[self.part]

    @property
    def retests(self) -> str:
        """What the second stage measured: x0.80 in 8 pairs."""
        tried = [(s.z, s.rerun, s.retests) for s in self.symptoms if s.rerun]
        if not tried:
            return "none"
        _, rerun, retests = max(tried)
        counted = "node" if self.part == Part.SWITCH else "pair"
        return f"x{number(rerun)} in {plural(retests, counted)}"

    @property
    def slowness(self) -> str:
        """How slow it is: bandwidth sends x0.60, rerun: x0.61 in 8 pairs."""
        parts = ", ".join(map(str, self.symptoms))
        if self.drift:
            return f"{parts} of what it was in earlier sessions, in two sessions"
        return f"{parts}, rerun: {self.retests}"

    def words(self) -> str:
        return f"{self.name}: {self.slowness}; look at {self.look}"


@dataclass(frozen=True, kw_only=True)
class ComponentSuspected(Reason):
    code = "COMPONENT_SUSPECTED"
    component: Reason

    def words(self) -> str:
        return f"suspect: {self.component}"


@dataclass(frozen=True, kw_only=True)
class LaunchBad(Reason):
    code = "LAUNCH_BAD"
    launch: str
    reason: Reason | None

    def words(self) -> str:
        return f"{self.launch}: {self.reason or 'no cause is recorded'}"


@dataclass(frozen=True, kw_only=True)
class PartUnmeasured(Reason):
    code = "PART_UNMEASURED"
    check: str
    why: Reason

    def words(self) -> str:
        return f"{self.check}: {self.why}"
