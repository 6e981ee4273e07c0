"""PBS Professional and OpenPBS, by the JSON of qstat and pbsnodes; how a trial job is submitted.

It has never met a real PBS: it was written after the manual pages qstat(1B), pbsnodes(8B), qsub(1B)
and pbsdsh(1B) of OpenPBS 20 and outputs that sites have published.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bisection.core.commands import ask
from bisection.sites.cluster import survey
from bisection.sites.cluster.jobs import Request, Scheduler, State, submitted

# Resources that every node has; others are the site's own, and tell kinds of node apart.
STANDARD = {
    *("accelerator_memory", "aoe", "arch", "eoe", "hbmem", "host", "mem", "naccelerators"),
    *("ncpus", "ngpus", "nodect", "vmem", "vnode"),
}
FREE = {"free", "job-busy", "job-exclusive", "resv-exclusive", "busy"}  # now or later
USUAL = {"enabled": "True", "started": "True", "from_route_only": "False"}  # of a queue
WHOLE = {"default_excl", "default_exclhost", "force_excl", "force_exclhost"}


def read(account: str = "") -> survey.Survey:
    """Returns what the PBS of this host says; SchedulerError if its server does not answer."""
    queue, node = _json("qstat", "-Q", "-f", "-F", "json"), _json("pbsnodes", "-a", "-F", "json")
    return survey.Survey(
        kind="PBS",
        reframe="pbs",
        version=str(queue.get("pbs_version", "")),
        cluster=str(queue.get("pbs_server", "")),
        queues=[*queues(queue.get("Queue", {}), node.get("nodes", {}))],
    )


def queues(
    known: Mapping[str, Mapping[str, Any]], nodes: Mapping[str, Mapping[str, Any]]
) -> Iterator[survey.QueueInfo]:
    """Yields the queues, of PBS's own mappings of queues and nodes."""
    for name, fields in known.items():
        ways = [name]
        if fields.get("queue_type") == "Route":
            ways = str(fields.get("route_destinations", "")).split(",")
        members = {
            host: node
            for host, node in nodes.items()
            if any(_serves(node, way, known.get(way, {})) for way in ways)
        }
        limits = fields.get("resources_max", {})
        most = str(limits.get("nodect", ""))
        sharing = {node.get("sharing", "") for node in members.values()}
        empty = None if members else survey.no_nodes(name)
        yield survey.QueueInfo(
            name=name,
            groups=survey.groups_of(_node(host, node) for host, node in members.items()),
            max_time=survey.seconds_of(str(limits.get("walltime", ""))),
            max_nodes=int(most) if most.isdecimal() else None,
            whole_nodes=bool(sharing) and sharing <= WHOLE,
            closed=survey.closed_by(name, fields, USUAL) or empty,
        )


def _json(*command: str) -> dict[str, Any]:
    answer = ask(*command)
    try:
        return json.loads(answer.text)
    except ValueError as error:
        raise survey.SchedulerError("PBS", answer.error or f"{command[0]}: {error}") from None


def _serves(node: Mapping[str, Any], queue: str, fields: Mapping[str, Any]) -> bool:
    """True if a node takes jobs of a queue: by its own queue, or by what the queue's chunks ask."""
    if "queue" in node:
        return node["queue"] == queue
    there = node.get("resources_available", {})
    return all(
        str(value) in str(there[name]).split(",")
        for name, value in fields.get("default_chunk", {}).items()
        if name in there and name not in STANDARD
    )


def _node(name: str, fields: Mapping[str, Any]) -> survey.Node:
    there, state = fields.get("resources_available", {}), str(fields.get("state", "unknown"))
    return survey.Node(
        name=str(there.get("host", name)),
        cores=int(there.get("ncpus") or fields.get("pcpus") or 1),
        per_core=1,
        sockets=1,
        gres=f"ngpus:{there['ngpus']}" if there.get("ngpus") else "",
        features=frozenset(f"{k}={value}" for k, value in there.items() if k not in STANDARD),
        down="" if set(state.split(",")) <= FREE else state,
    )


class Pbs(Scheduler):
    """How a trial job is submitted to PBS."""

    commands = ("pbsnodes", "qsub")
    queue_options = ("-q",)
    account_options = ("-A",)
    read = staticmethod(read)

    def header(self, request: Request, minutes: int) -> list[str]:
        """The lines of a script by which it asks for nodes, as ReFrame writes them for a launch."""
        shape, ranks = request.shape, request.shape.ranks_per_node
        # As ReFrame does: what does not begin with a dash is of the chunk.
        chunk = "".join(f":{option}" for option in request.access if option[0] != "-")
        options = [
            "-N bisection-site",
            "-j oe",
            "-r n",
            f"-o {shlex.quote(str(request.output))}",
            f"-l select={shape.nodes}:mpiprocs={ranks}:ncpus={ranks * shape.threads}{chunk}",
            f"-l walltime={minutes // 60}:{minutes % 60:02}:00",
            *(option for option in request.access if option[0] == "-"),
        ]
        return [*(f"#PBS {option}" for option in options), f"cd {shlex.quote(str(request.folder))}"]

    def per_node(self, nodes: int) -> list[str]:
        """Returns what precedes a command so that it runs on each node."""
        return ["pbsdsh", "--"]

    def submit(self, script: Path) -> str:
        """Submits a script; returns the job's number, or raises Refused."""
        return submitted("qsub", str(script)).strip()

    def state(self, job: str) -> State:
        """Returns where a job is; it is over if PBS has forgotten it."""
        answer = ask("qstat", "-x", "-f", "-F", "json", job)
        try:
            known = next(iter(json.loads(answer.text)["Jobs"].values()))
        except (ValueError, LookupError, StopIteration):
            gone = "unknown job" in answer.error.lower() or bool(answer)
            return State("", alive=not gone, error="" if gone else answer.error)
        word = {"R": "RUNNING"}.get(known["job_state"], known["job_state"])
        hosts = re.findall(r"(?:^|\+)([^/+]+)", known.get("exec_host", ""))
        reason = known.get("comment", "")
        return State(word, word not in ("F", "X"), reason, ",".join(dict.fromkeys(hosts)))

    def cancel(self, job: str) -> None:
        """Cancels a job."""
        ask("qdel", job)
