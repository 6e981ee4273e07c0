"""Reasons of verdicts.

What is stored or compared is a dataclass, with its fields and its words in one place, by topic:
`launches`, `machines` or `performance`; of networks, in `interconnect/reasons.py`. Any other reason
is a sentence where it is found out: `Text("...")`. Nothing reads words back.
"""

import json
from collections.abc import Mapping
from dataclasses import fields
from types import ModuleType
from typing import Any

from bisection.core import causes
from bisection.core.reasons import base, launches, machines, performance
from bisection.core.reasons.base import Reason, Text


def kinds_in(*topics: ModuleType) -> dict[str, type[Reason]]:
    """The reasons of modules, by the code under which they are stored."""
    return {
        kind.code: kind
        for topic in topics
        for kind in vars(topic).values()
        if isinstance(kind, type) and issubclass(kind, Reason) and kind.code
    }


TOPICS = (base, launches, machines, performance)
KINDS = kinds_in(*TOPICS)

Kinds = tuple[type[Reason], ...]
# Something else had the cores of a launch that ended well, so that its times say nothing.
DISTURBED: Kinds = (launches.Disturbed, launches.Starved, launches.Stopped, launches.Unconfirmed)
# Whose fault a stopped launch is, as the table of causes says: the machine's, which has failed it
MACHINE_FAULTS: Kinds = (launches.Hang, *(KINDS[kind] for kind in causes.kinds(causes.FAILED)))
# ... by its library or its network, of which the host that reports it need not be the fault;
REPORTED: Kinds = (launches.MpiError, launches.NetworkError)
# ... or that of what is around it, which leaves the launch unmeasured.
OUTER_FAULTS: Kinds = (
    launches.Blocked,
    launches.Infrastructure,
    *(KINDS[kind] for kind in causes.kinds(causes.NOT_MEASURED)),
)
# What a launch shows of a host: it is slow; its memory, its adapters are faulty.
SLOW_HOSTS = (
    machines.SlowClock,
    machines.SlowCores,
    machines.SlowMemory,
    machines.BusyCores,
    machines.SlowWriter,
    machines.Throttled,
    machines.SlowLoad,
)
MEMORY_FAULTS = (machines.FaultyMemory,)
ADAPTER_FAULTS = (machines.AdapterErrors, machines.AdapterDiffers, machines.TcpLosses)


def read_reason(stored: Any) -> Reason | None:
    """The Reason that was stored as dictionary or as text; None for what says nothing.

    Free text, as other tools store it, and what is no reason of this version become a Text.
    """
    if not stored:
        return None
    text = stored
    if isinstance(stored, str) and stored.startswith("{"):
        try:
            stored = json.loads(stored)
        except (ValueError, RecursionError):
            stored = text
    if not isinstance(stored, dict):
        return Text(str(stored))
    try:
        kind = _kind(stored["code"])
        reason = kind.stored(known_fields(kind, stored))
        str(reason)  # fields of other types than its own have no words
    except (TypeError, ValueError, LookupError, AttributeError):
        return Text(json.dumps(stored))
    return reason


def _kind(code: str) -> type[Reason]:
    """The kind of reason that is stored under this code; LookupError if there is none."""
    if code in KINDS:
        return KINDS[code]
    from interconnect import reasons  # loads where a network was measured

    return kinds_in(reasons)[code]


def known_fields(kind: Any, stored: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a dataclass that JSON has, without unknown ones. Lists become tuples, and
    dictionaries with a code become reasons; other dictionaries stay."""
    return {part.name: _frozen(stored[part.name]) for part in fields(kind) if part.name in stored}


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    return read_reason(value) if isinstance(value, dict) and "code" in value else value
