"""The common part of every site: folders of results, logging, environments, a machine's cores.

A site file imports this one and hands ReFrame one dictionary. For a cluster, with the facts of
NAME.json beside it (`bisection site new` writes both files):

    site_configuration = common.slurm(__file__, partitions=[common.partition(...), ...])

or, where all of ReFrame's keys are written by hand:

    site_configuration = common.configuration(systems=[...])

or, where the site has a ReFrame configuration of its own:

    site_configuration = common.lend(THEIRS, {"SYSTEM:PARTITION": {...}})
"""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reframe.utility import import_module_from_file

from bisection.core import launchers
from bisection.sites.cluster import node_facts

Facts = dict[str, Any]  # a part of the dictionary that ReFrame reads

_cluster = import_module_from_file(str(Path(__file__).with_name("common_cluster.py")))
partition, make_system, AS_ROOT = _cluster.partition, _cluster.system, _cluster.AS_ROOT

ROOT = Path(__file__).resolve().parent.parent
HOME = Path(os.environ.get("BISECTION_HOME") or ROOT / ".bisection")
REFRAME = HOME / "reframe"

# One environment a way of building (bisection/rfm/launch.py). `+kernels` is what checks ask for.
# No compiler is named: CMake finds what the machine, or the modules of a site's own environment,
# puts on PATH. ReFrame's defaults are Cray's wrappers, hence the empty strings.
NO_COMPILERS = {"cc": "", "cxx": "", "ftn": "", "nvcc": ""}
SPACK = {
    "name": "spack",
    "features": ["kernels", "spack"],
    "extras": {"spack_env": "auto"},  # a folder of spack-env/, or auto
    **NO_COMPILERS,
}
ENVIRONMENTS: list[Facts] = [{"name": "system", "features": ["kernels"], **NO_COMPILERS}, SPACK]

GENERAL = {
    # A crash after the result was printed would pass without it.
    "trap_job_errors": True,
    # Judges end at once; a launch must not be disturbed by polling.
    "poll_rate_max": 50,
    "poll_rate_min": 2,
    "poll_rate_decay": 0.2,
    "topology_prefix": str(REFRAME / "topology"),
    "report_file": str(REFRAME / "reports" / "run-report-{sessionid}.json"),
}

# Of batch systems; a partition's own sched_options override them.
SCHED_OPTIONS = {
    # In polls, half a second or more each: a night survives a restart of the accounting database.
    "max_sacct_failures": 600,
    # Slurm's reasons that no waiting removes: such a job is cancelled at once, and BLOCKED.
    "slurm_job_cancel_reasons": [
        "AccountNotAllowed",
        "AssocMaxNodePerJobLimit",
        "AssocMaxWallDurationPerJobLimit",
        "BadConstraints",
        "InvalidAccount",
        "InvalidQOS",
        "JobHeldAdmin",
        "PartitionConfig",
        "PartitionDown",
        "PartitionInactive",
        "PartitionNodeLimit",
        "PartitionTimeLimit",
        "QOSMaxNodePerJobLimit",
        "QOSMaxWallDurationPerJobLimit",
        "QOSNotAllowed",
        "ReqNodeNotAvail",
    ],
}

# A record below "info" looks up all attributes of its test, which adds 0.1 s to every test: only
# where somebody asks for such records.
VERBOSE = any(re.match("-v+$|--verbose$", argument) for argument in sys.argv)

LOGGING = {
    "level": "debug2" if VERBOSE else "info",
    "handlers": [
        {
            "type": "file",
            "name": str(REFRAME / "reframe.log"),
            "level": "info",
            "format": "[%(asctime)s] %(levelname)s: %(check_info)s: %(message)s",
            "append": False,
        },
    ],
    "handlers_perflog": [
        {
            "type": "filelog",
            "basedir": str(REFRAME / "perflogs"),
            "prefix": "%(check_system)s/%(check_partition)s",
            "level": "info",
            "append": True,
            "format": "|".join(
                f"%(check_{name})s"
                for name in (
                    "job_completion_time",
                    "display_name",
                    "system",
                    "partition",
                    "environ",
                    "result",
                    "perfvalues",
                )
            ),
            "format_perfvars": "".join(
                f"%(check_perf_{name})s|"
                for name in ("value", "unit", "ref", "lower_thres", "upper_thres")
            ),
        }
    ],
}


def configuration(
    systems: list[Facts], environments: Sequence[Facts] = (), **general: Any
) -> Facts:
    """The dictionary that ReFrame reads; `general` overrides GENERAL. NameTwice: two partitions of
    a system have one name."""
    caller = sys._getframe(1)
    for system in systems:
        names = [
            (part["name"], " ".join(part.get("access", [])) or f"number {number}", caller.f_lineno)
            for number, part in enumerate(system["partitions"], 1)
            if "name" in part
        ]
        _cluster.require_names(names, Path(caller.f_code.co_filename))
    (REFRAME / "reports").mkdir(parents=True, exist_ok=True)
    return {
        "systems": [
            {"prefix": str(REFRAME), **system, "partitions": _scheduled(system["partitions"])}
            for system in systems
        ],
        "environments": [*ENVIRONMENTS, *environments],
        "general": [{**GENERAL, **general}],
        "logging": [LOGGING],
    }


def lend(
    theirs: Facts, partitions: dict[str, Facts], environments: Sequence[Facts] = ENVIRONMENTS[:1]
) -> Facts:
    """A site's own ReFrame configuration, by which our checks run, too. All that it has stays.

    Args:
        theirs: the site's `site_configuration`, which is not changed.
        partitions: by SYSTEM:PARTITION, the keys of ReFrame's partition that are to be set; their
            `extras` are added to those of the partition.
        environments: those that the partitions get, with the feature `kernels`.

    Raises:
        SiteError: a partition is unknown or lacks what our checks need, or an environment's name is
            taken.
    """
    caller, names = sys._getframe(1), [each["name"] for each in environments]
    detected = any(each.get("remote_detect") for each in theirs.get("general", []))
    wrong, left, systems = [], {**partitions}, []
    for system in theirs["systems"]:
        parts = [*system["partitions"]]
        for number, part in enumerate(parts):
            name = f"{system['name']}:{part['name']}"
            if (given := left.pop(name, None)) is None:
                continue
            parts[number] = lent = {**part, **given, "environs": [*part["environs"], *names]}
            usual = {"nodes": 1, "binding": launchers.binding(lent["launcher"], "")}
            of_nodes = {"use_nodes_option": True, **part.get("sched_options", {})}
            lent["sched_options"] = SCHED_OPTIONS | of_nodes | given.get("sched_options", {})
            lent["extras"] = usual | part.get("extras", {}) | given.get("extras", {})
            if lent["launcher"] == "local":
                wrong.append(
                    f"{name}: launcher local starts one rank: it must be srun, mpirun, ..."
                )
            if not lent.get("processor") and not detected:
                wrong.append(f"{name}: processor, the cores of a node, is missing")
        systems.append({**system, "partitions": parts})
    wrong += [f"{name}: there is no such SYSTEM:PARTITION" for name in left]
    known = [*theirs.get("environments", []), *environments]
    twice = [each["name"] for each in theirs.get("environments", []) if each["name"] in names]
    wrong += [f"environment {name}: the site has one of that name" for name in twice]
    if wrong:
        path, line = Path(caller.f_code.co_filename), caller.f_lineno
        raise _cluster.SiteError("; ".join(wrong), path, line)
    return {**theirs, "systems": systems, "environments": known}


def cluster(
    file: str, *, scheduler: str, environments: Sequence[Facts] = (), **choices: Any
) -> Facts:
    """The dictionary that ReFrame reads of a cluster, from its choices and the facts of NAME.json.

    Args:
        file: the site file, __file__.
        scheduler: ReFrame's name of it.
        environments: the site's own, as ReFrame has them.
        choices: partitions, account, modules and keys of ReFrame (common_cluster.system).

    Raises:
        SiteError: NAME.json is missing, broken, or has no facts of a partition.
    """
    given = {"scheduler": scheduler, "environments": environments, **choices}
    name = Path(file).stem
    if (ROOT / "spack-env" / name / "spack.yaml").exists():
        own = {"extras": {"spack_env": name}, "target_systems": [name]}
        environments = [{**SPACK, **own}, *environments]
    return configuration([make_system(file, **given)], environments)


def slurm(file: str, *, scheduler: str = "slurm", **choices: Any) -> Facts:
    """A Slurm cluster; its scheduler is squeue where there is no accounting database."""
    return cluster(file, scheduler=scheduler, **choices)


def _scheduled(partitions: list[Facts]) -> list[Facts]:
    return [
        {**partition, "sched_options": {**SCHED_OPTIONS, **partition.get("sched_options", {})}}
        for partition in partitions
    ]


def environment_of(name: str, prefix: str, **variables: str) -> Facts:
    """An environment, as ReFrame has it, of an MPI library in a folder.

    Args:
        name: of the environment.
        prefix: the folder, whose bin/ has mpicc and mpirun.
        variables: others that the library needs.
    """
    env_vars = {"PATH": f"{prefix}/bin:$PATH", **variables}
    return {
        "name": name,
        "features": ["kernels"],
        "env_vars": [[*pair] for pair in env_vars.items()],
        "extras": {"binding": binding(f"{prefix}/bin/mpirun")},
        **NO_COMPILERS,
    }


# ---- this machine ----


def binding(mpirun: str) -> list[str]:
    """Options by which an mpirun puts each rank on cores of its own."""
    return launchers.binding("mpirun", launchers.library(mpirun)[0])


def cpu_quota() -> float | None:
    """Returns how many CPUs' worth of time the control groups grant; None without a limit."""
    limits = []
    for folder in node_facts.groups("cpu"):  # version 2: "max 100000", in us; 1: -1 for no limit
        text = node_facts.read(f"{folder}/cpu.max") or " ".join(
            node_facts.read(f"{folder}/cpu.cfs_{name}_us") for name in ("quota", "period")
        )
        quota, _, period = text.partition(" ")
        if quota.isdigit() and period.isdigit() and int(period) > 0:
            limits.append(int(quota) / int(period))
    return min(limits, default=None)


def this_machine() -> Facts:
    """ReFrame's processor information for the cores that this process may use.

    ReFrame's own detection does not run for a local scheduler with a parallel launcher. Counted
    are the cores of the affinity mask, no more than the control groups' quota; cpus that share a
    core, a socket or a NUMA node are distinguished by /sys.
    """
    facts, quota = node_facts.processor(), cpu_quota()
    del facts["topology"]["caches"]  # a layout of one rank per cache is for nodes of clusters
    per_core = facts["num_cpus_per_core"]
    cores = facts["num_cpus"] // per_core
    cores = cores if quota is None else max(1, min(cores, int(quota)))
    per_socket = -(-cores * per_core // facts["num_sockets"])
    return {**facts, "num_cpus": cores * per_core, "num_cpus_per_socket": per_socket}


def granted() -> str:
    """How many cores of this machine a run may use, and what keeps it from more: a fact of each
    launch, as `1 of 2: CPU quota 0.24`."""
    machine = this_machine()
    may_use = machine["num_cpus"] // machine["num_cpus_per_core"]
    allowed = len(machine["topology"]["cores"])
    masked = (os.cpu_count() or 0) - len(os.sched_getaffinity(0))  # CPUs
    whole = allowed + max(masked, 0) // machine["num_cpus_per_core"]
    if may_use < allowed:
        return f"{may_use} of {whole}: CPU quota {cpu_quota():.2g}"
    return f"{allowed} of {whole}: affinity mask" if allowed < whole else str(allowed)
