"""Network adapters of a launch's hosts: those that carried the messages, and faulty ones.

A result's "adapters" holds, of each host, the counters of its adapters over the measurement, and
what its ranks handed to MPI for other hosts (src/common/carried.c): it shows the transport without
asking the MPI library.
"""

import math
import statistics
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bisection.core.format import some
from bisection.core.reasons.machines import (
    AdapterDiffers,
    AdapterErrors,
    HostFault,
    TcpLosses,
    carried_by,
)
from bisection.core.thresholds import LIMITS

RDMA = ("infiniband", "roce", "omni-path", "efa", "rdma", "slingshot")
STACKED = ("ipoib", "slingshot-ip")  # TCP over a fast adapter, which counts their bytes too
IP = ("ethernet", *STACKED)

Host = Mapping[str, Any]  # an element of a result's "adapters"
Adapter = Mapping[str, Any]  # an element of a host's "list"


def device(adapter: Adapter) -> str:
    """The name without the port: mlx5_0 of mlx5_0:1."""
    return adapter["name"].partition(":")[0]


def carriers(result: Mapping[str, Any]) -> list[tuple[str, float]]:
    """The devices that carried the messages between hosts.

    A device that sent far less than the busiest did something else.

    Returns:
        Of each its name and the bytes that it sent over the payload. Empty for a launch on one
        host, on emulated nodes, or with few messages.
    """
    hosts = _hosts(result)
    if not (payload := _payload(hosts)):
        return []
    sent = _sent(hosts)
    least = LIMITS.idle_rail * max(sent.values(), default=0.0)
    return [(name, count / payload) for name, count in sent.items() if 0 < count >= least]


def unused(result: Mapping[str, Any], claimed: Sequence[str]) -> str:
    """Says if the messages went another way than over the devices that the site file claims.

    Returns:
        A sentence where TCP carried the messages, or where a claimed device did not take part, of
        launches with a rank per device; "" if all is well, or cannot be seen.
    """
    hosts = _hosts(result)
    if not claimed or not (payload := _payload(hosts)):
        return ""
    by_tcp = sum(_sent(hosts, IP).values())
    fast = sum(count for name, count in _sent(hosts).items() if name in claimed)
    fast -= sum(_sent(hosts, STACKED).values())
    claims_tcp = set(claimed) & _sent(hosts, IP).keys()
    if fast < LIMITS.carried * payload <= by_tcp and not claims_tcp:
        where = f"{some(claimed)}, which the site file claims"
        parts = carried_by(carriers(result))
        return f"the messages between nodes bypassed {where}: {parts} of the bytes"
    if len(claimed) < 2 or result["layout"]["ranks_per_node"] < len(claimed):
        return ""
    idle: dict[str, list[str]] = {}
    for host in hosts:
        # A device that is not there sent nothing; of one without a counter nothing is known.
        sent = _sent([host])
        uncounted = {device(adapter) for adapter in host["list"]} - sent.keys()
        if (host["payload"] or 0.0) < LIMITS.payload * 2**20 or uncounted & set(claimed):
            continue
        equal = sum(sent.get(name, 0.0) for name in claimed) / len(claimed)
        for name in claimed:
            if sent.get(name, 0.0) < LIMITS.idle_rail * equal:
                idle.setdefault(name, []).append(host["host"])
    rails = [f"{name} carried nothing on {some(names, 3)}" for name, names in idle.items()]
    claim = "of the adapters that the site file claims"
    return f"{claim}, {'; '.join(rails)}" if rails else ""


def faults(result: Mapping[str, Any], claimed: Sequence[str] = ()) -> list[HostFault]:
    """The adapters whose error counters grew, and those that are unlike their peers.

    Peers are the adapters of one name on the hosts of the launch. Looked at are those that the
    site file claims, else those of RDMA, else those that carried messages.
    """
    hosts = _hosts(result)
    of_rdma = {device(a) for host in hosts for a in host["list"] if a["kind"] in RDMA}
    wanted = set(claimed) or of_rdma or {name for name, _ in carriers(result)}
    names = dict.fromkeys(a["name"] for host in hosts for a in host["list"] if device(a) in wanted)
    reasons: list[HostFault] = [*_tcp_losses(hosts)] if _payload(hosts) else []
    for name in names:
        peers = {
            host["host"]: next((a for a in host["list"] if a["name"] == name), None)
            for host in hosts
        }
        reasons += [*_errors(name, peers), *_odd(name, peers)]
    return reasons


def _hosts(result: Mapping[str, Any]) -> Sequence[Host]:
    return result.get("adapters") or []  # none in results of earlier kernels


def _sent(hosts: Iterable[Host], kinds: Sequence[str] = (*RDMA, *IP)) -> dict[str, float]:
    """Bytes that each device of these kinds sent on these hosts, as far as they are counted."""
    sent: dict[str, float] = defaultdict(float)
    for host in hosts:
        for adapter in host["list"]:
            if adapter["kind"] in kinds and adapter["sent"] is not None:
                sent[device(adapter)] += adapter["sent"]
    return sent


def _payload(hosts: Sequence[Host]) -> float:
    """Bytes between hosts; 0 where they are unknown, or too few to be told from others' traffic."""
    total = float(sum(host["payload"] or 0.0 for host in hosts))
    return total if len(hosts) > 1 and total >= LIMITS.payload * 2**20 * len(hosts) else 0.0


def _errors(name: str, peers: Mapping[str, Adapter | None]) -> Iterator[AdapterErrors]:
    """The adapters with more errors than their peers usually have."""
    counts = {host: adapter["errors"] for host, adapter in peers.items() if adapter}
    grown: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for error in dict.fromkeys(error for errors in counts.values() for error in errors):
        values = {host: errors.get(error, 0.0) for host, errors in counts.items()}
        # where too few others show what is usual, nothing is
        usual = _of_others(values) if len(values) > 3 else dict.fromkeys(values, 0.0)
        for host, count in values.items():
            if count > LIMITS.adapter_errors * usual[host]:
                grown[host].append((error, count))
    for host in filter(grown.get, counts):
        yield AdapterErrors(host=host, adapter=name, errors=tuple(grown[host]))


def _of_others(values: Mapping[str, float]) -> dict[str, float]:
    """Of each of several names the median of the values of all others."""
    ranked = sorted(values.values())
    middle = (len(ranked) - 2) // 2, (len(ranked) - 1) // 2  # without one
    others = {}
    for name, value in values.items():
        place = bisect_left(ranked, value)
        others[name] = sum(ranked[at + (at >= place)] for at in middle) / 2
    return others


def _tcp_losses(hosts: Sequence[Host]) -> Iterator[TcpLosses]:
    """The hosts that sent far more segments again than the others; none of two, which cannot be
    told apart."""
    parts = {
        host["host"]: host["retransmitted"] / host["segments"]
        for host in hosts
        if host["segments"] and host["retransmitted"] is not None
    }
    # A lossy link loses as many of its own host's segments as of all others' together: the bar is
    # halfway (of the logarithm) between that and a network on which all hosts are alike.
    factor = min(math.sqrt(max(len(parts) - 1, 0)), LIMITS.adapter_errors)
    usual = _of_others(parts) if len(parts) > 2 else {}
    for host, others in usual.items():
        part = parts[host]
        if part > max(LIMITS.retransmitted, factor * others):
            yield TcpLosses(host=host, fraction=part)


def _odd(name: str, peers: Mapping[str, Adapter | None]) -> Iterator[AdapterDiffers]:
    """The adapters whose state, rate or firmware is not that of most."""
    for fact in ("state", "rate", "firmware"):
        values = {
            host: adapter[fact] if adapter else "missing"
            for host, adapter in peers.items()
            if adapter or fact == "state"
        }
        most = statistics.multimode(values.values())
        usual = most[0]
        if len(most) > 1:  # the better one, None where neither is better
            good = (value for value in most if value in ("active", "up"))
            usual = max(most) if fact == "rate" else next(good, None)
        for host, value in values.items():
            if usual is not None and value != usual:
                yield AdapterDiffers(host=host, adapter=name, fact=fact, value=value, usual=usual)
