"""Clauses of the nodes of a launch and of their network adapters."""

from collections.abc import Callable, Mapping
from typing import Any

from bisection.core.format import amount, duration, some
from bisection.core.reasons import Code

Values = Mapping[str, Any]

SEEN = ", in {launches} of {of} launches"  # of a run


def carried(devices: list[tuple[str, float]]) -> str:
    """The devices that sent messages, each with its bytes over the bytes of the messages."""
    return ", ".join(f"{device} {part:.0%}" for device, part in devices) or "no device"


def _cores(count: int) -> str:
    return "1 core copied" if count == 1 else f"{count} cores together copied"


def _fact(fact: str, value: Any) -> str:
    if value == "missing":
        return "is missing"
    if fact == "rate":
        return f"has {value:g} Gb/s" if value else "has no known rate"
    return f"is {value or 'in no known state'}" if fact == "state" else f"has firmware {value}"


def _differs(v: Values) -> str:
    own, peers = _fact(v["fact"], v["value"]), _fact(v["fact"], v["usual"])
    return f"{v['host']}: adapter {v['adapter']} {own}, that of most other nodes {peers}"


# What a host is blamed for, in lists of suspect nodes too.
NODES: dict[Code, str | Callable[[Values], str]] = {
    Code.SLOW_CLOCK: "{host} is slow: the clock of rank {rank} (cpus {cpus}) was {ghz:.2f} GHz, "
    "the launch's median {median:.2f} GHz" + SEEN,
    Code.SLOW_CORES: lambda v: (
        f"{v['host']} is slow: a core took {duration(v['seconds'])} for work that takes "
        f"{duration(v['median'])} on the median node" + SEEN.format_map(v)
    ),
    Code.SLOW_MEMORY: lambda v: (
        f"{v['host']} is slow: {_cores(v['cores'])} {amount(v['rate'], 'B/s')} of memory, "
        f"{amount(v['median'], 'B/s')} on the median node" + SEEN.format_map(v)
    ),
    Code.BUSY_CORES: "{host} is slow: other processes had {lost:.0%} of the time of its cores, "
    "{median:.1%} on the median node" + SEEN,
    Code.ADAPTER_ERRORS: lambda v: (
        f"{v['host']}: errors of adapter {v['adapter']} grew: "
        + some([f"{name} by {count:g}" for name, count in v["errors"]], 3)
        + SEEN.format_map(v)
    ),
    Code.ADAPTER_DIFFERS: lambda v: _differs(v) + SEEN.format_map(v),
    Code.TCP_LOSSES: "{host}: TCP sent {fraction:.2%} of its segments again" + SEEN,
    Code.NETWORK_BYPASSED: lambda v: (
        f"the messages between nodes bypassed {some(v['expected'])}, which the site file claims: "
        f"{carried(v['carried'])} of the bytes"
    ),
    Code.RAILS_IDLE: lambda v: (
        "of the adapters that the site file claims, "
        + "; ".join(f"{device} carried nothing on {some(hosts, 3)}" for device, hosts in v["idle"])
    ),
}
