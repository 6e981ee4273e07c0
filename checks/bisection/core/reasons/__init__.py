"""Reasons of verdicts, each with its code, its values and its words in one place.

A reason is made where something is found out, `Code.NO_KERNEL(folder=...)`, and is stored and
compared as data; `clause` words it, and nothing reads the words back. A new reason is a name in a
topic: `launches`, `machines`, `files`, `network` or `performance`.
"""

from bisection.core.reasons.files import NOTES, Files
from bisection.core.reasons.kinds import KINDS, Kind, Reason, clause
from bisection.core.reasons.launches import DISTURBED, MACHINE_FAULTS, OUTER_FAULTS, Launches
from bisection.core.reasons.machines import FAULTS_OF_HOSTS, SLOW_HOSTS, Machines
from bisection.core.reasons.network import Network
from bisection.core.reasons.performance import AFTER_CHANGE, Performance

__all__ = [
    "AFTER_CHANGE",
    "DISTURBED",
    "FAULTS_OF_HOSTS",
    "KINDS",
    "MACHINE_FAULTS",
    "NOTES",
    "OUTER_FAULTS",
    "SLOW_HOSTS",
    "Code",
    "Kind",
    "Reason",
    "clause",
]


class Code(Launches, Machines, Files, Network, Performance):
    """The reasons of all topics."""
