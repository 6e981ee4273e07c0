"""PBS Professional and OpenPBS, by the JSON of qstat and pbsnodes.

It has never met a real PBS: it was written after the manual pages qstat(1B), pbsnodes(8B), qsub(1B)
and pbsdsh(1B) of OpenPBS 20 and outputs that sites have published.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from bisection.core.commands import ask
from bisection.core.identity import Geometry
from bisection.schedulers import survey
from bisection.schedulers.scheduler import JobState, Scheduler

# Resources that every node has; others are the site's own, and tell kinds of node apart.
STANDARD = {
    "accelerator_memory", "aoe", "arch", "eoe", "hbmem", "host", "mem", "naccelerators",
    "ncpus", "ngpus", "nodect", "vmem", "vnode",
}  # fmt: skip
FREE = {"free", "job-busy", "job-exclusive", "resv-exclusive", "busy"}  # now or later
USUAL = {"enabled": "True", "started": "True", "from_route_only": "False"}  # of a queue
WHOLE = {"default_excl", "default_exclhost", "force_excl", "force_exclhost"}


def queues(
    known: Mapping[str, Mapping[str, Any]], nodes: Mapping[str, Mapping[str, Any]]
) -> Iterator[survey.QueueInfo]:
    """Yields the queues, of PBS's own mappings of queues and nodes."""
    for name, fields in known.items():
        ways = [name]
        if fields.get("queue_type") == "Route":
            ways = str(fields.get("route_destinations", "")).split(",")
        serve = [(way, known.get(way, {})) for way in ways]
        members = [pair for pair in nodes.items() if any(_serves(pair[1], *way) for way in serve)]
        limits = fields.get("resources_max", {})
        most = str(limits.get("nodect", ""))
        sharing = {node.get("sharing", "") for _, node in members}
        empty = None if members else survey.no_nodes(name)
        yield survey.QueueInfo(
            name=name,
            groups=survey.groups_of(_node(host, node) for host, node in members),
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
    """PBS Professional and OpenPBS."""

    queue_options = ("-q",)
    account_options = ("-A",)
    is_read = True

    def __init__(self, name: str) -> None:
        super().__init__(name, "PBS", ["pbsnodes", "qsub"], "qsub", "qdel", ["qselect", "qstat"])

    def read(self, account: str, reservation: str) -> survey.SchedulerSurvey:
        queue = _json("qstat", "-Q", "-f", "-F", "json")
        node = _json("pbsnodes", "-a", "-F", "json")
        return survey.SchedulerSurvey(
            kind=self.title,
            reframe=self.name,
            version=str(queue.get("pbs_version", "")),
            cluster=str(queue.get("pbs_server", "")),
            queues=[*queues(queue.get("Queue", {}), node.get("nodes", {}))],
        )

    def ask(self, job: Any, shape: Geometry, limit: float, deadline: float | None) -> None:
        """PBS, too, would run a job again whose node died."""
        job.options += ["-r n"]

    def per_node(self, nodes: int) -> list[str]:
        return ["pbsdsh", "--"]

    def look(self, job: Any) -> JobState:
        """By qstat, which has PBS's words on a job that waits, as ReFrame does not; a job is over
        if PBS has forgotten it."""
        answer = ask("qstat", "-x", "-f", "-F", "json", job.jobid)
        try:
            known = next(iter(json.loads(answer.text)["Jobs"].values()))
        except (ValueError, LookupError, StopIteration):
            gone = "unknown job" in answer.error.lower() or bool(answer)
            return JobState("", alive=not gone, error="" if gone else answer.error)
        word = {"R": "RUNNING"}.get(known["job_state"], known["job_state"])
        hosts = re.findall(r"(?:^|\+)([^/+]+)", known.get("exec_host", ""))
        reason = known.get("comment", "")
        return JobState(word, word not in ("F", "X"), reason, ",".join(dict.fromkeys(hosts)))
