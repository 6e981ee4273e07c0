"""Which nodes a run asks for where its partition has more than a launch uses: others each time.

A slow node is told from the others by jobs with it and jobs without it (bisection.analysis.nodes);
Slurm gives an idle partition's first nodes to every job. Chosen are idle nodes: those that stored
sessions used least, and among these those that were together least.
"""

import re
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from bisection.core.commands import ask, option_value
from bisection.core.thresholds import LIMITS
from bisection.store.database import Store

NodeSet = tuple[str, ...]


class Choice(NamedTuple):
    """What the launches of a partition ask for."""

    sets: list[NodeSet]  # used in turn; one, but for a sweep
    idle: int  # nodes among which they were chosen
    nodes: int  # of the partition


def choose(
    partitions: Iterable[Mapping[str, Any]],
    arguments: Sequence[str],
    store: Store | None,
    sweep: bool = False,
) -> dict[str, Choice]:
    """Chooses nodes for the launches of a run.

    Args:
        partitions: those of the run that Slurm has, as the probe of the site has them.
        arguments: ReFrame's; where they ask for nodes, none are chosen.
        store: has the nodes of earlier sessions; None if it cannot be read.
        sweep: as many sets of nodes as tell each node from the others in one run.

    Returns:
        The full name of a partition -> its choice. Left out are partitions where Slurm is to
        choose: without spare nodes, with a constraint that only Slurm understands, or of which most
        nodes are busy, as a job may then wait long for those that it names.
    """
    if re.search(r"(^|[ -])(nodelist|exclude|w|x)\b", " ".join(_job_options(arguments))):
        return {}
    choices = {}
    for partition in partitions:
        wanted = partition["extras"].get("nodes", 1)
        nodes = _nodes(partition["access"])
        idle = [name for name, state in nodes.items() if state == "idle"]
        least = max(wanted + sweep, LIMITS.idle_nodes * len(nodes))
        if wanted >= len(nodes) or len(idle) < least:
            continue
        used = usage(store, partition["fullname"]) if store else Counter()
        sets = sweep_of(idle, wanted) if sweep else [next_set(idle, wanted, used)]
        choices[partition["fullname"]] = Choice(sets, len(idle), len(nodes))
    return choices


def _job_options(arguments: Sequence[str]) -> list[str]:
    """The values of ReFrame's option -J among its arguments."""
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-J", "--job-option", action="append", default=[])
    return parser.parse_known_args(list(arguments))[0].job_option


def _nodes(access: Sequence[str]) -> dict[str, str]:
    """The nodes that a partition's jobs may get, each with Slurm's short state ("idle"; "idle~" is
    one that sleeps); none if it is not known which they are."""
    wanted = set(filter(None, option_value(access, "-C", "--constraint").split("&")))
    plain = all(re.fullmatch(r"[\w.:-]+", feature) for feature in wanted)
    others = (("--reservation",), ("-w", "--nodelist"), ("-x", "--exclude"))
    if any(option_value(access, *names) for names in others) or not plain:
        return {}
    partition = option_value(access, "-p", "--partition")
    where = ["-p", partition] if partition else ["--all"]  # sinfo does not take both
    answer = ask("sinfo", "-h", "-N", *where, "-o", "%N|%t|%P|%f")
    rows = [line.split("|") for line in answer.text.splitlines() if line.count("|") == 3]
    if not partition:  # Slurm's default one has a star
        rows = [row for row in rows if row[2].endswith("*")]
    return {row[0]: row[1] for row in rows if wanted <= set(row[3].split(","))}


def usage(store: Store, partition: str) -> Counter[NodeSet]:
    """How many of the newest sessions on a partition, by its full name, used each set of nodes."""
    system, _, name = partition.partition(":")
    tests = store.tests().items()
    here = {n for n, test in tests if (test.system, test.partition) == (system, name)}
    used: dict[int, set[NodeSet]] = {}
    for outcome in store.outcomes(store.sessions()):
        if outcome.test in here and outcome.hosts:  # what never ran has none
            used.setdefault(outcome.session, set()).add(tuple(sorted(outcome.hosts)))
    newest = [used[s.id] for s in store.sessions() if s.id in used][-int(LIMITS.node_sessions) :]
    return Counter(hosts for sets in newest for hosts in sets)


def next_set(nodes: Sequence[str], wanted: int, used: Mapping[NodeSet, int]) -> NodeSet:
    """The nodes that were used least, and together least.

    Args:
        nodes: those to choose from.
        wanted: how many.
        used: set of nodes -> how often it was used; hosts may have their domain.
    """
    known = set(nodes)
    alone: Counter[str] = Counter()
    together: Counter[tuple[str, str]] = Counter()
    for hosts, count in used.items():
        names = sorted(host if host in known else host.partition(".")[0] for host in hosts)
        alone.update(dict.fromkeys(names, count))
        together.update(dict.fromkeys(combinations(names, 2), count))
    chosen: list[str] = []
    with_chosen = dict.fromkeys(nodes, 0)  # free node -> how often it was used with those chosen
    while len(chosen) < wanted:
        best = min(with_chosen, key=lambda node: (alone[node], with_chosen[node], node))
        chosen.append(best)
        del with_chosen[best]
        for node in with_chosen:
            with_chosen[node] += together[min(node, best), max(node, best)]
    return tuple(sorted(chosen))


def sweep_of(nodes: Sequence[str], wanted: int) -> list[NodeSet]:
    """Sets of nodes by which each is told from the others: enough with it, and enough without."""
    sets: list[NodeSet] = []
    used: Counter[str] = Counter()
    while any(min(used[node], len(sets) - used[node]) < LIMITS.fewest for node in nodes):
        sets.append(next_set(nodes, wanted, Counter(sets)))
        used.update(sets[-1])
    return sets
