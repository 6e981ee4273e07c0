"""Reasons of verdicts, each with its code, its values and its words in one place.

A reason is made where something is found out, `Code.NO_KERNEL(folder=...)`, and is stored and
compared as data; `clause` words it, and nothing reads the words back. A new reason is a name in a
topic: `launches`, `machines`, `files`, `network` or `performance`.
"""

from bisection.core import causes
from bisection.core.reasons.files import Files
from bisection.core.reasons.kinds import KINDS, Kind, Reason, clause
from bisection.core.reasons.launches import Launches
from bisection.core.reasons.machines import Machines
from bisection.core.reasons.network import Network
from bisection.core.reasons.performance import Performance

__all__ = ["KINDS", "Code", "Kind", "Reason", "clause"]


class Code(Launches, Machines, Files, Network, Performance):
    """The reasons of all topics."""


# Something else had the cores of a launch that ended well, so that its times say nothing.
DISTURBED = {Code.PREEMPTED, Code.STARVED, Code.STOPPED, Code.UNCONFIRMED}
# Whose fault a stopped launch is, as the table of causes says: the machine's, which has failed it
MACHINE_FAULTS = {Code.HANG, *(KINDS[kind] for kind in causes.kinds(causes.FAILED))}
# ... by its library or its network, of which the host that reports it need not be the fault;
REPORTED = {Code.MPI_ERROR, Code.NETWORK_ERROR}
# ... or that of what is around it, which leaves the launch unmeasured.
OUTER_FAULTS = {
    *(Code.BLOCKED, Code.INFRASTRUCTURE),
    *(KINDS[kind] for kind in causes.kinds(causes.NOT_MEASURED)),
}
# What a launch shows of a host: it is slow ...
SLOW_HOSTS = {
    *(Code.SLOW_CLOCK, Code.SLOW_CORES, Code.SLOW_MEMORY, Code.BUSY_CORES, Code.SLOW_WRITER)
}
# ... or its adapters are faulty.
FAULTS_OF_HOSTS = SLOW_HOSTS | {Code.ADAPTER_ERRORS, Code.ADAPTER_DIFFERS, Code.TCP_LOSSES}
# What the doctor finds and is no defect.
NOTES = {Code.METHOD_NOT_JUDGED, Code.SPACK_NOT_BUILT}
# Reasons that continue a sentence that begins with the change itself.
AFTER_CHANGE = {
    *(Code.CORES_MOVED_TOO, Code.TAIL_PREEMPTED, Code.TAIL_OF_ONE_SESSION, Code.BASELINE_MOVED),
    Code.MOVES_BY_ITSELF,
}
