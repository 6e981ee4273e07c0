"""A cluster behind a scheduler, of two files: NAME.py has the choices, NAME.json the facts.

common.py hands both of its words on to site files: `partition` and, with ReFrame's rest, `cluster`.
"""

import difflib
import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import reframe

from bisection import schedulers
from bisection.core import launchers, paths

Facts = dict[str, Any]  # a part of the dictionary that ReFrame reads, or of NAME.json

FACTS_VERSION = 1  # of NAME.json

# What asks a scheduler for the queue and more, by the words of `partition`.
ACCESS = {
    "slurm": {
        "queue": ["--partition={}"],
        "cluster": ["--clusters={}"],
        "account": ["--account={}"],
        "qos": ["--qos={}"],
        "reservation": ["--reservation={}"],
        "constraint": ["--constraint={}"],
        # An exclusive job has all cores of its nodes, but not all of their memory.
        "exclusive": ["--exclusive", "--mem=0"],
        # Of each node; options for GPUs alone need select/cons_tres.
        "gpus": ["--gres=gpu:{}"],
    },
    "pbs": {
        "queue": ["-q {}"],
        "account": ["-A {}"],
        "constraint": ["{}"],  # of a chunk: ReFrame adds to -l select what has no dash
        "exclusive": ["-l place=scatter:excl"],
        "gpus": ["ngpus={}"],  # of a chunk
    },
    "torque": {"queue": ["-q {}"], "account": ["-A {}"]},
    "flux": {
        "queue": ["--queue={}"],
        "account": ["--bank={}"],
        "constraint": ["--requires={}"],
        "exclusive": ["--exclusive"],
        "gpus": ["--gpus-per-slot={}"],  # a job has a slot per node
    },
    "lsf": {"queue": ["-q {}"], "account": ["-P {}"], "exclusive": ["-x"]},
    "sge": {"queue": ["-q {}"], "account": ["-P {}"]},
    "oar": {"queue": ["-q {}"], "account": ["--project={}"]},
}
ACCESS["squeue"] = ACCESS["slurm"]
WORDS = ("queue", "cluster", "account", "qos", "reservation", "constraint", "exclusive")
# All words of `partition` and of `system`; ReFrame's schema has its own keys of both.
PARTITION = ("nodes", *WORDS, "options", "binding", "references", "network", "scratch")
SYSTEM = (
    "scheduler",
    "on_suspect",
    "notify",
    "cluster",
    "account",
    "qos",
    "reservation",
    "environments",
)
SCHEMA = Path(reframe.__file__).with_name("schemas") / "config.json"

AS_ROOT = [[*pair] for pair in launchers.AS_ROOT.items()] if os.geteuid() == 0 else []


class SiteError(SystemExit):
    """A site file or its facts cannot be used; `path` and `line` say where.

    ReFrame ends with this one line, and without its traceback.
    """

    def __init__(self, text: str, path: Path, line: int = 1) -> None:
        super().__init__(f"{path}:{line}: {text}")
        self.text, self.path, self.line = text, path, line


class NameTwice(SiteError):
    """Two partitions have one name, by which ReFrame would take one for the other."""


def require_names(partitions: Iterable[tuple[str, str, int]], path: Path) -> None:
    """Requires that partitions have names of their own; NameTwice if two have the same.

    Args:
        partitions: the name of each, as ReFrame has it; what a person knows it by; its line.
        path: the site file.
    """
    known: dict[str, str] = {}
    for name, words, line in partitions:
        if name in known:
            text = f"two partitions are called '{name}': {known[name]}, and {words}; rename one"
            raise NameTwice(text, path, line)
        known[name] = words


def require_known(words: Iterable[str], whole: bool, owner: str, path: Path, line: int) -> None:
    """Requires that words are those of `partition` or, of a `whole` system, of `system`, or keys of
    ReFrame; SiteError names the first that is not, and the one that it is nearest to."""
    keys = json.loads(SCHEMA.read_text())["properties"]["systems"]["items"]["properties"]
    keys = keys if whole else keys["partitions"]["items"]["properties"]
    known = [*(SYSTEM if whole else PARTITION), *keys]
    for word in words:
        if word not in known:
            near = difflib.get_close_matches(word, known, n=1)
            text = f"{owner}: {word} is unknown" + (f"; is it {near[0]}?" if near else "")
            raise SiteError(text, path, line)


def partition(
    name: str, nodes: int | Sequence[int] = (), launcher: str = "", **choices: Any
) -> Facts:
    """A partition of a cluster: what a person chooses. Its facts are in NAME.json under `name`.

    Args:
        name: of the partition.
        nodes: per launch. Each number of a list makes a partition of its own: name-1, name-2, ...
        launcher: srun, mpirun, mpiexec or another one that ReFrame knows.
        choices: any of these words. Any other word is ReFrame's key of a partition.
            queue: the scheduler's name of it; NAME.json has it where this does not.
            cluster, account, qos, reservation, constraint: what jobs ask the scheduler for.
            exclusive: True asks for whole nodes and their memory; by default where the queue gives
                whole nodes alone.
            options: further options of the launcher, such as ["--mpi=pmi2"].
            binding: the launcher's options for cores, in place of its usual ones.
            modules: loaded for this partition, after those of the site.
            environs: names of environments; by default system and spack.
            references: kinds that must exist: "ratio", "time".
            devices: ReFrame's key, [{"type": "gpu", "num_devices": 4}]: jobs of Slurm, PBS
                and Flux ask for so many GPUs of each node, and there are tests in their memory.
            network: adapters that must carry the messages between nodes: ["mlx5_0", "mlx5_1"].
            scratch: folders of the file systems that restart files are written to.

    Returns:
        The choices, for `system`.

    Raises:
        SiteError: a word is unknown, or nodes or launcher are missing.
    """
    caller, owner = sys._getframe(1), f"partition '{name}'"
    path, line = Path(caller.f_code.co_filename), caller.f_lineno
    require_known(choices, False, owner, path, line)
    for word, value in (("nodes", nodes), ("launcher", launcher)):
        if value in ((), [], ""):
            raise SiteError(f"{owner} has no {word}", path, line)
    return {"name": name, "nodes": nodes, "launcher": launcher, **choices, "line": line}


def system(
    file: str,
    *,
    scheduler: str,
    partitions: Sequence[Facts],
    on_suspect: str = "",
    notify: str | Sequence[str] = (),
    cluster: str = "",
    account: str = "",
    qos: str = "",
    reservation: str = "",
    modules: Sequence[str] = (),
    environments: Sequence[Facts] = (),
    **keys: Any,
) -> Facts:
    """A cluster behind a scheduler, as ReFrame has systems.

    Args:
        file: the site file, __file__. The facts are in the .json file of its name.
        scheduler: ReFrame's name of it.
        partitions: each made by `partition`.
        on_suspect: a command that runs call for bad nodes (`bisection run --act`).
        notify: where runs send their verdict, [TEMPLATE=]URL or a list of them.
        cluster, account, qos, reservation: of all partitions that name none. A run's own
            reservation (`bisection run --reservation`) goes before.
        modules: loaded before building and running.
        environments: the site's own, as ReFrame has them.
        keys: other keys of a system in ReFrame's configuration.

    Raises:
        SiteError: NAME.json is missing, broken, or has no facts of a partition.
    """
    path = Path(file)
    require_known(keys, True, "the system", path, 1)
    facts = site_facts(path)
    software = facts.get("software", {})
    of_all = {"cluster": cluster, "account": account, "qos": qos, "reservation": reservation}
    used = {word: value for word, value in of_all.items() if value}
    of_run = {"reservation": held} if (held := os.environ.get(paths.RESERVATION)) else {}
    if scheduler not in ACCESS:
        raise SiteError(f"scheduler '{scheduler}': there are {', '.join(ACCESS)}", path)
    known_words = ACCESS[scheduler]
    parts, names = [], []
    for choices in partitions:
        name, nodes = choices["name"], choices["nodes"]
        if (known := facts["partitions"].get(name)) is None:
            there = ", ".join(facts["partitions"]) or "none"
            text = f"partition '{name}' has no facts in {path.stem}.json, only {there}"
            text = f"{text}: mend the name, or {_refresh(path.stem)}"
            raise SiteError(text, path, choices["line"])
        asked = {**used, **choices, **of_run}
        if words := [word for word in WORDS if asked.get(word) and word not in known_words]:
            text = f"partition '{name}': {scheduler} has no {words[0]}; access=[...] has any option"
            raise SiteError(text, path, choices["line"])
        adapters = [device["name"] for device in known.get("networks", [])]
        if adapters and (other := [a for a in choices.get("network", []) if a not in adapters]):
            text = f"partition '{name}': network '{other[0]}' is none of {', '.join(adapters)}"
            raise SiteError(text, path, choices["line"])
        several = isinstance(nodes, (list, tuple))
        for count in nodes if several else [nodes]:
            given = {**asked, "name": f"{name}-{count}" if several else name}
            given["nodes"] = count
            given |= {"on_suspect": on_suspect} if on_suspect else {}
            given |= {"notify": notify} if notify else {}
            parts.append(as_reframe(given, known, scheduler, software.get("mpi", {})))
            words = f"'{name}' with nodes={nodes} in line {choices['line']}"
            words += f", queue {choices['queue']}" if choices.get("queue") else ""
            names.append((parts[-1]["name"], words, choices["line"]))
    require_names(names, path)
    if modules:
        keys["modules"] = [*modules]
    if any("modules" in part for part in [keys, *parts, *environments]):
        # Where nothing is loaded, a shell without modules will do.
        keys.setdefault("modules_system", software.get("modules_system", "nomod"))
    about = {"name": path.stem, "descr": f"cluster {path.stem}", "hostnames": [".*"]}
    return {**about, **keys, "partitions": parts}


def as_reframe(choices: Facts, facts: Facts, scheduler: str, mpi: Facts) -> Facts:
    """A partition as ReFrame has it.

    Args:
        choices: as `partition` makes them, with one number of nodes.
        facts: of this partition, as NAME.json has them.
        scheduler: ReFrame's name of it.
        mpi: the facts of the MPI library; its `kind` says how mpirun binds.
    """
    given = {word: value for word, value in choices.items() if word != "line"}
    launcher, extras = given["launcher"], given.pop("extras", {})
    # A queue of whole nodes, too, gives a job only as much memory as it asks for.
    known = {"queue": facts.get("queue", ""), "exclusive": facts.get("whole_nodes")}
    asked = {**known, **_taken(given, WORDS)}
    asked = {word: value for word, value in asked.items() if value}
    devices = [each for each in given.get("devices", []) if each.get("type") == "gpu"]
    if devices and "gpus" in ACCESS[scheduler]:
        asked["gpus"] = sum(each.get("num_devices", 1) for each in devices)
    access = [line.format(asked[word]) for word in asked for line in ACCESS[scheduler][word]]
    usual = launchers.binding(launcher, mpi.get("kind", ""))
    options = [*given.pop("options", []), *given.pop("binding", usual)]
    own = {
        "references": [],
        **_taken(given, ("references", "network", "scratch", "on_suspect", "notify")),
    }
    limit = {"max_time": facts["max_time"]} if facts.get("max_time") else {}
    nodes = given.pop("nodes")
    access += given.get("access", [])
    of = schedulers.of(scheduler)
    other = of.cluster_named(access)
    unset = [f"unset {name}" for name in of.withheld if other]
    return {
        "descr": f"{nodes} of {facts.get('nodes', '?')} nodes",
        "scheduler": scheduler,
        "environs": ["system", "spack"],
        # Two launches at once would disturb each other.
        "max_jobs": 1,
        "processor": facts.get("processor", {}),
        **given,
        "access": access,
        "sched_options": {
            # Of Slurm: as many nodes as are asked for, not as many tasks somewhere.
            "use_nodes_option": True,
            **({"slurm_multi_cluster_mode": [other]} if other else {}),  # for sacct
            **given.get("sched_options", {}),
        },
        "prepare_cmds": [*unset, *given.get("prepare_cmds", [])],
        "env_vars": [*AS_ROOT, *given.get("env_vars", [])],
        "extras": {
            "nodes": nodes,
            "binding": options,
            **own,
            **limit,
            **extras,
        },
    }


def _taken(given: Facts, words: Iterable[str]) -> Facts:
    return {word: given.pop(word) for word in words if word in given}


def site_facts(file: Path) -> Facts:
    """Returns what NAME.json beside a site file says; SiteError if it cannot be used."""
    path = file.with_suffix(".json")
    try:
        facts = json.loads(path.read_text())
    except OSError as error:
        raise SiteError(f"{error.strerror}: {_refresh(file.stem)}", path) from None
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        raise SiteError(f"is not JSON ({error}): {_refresh(file.stem)}", path, line) from None
    if not isinstance(facts, dict) or not isinstance(facts.get("partitions"), dict):
        raise SiteError(f"has no facts of partitions: {_refresh(file.stem)}", path)
    if facts.get("version") != FACTS_VERSION:
        text = f"version {facts.get('version')}, where {FACTS_VERSION} is read"
        raise SiteError(f"{text}: {_refresh(file.stem)}", path)
    return facts


def _refresh(name: str) -> str:
    return f"`bisection site new {name} --refresh` writes it"
