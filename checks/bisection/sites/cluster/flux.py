"""Flux, by `flux resource list`; how a trial job is submitted.

It has never met a real Flux: it was written after the manual pages flux-resource(1), flux-batch(1)
and flux-jobs(1) of Flux 0.60.
"""

import re
import shlex
from pathlib import Path

from bisection.core.commands import ask
from bisection.core.identity import Geometry
from bisection.core.reasons import Code, Reason
from bisection.sites.cluster.jobs import Queue, Scheduler, State, submitted
from bisection.sites.cluster.survey import (
    Node,
    QueueInfo,
    SchedulerError,
    Survey,
    grouped,
)

STATES = "free,allocated,down"
FIELDS = "{state}|{queue}|{properties}|{nnodes}|{ncores}|{ngpus}|{nodelist}"
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def read(_account: str = "") -> Survey:
    """What the Flux of this host says; SchedulerError if its broker does not answer."""
    answer = ask("flux", "resource", "list", "-n", "-s", STATES, "-o", FIELDS)
    if not answer:
        raise SchedulerError("Flux", answer.error)
    version = re.search(r"flux-core:\s+(\S+)", ask("flux", "version").text)
    return Survey(
        kind="Flux",
        reframe="flux",
        version=version[1] if version else "",
        queues=queues(answer.text),
        decisions=[Reason.of(Code.FLUX_OF_REFRAME)],
    )


def queues(text: str) -> list[QueueInfo]:
    """The queues, of what `flux resource list` printed by FIELDS; one where there are no names."""
    members: dict[str, list[Node]] = {}
    for line in text.splitlines():
        fields = [part.strip() for part in line.split("|")]
        if len(fields) != 7 or not fields[3].isdecimal() or fields[3] == "0":
            continue
        state, names, properties, count, cores, gpus, hosts = fields
        for number in range(int(count)):
            node = Node(
                name=f"{hosts} ({number + 1})",
                cores=int(cores) // int(count),
                per_core=1,
                sockets=1,
                gres=f"gpu:{int(gpus) // int(count)}" if gpus not in ("", "0") else "",
                features=frozenset(filter(None, properties.split(","))),
                up=state != "down",
            )
            for name in names.split(","):
                members.setdefault(name, []).append(node)
    return [
        QueueInfo(
            name=name or "default",
            groups=grouped(nodes),
            max_time=_limit(name),
            closed=None,
            named=bool(name),
        )
        for name, nodes in members.items()
    ]


def _limit(queue: str) -> int | None:
    """The longest time of a queue (s), by its configuration."""
    of = f"queues.{queue}.policy" if queue else "policy"
    answer = ask("flux", "config", "get", f"{of}.limits.duration")
    match = re.fullmatch(r'"?([\d.]+)([smhd]?)"?', answer.text.strip()) if answer else None
    return int(float(match[1]) * UNITS[match[2]]) or None if match else None


class Flux(Scheduler):
    """How a trial job is submitted to Flux."""

    commands = ("flux",)
    queue_options = ("-q", "--queue")
    account_options = ("-B", "--bank")
    survey = staticmethod(read)

    def header(self, queue: Queue, shape: Geometry, output: Path, minutes: int) -> list[str]:
        """The lines of a script by which it asks for nodes."""
        options = [
            "--job-name=bisection-site",
            f"--nodes={shape.nodes}",
            f"--nslots={shape.nodes}",
            f"--cores-per-slot={shape.ranks_per_node * shape.threads}",
            f"--time-limit={minutes}m",
            f"--output={shlex.quote(str(output))}",
            f"--cwd={shlex.quote(str(output.parent))}",
            *queue.access,
        ]
        return [f"#flux: {option}" for option in options]

    def per_node(self, nodes: int) -> list[str]:
        """What precedes a command so that it runs once per node."""
        return ["flux", "run", f"--nodes={nodes}", f"--ntasks={nodes}"]

    def submit(self, script: Path) -> str:
        """Submits a script; returns the job's number, or raises Refused."""
        return submitted("flux", "batch", str(script)).strip()

    def state(self, job: str) -> State:
        """Where a job is."""
        answer = ask("flux", "jobs", "-n", "-o", "{state}|{result}|{nodelist}", job)
        fields = answer.text.strip().split("|")
        if not answer or len(fields) != 3:
            gone = "unknown" in answer.error.lower() or "not found" in answer.error.lower()
            return State("", alive=not gone, error="" if gone else answer.error)
        word, result, hosts = fields
        return State(result or word, word != "INACTIVE", word, hosts)

    def cancel(self, job: str) -> None:
        """Cancels a job."""
        ask("flux", "cancel", job)
