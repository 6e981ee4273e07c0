"""Clauses of what `site new` finds out, and of what it leaves for a person to decide."""

from collections.abc import Callable, Mapping
from typing import Any

from bisection.core.format import plural, some
from bisection.core.reasons import Code
from bisection.report.site_clauses import with_reasons

Values = Mapping[str, Any]


def _account_open(v: Values) -> str:
    accounts = some(v["accounts"]) if v["accounts"] else "no account is known"
    return f"jobs need an account and {v['user']} has no default one: account= one of {accounts}"


def _nodes_unlike(v: Values) -> str:
    gres = f" and {v['gres']}" if v["gres"] else ""
    nodes = f"{plural(v['nodes'], 'node')} of {plural(v['cores'], 'core')}{gres}"
    return (
        f"queue {v['queue']} has other nodes beside {nodes}, and no feature that only these have: "
        "they are left out (a feature in slurm.conf would make them a partition)"
    )


def _nodes_down(v: Values) -> str:
    down = f" ({with_reasons(v['down'])})" if v["down"] else ""
    if not v["up"]:
        text = f"none of its nodes is up{down}: no job ran, and no launcher is proven"
    else:
        text = f"{v['up']} of {v['wanted']} nodes are up{down}: launchers were tried on no more"
    return f"{v['partition']}: {text}; --refresh makes the facts again"


NEW: dict[Code, str | Callable[[Values], str]] = {
    Code.SCHEDULER_SILENT: "{scheduler} is installed and does not answer. {error}",
    Code.SCHEDULER_UNREAD: "{scheduler} is not read yet: fill in queue, nodes, launcher and "
    "processor of each partition",
    Code.FLUX_OF_REFRAME: "the flux back-end of ReFrame 4.10.4 asks for one task and for no queue: "
    "it cannot launch over several nodes",
    Code.ACCOUNT_OPEN: _account_open,
    Code.NO_COMPILER: "neither mpicc nor cc is on PATH: load the module of an MPI library, then "
    "remove this file and make it again",
    Code.LIBRARIES_UNSEEN: lambda v: (
        f"pkg-config does not find {some(v['names'])}, which the kernels need: load the modules, "
        "then remove this file and make it again; or build with Spack (-p spack)"
    ),
    Code.NO_QUEUE: "there is no queue that this user can use",
    Code.QUEUE_STATE: "queue {queue}: its state is {state}",
    Code.QUEUE_ROOT_ONLY: "queue {queue}: only root can use it",
    Code.QUEUE_NOT_ROOT: "queue {queue}: root cannot use it",
    Code.QUEUE_GROUPS: "queue {queue}: only members of {groups!j} can use it",
    Code.QUEUE_ACCOUNTS: "queue {queue}: account {account} cannot use it"
    "{others!j:?; --account can be *}",
    Code.QUEUE_RESERVED: "queue {queue}: it takes only jobs of a reservation",
    Code.QUEUE_EMPTY: "queue {queue}: it has no nodes",
    Code.QUEUE_SHARED: "{partition}: the queue puts several jobs on one core whatever they ask "
    "for, and times measured there are worth little",
    Code.NODES_UNLIKE: _nodes_unlike,
    Code.NODES_DOWN: _nodes_down,
    Code.TRIAL_FAILED: "{partition}: no launcher is proven. {fault!n}",
    Code.NO_LAUNCHER: "{partition}: no launcher is right. {faults!N}",
    Code.LAUNCHER_WRONG: "{launcher}: {fault!n}",
    Code.NETWORK_UNUSED: "{partition}: messages went through {device}, though {fast} is up: choose "
    "the MPI library or its settings",
    Code.NOT_TRIED: "no job ran (--dry-run): launchers are not proven",
}
