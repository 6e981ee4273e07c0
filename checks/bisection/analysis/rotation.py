"""Chooses other nodes for each run, where a partition has more nodes than a launch uses.

Jobs with a slow node are compared with jobs without it (bisection.analysis.nodes);
Slurm gives an idle partition's first nodes to every job. A run takes the idle nodes that stored
sessions used least. Of equally used nodes it takes the ones that were least in one launch.
"""

import re
from argparse import ArgumentParser
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bisection import schedulers
from bisection.analysis.nodes import votes_needed
from bisection.core.thresholds import LIMITS
from bisection.store.database import Store

NodeSet = tuple[str, ...]


class Choice(NamedTuple):
    """The nodes that launches of a partition request."""

    sets: list[NodeSet]  # used in turn; one, but for a sweep
    idle: int  # nodes among which they were chosen
    nodes: int  # of the partition


def choose(
    partitions: Iterable[Mapping[str, Any]],
    arguments: Sequence[str],
    store: Store | None,
    sweep: bool = False,
) -> dict[str, Choice]:
    """Chooses nodes for the launches of a run: full name of a partition -> its choice.

    Left out are partitions where the scheduler is to choose: where the arguments of ReFrame ask for
    nodes, without spare nodes, with a constraint that only the scheduler understands, or of which
    most nodes are busy, as a job may then wait long for those that it names.

    Args:
        partitions: those of the run whose jobs may ask for nodes, as the probe of the site has
            them.
        arguments: ReFrame's.
        store: has the nodes of earlier sessions; None if it cannot be read.
        sweep: as many sets of nodes as tell each node from the others in one run.
    """
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-J", "--job-option", action="append", default=[])
    options = parser.parse_known_args(list(arguments))[0].job_option
    if re.search(r"(^|[ -])(nodelist|exclude|w|x)\b", " ".join(options)):
        return {}
    choices = {}
    for partition in partitions:
        wanted = partition["extras"].get("nodes", 1)
        nodes = schedulers.of(partition["scheduler"]).nodes_of(partition["access"])
        idle = [node.name for node in nodes if node.state == "idle"]
        least = max(wanted + sweep, LIMITS.idle_nodes * len(nodes))
        if wanted >= len(nodes) or len(idle) < least:
            continue
        names = {node.host: node.name for node in nodes}
        used = usage(store, partition["fullname"], names) if store else Counter()
        sets = sweep_of(idle, wanted, used) if sweep else [next_set(idle, wanted, used)]
        choices[partition["fullname"]] = Choice(sets, len(idle), len(nodes))
    return choices


def largest(
    partitions: Iterable[Mapping[str, Any]],
) -> Iterator[tuple[str, int, int | None, list[str]]]:
    """The partitions on which a network is judged: of those with the same nodes, the one whose
    launches have the most. `partitions`: as the probe of the site has them. Yields the full name,
    the nodes of a launch and of the partition (None: not known), and the others, left out."""
    alike: dict[Any, list[Mapping[str, Any]]] = defaultdict(list)
    for partition in partitions:
        access = partition["access"]
        nodes = schedulers.of(partition["scheduler"]).nodes_of(access)
        alike[frozenset(node.name for node in nodes) or tuple(access)].append(partition)
    for place, group in alike.items():
        best = max(group, key=lambda part: part["extras"].get("nodes", 1))
        others = [part["name"] for part in group if part is not best]
        known = len(place) if isinstance(place, frozenset) else None
        yield best["fullname"], best["extras"].get("nodes", 1), known, others


def usage(store: Store, partition: str, names: Mapping[str, str]) -> Counter[NodeSet]:
    """Returns how many of the newest sessions used each set of nodes of a partition (its full
    name); `names`: host without its domain -> Slurm's name of the node."""
    tests, sessions = store.tests(), store.sessions()
    sets: dict[int, dict[int, Sequence[str]]] = defaultdict(dict)  # of sessions, each once
    for outcome in store.outcomes(sessions):
        test = tests[outcome.test]
        if f"{test.system}:{test.partition}" == partition and outcome.hosts:
            sets[outcome.session][id(outcome.hosts)] = outcome.hosts
    used: dict[int, set[NodeSet]] = defaultdict(set)
    for session, hosts in ((s, hosts) for s, each in sets.items() for hosts in each.values()):
        slurm = (names.get(h) or names.get(h.partition(".")[0], h) for h in hosts)
        used[session].add(tuple(sorted(slurm)))
    newest = [used[s.id] for s in sessions if s.id in used][-int(LIMITS.node_sessions) :]
    return Counter(hosts for sets in newest for hosts in sets)


def next_set(nodes: Sequence[str], wanted: int, used: Mapping[NodeSet, int]) -> NodeSet:
    """The `wanted` nodes that were used least, and together least; `used`: how often each set
    was."""
    names, counts = sorted(nodes), np.array([*used.values()], float)
    members = np.array([np.isin(names, hosts) for hosts in used], float)
    members = members.reshape(len(counts), len(names))
    together = np.zeros(len(names))  # how often each was used with those chosen
    alone = counts @ members * (1 + wanted * counts.sum())  # outweighs `together`
    chosen: list[str] = []
    while len(chosen) < wanted:
        best = int(np.argmin(alone + together))
        chosen.append(names[best])
        alone[best] = np.inf
        together += (counts * members[:, best]) @ members
    return tuple(sorted(chosen))


def sweep_of(nodes: Sequence[str], wanted: int, used: Mapping[NodeSet, int]) -> list[NodeSet]:
    """Sets of `wanted` nodes by which each can be named: enough with it, and enough
    without. Where the nodes would need too many sets, the least used of them; `used`: how often
    each set was used before."""
    limit = LIMITS.sweep_sets * wanted
    # The most nodes whose sweep is within its limit: fewer nodes need more launches each.
    counts = range(min(int(limit // LIMITS.node_votes), len(nodes)), wanted, -1)
    count = next((n for n in counts if votes_needed(n, wanted) * n <= limit), wanted + 1)
    least = votes_needed(count, wanted)
    nodes = next_set(nodes, count, used)
    sets: list[NodeSet] = []
    alone: Counter[str] = Counter()
    while any(min(alone[node], len(sets) - alone[node]) < least for node in nodes):
        sets.append(next_set(nodes, wanted, Counter(sets)))
        alone.update(sets[-1])
    return sets
