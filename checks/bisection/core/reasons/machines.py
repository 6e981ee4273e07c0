"""Faults of hosts and of their adapters, as launches show them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from bisection.core.format import amount, duration, some
from bisection.core.reasons.base import Reason


@dataclass(frozen=True, kw_only=True)
class HostFault(Reason):
    """A host is slow in a launch, or its adapters are faulty; values are of the worst launch."""

    kernel: ClassVar[str] = ""  # the only one whose launches show it; "": any
    share: ClassVar[float] = 1.0  # of the launches that show it, at least, for a slow node
    alone: ClassVar[bool] = False  # a host shows it without others beside it
    host: str
    launches: int = 0  # of a run, that have it
    of: int = 0  # that could have it

    def __str__(self) -> str:
        return super().__str__() + (
            f", in {self.launches} of {self.of} launches" if self.launches and self.of else ""
        )

    @property
    def part(self) -> tuple[str | int, ...]:
        """The part of the host that has it, where a host may have it of several."""
        return ()


@dataclass(frozen=True, kw_only=True)
class BusyCores(HostFault):
    code = "BUSY_CORES"
    kernel = "noise"
    lost: float  # share of the time of the cores
    median: float

    def words(self) -> str:
        return (
            f"{self.host} is slow: other processes used {self.lost:.0%} of the time of its cores, "
            f"{self.median:.1%} on the median node"
        )


@dataclass(frozen=True, kw_only=True)
class SlowWriter(HostFault):
    code = "SLOW_WRITER"
    kernel = "restart"
    rank: int
    ratio: float  # to the mean of the other ranks

    def words(self) -> str:
        slow = f"rank {self.rank} writes files {self.ratio:.1f} times as slowly"
        return f"{self.host}: {slow} as the other ranks"


@dataclass(frozen=True, kw_only=True)
class SlowClock(HostFault):
    code = "SLOW_CLOCK"
    share = 1 / 3
    rank: int  # the slowest
    cpus: str
    ghz: float
    median: float  # of the launch's ranks on its kind of core
    kind: str = ""

    def words(self) -> str:
        clock = f"the clock of rank {self.rank} (cpus {self.cpus}) was {self.ghz:.2f} GHz"
        usual = "that of such cores in the launch" if self.kind else "the launch's median"
        return f"{self.host} is slow: {clock}, {usual} {self.median:.2f} GHz"


@dataclass(frozen=True, kw_only=True)
class SlowCores(HostFault):
    code = "SLOW_CORES"
    kernel = "noise"
    seconds: float
    median: float  # for the same work on the median node

    def words(self) -> str:
        took = f"a core took {duration(self.seconds)} for work that takes {duration(self.median)}"
        return f"{self.host} is slow: {took} on the median node"


@dataclass(frozen=True, kw_only=True)
class SlowMemory(HostFault):
    code = "SLOW_MEMORY"
    kernel = "noise"
    rate: float
    median: float
    cores: int  # that copy at once

    @property
    def part(self) -> tuple[int]:
        return (self.cores,)

    def words(self) -> str:
        who = "1 core copied" if self.cores == 1 else f"{self.cores} cores together copied"
        usual = f"{amount(self.median, 'B/s')} on the median node"
        return f"{self.host} is slow: {who} {amount(self.rate, 'B/s')} of memory, {usual}"


@dataclass(frozen=True, kw_only=True)
class Throttled(HostFault):
    """Its rate falls in a launch; values of the method whose rate falls most."""

    code = "THROTTLED"
    kernel = "burn"
    alone = True
    kept: tuple[tuple[str, float], ...]  # methods that fell, the worst first: last rate over first
    median: float | None = None  # of the worst method, on the median node; None: no other node
    clock: tuple[float, ...] = ()  # GHz, first and last
    temperature: float | None = None  # degrees Celsius, the highest
    events: float = 0.0  # of throttling, by the processor's counter
    waited: float = 0.0  # share of the last steps in which a thread had no core

    def words(self) -> str:
        fell = some([f"{method} fell to {part:.0%}" for method, part in self.kept])
        usual = "" if self.median is None else f" ({self.median:.0%} on the median node)"
        facts = []
        if self.clock:
            facts.append(f"its clock went from {self.clock[0]:.2f} to {self.clock[-1]:.2f} GHz")
        if self.temperature is not None:
            facts.append(f"at most {self.temperature:.0f} degrees")
        if self.events:
            facts.append(f"the processor counted {self.events:.0f} throttling events")
        if self.waited:
            facts.append(f"a thread had no core for {self.waited:.0%} of the time then")
        slow = f"{self.host} does not keep its rate: {fell} of that at the beginning{usual}"
        return "; ".join([slow, *facts])


@dataclass(frozen=True, kw_only=True)
class SlowLoad(HostFault):
    """A steady rate, below that of other nodes with the same processor."""

    code = "SLOW_LOAD"
    kernel = "burn"
    method: str
    rate: float
    median: float
    unit: str

    @property
    def part(self) -> tuple[str]:
        return (self.method,)

    def words(self) -> str:
        rates = f"{amount(self.rate, self.unit)}, {amount(self.median, self.unit)} on the median"
        return f"{self.host} is slow: {self.method} under full load at {rates} node"


@dataclass(frozen=True, kw_only=True)
class MemoryErrors(HostFault):
    """Counted by EDAC during a launch."""

    code = "MEMORY_ERRORS"
    kernel = "burn"
    corrected: float
    uncorrected: float = 0.0

    def words(self) -> str:
        uncorrected = f", and {self.uncorrected:.0f} not corrected" if self.uncorrected else ""
        return f"{self.host}: memory had {self.corrected:.0f} corrected errors{uncorrected}"


class FaultyMemory(MemoryErrors):
    """More than a healthy module has."""

    code = "FAULTY_MEMORY"


@dataclass(frozen=True, kw_only=True)
class SlowBesidePeers(HostFault):
    """A node is slow in all its launches of a campaign over every node (`run --every-node`)."""

    code = "SLOW_BESIDE_PEERS"
    test: str  # with its metric
    value: float  # of its fastest launch
    unit: str
    usual: float  # the median
    peers: int  # launches on other nodes of its kind

    @property
    def part(self) -> tuple[str]:
        return (self.test,)

    def words(self) -> str:
        values = f"{amount(self.value, self.unit)}, {amount(self.usual, self.unit)} on its peers"
        return f"{self.host} is slow: {self.test} {values} (median of {self.peers})"


@dataclass(frozen=True, kw_only=True)
class NodeJudged(Reason):
    """The row of a node in the table of a campaign over every node."""

    code = "NODE_JUDGED"
    node: str
    partition: str  # its full name
    verdict: str  # of judge.every_node.Judged
    test: str = ""  # that is the worst beside the peers, with its metric; "": nothing was judged
    value: float = 0.0
    unit: str = ""
    usual: float = 0.0  # the median of the peers
    peers: int = 0
    at: float = 0.0  # Unix time of the session of its last launch; 0: it has none
    why: str = ""  # why it is not judged, or has failed

    @property
    def worst(self) -> str:
        """The worst metric, with its ratio to that of the peers."""
        if not self.test:
            return ""
        ratio, values = self.value / self.usual, (self.value, self.usual)
        here, there = (amount(value, self.unit) for value in values)
        return f"{self.test} {ratio:.0%} of {self.peers} peers ({here}, {there})"

    def words(self) -> str:
        return f"{self.node}: {'; '.join(filter(None, (self.verdict, self.worst, self.why)))}"


@dataclass(frozen=True, kw_only=True)
class TcpLosses(HostFault):
    code = "TCP_LOSSES"
    fraction: float

    def words(self) -> str:
        return f"{self.host}: TCP sent {self.fraction:.2%} of its segments again"


@dataclass(frozen=True, kw_only=True)
class AdapterErrors(HostFault):
    code = "ADAPTER_ERRORS"
    adapter: str
    errors: tuple[tuple[str, float], ...]  # (counter, count)

    @property
    def part(self) -> tuple[str]:
        return (self.adapter,)

    def words(self) -> str:
        grew = some([f"{name} by {count:g}" for name, count in self.errors], 3)
        return f"{self.host}: errors of adapter {self.adapter} grew: {grew}"


@dataclass(frozen=True, kw_only=True)
class AdapterDiffers(HostFault):
    code = "ADAPTER_DIFFERS"
    adapter: str
    fact: str  # state, rate (Gb/s) or firmware
    value: str | float | None
    usual: str | float  # that of most

    @property
    def part(self) -> tuple[str, str]:
        return self.adapter, self.fact

    def words(self) -> str:
        usual = f"that of most other nodes {_fact(self.fact, self.usual)}"
        return f"{self.host}: adapter {self.adapter} {_fact(self.fact, self.value)}, {usual}"


@dataclass(frozen=True, kw_only=True)
class LibraryWarns(HostFault):
    """A library warns of it in a launch that succeeds."""

    code = "LIBRARY_WARNS"
    fact: str
    next: str = ""  # what to do

    def words(self) -> str:
        return f"{self.host or 'a library'}: {self.fact}"


def _fact(fact: str, value: str | float | None) -> str:
    if value == "missing":
        return "is missing"
    if fact == "rate":
        return f"has {value:g} Gb/s" if value else "has no known rate"
    return f"is {value or 'in no known state'}" if fact == "state" else f"has firmware {value}"


def carried_by(devices: Iterable[tuple[str, float]]) -> str:
    """Devices, each with the bytes that it sent over the bytes of the messages."""
    return ", ".join(f"{device} {part:.0%}" for device, part in devices) or "no device"
