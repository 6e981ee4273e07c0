"""The common part of every site: folders of results, logging, environments, a machine's cores.

A site file imports this one and hands ReFrame one dictionary. For a cluster, with the facts of
NAME.json beside it (`bisection site new` writes both files):

    site_configuration = common.slurm(__file__, partitions=[common.partition(...), ...])

or, where all of ReFrame's keys are written by hand:

    site_configuration = common.configuration(systems=[...])
"""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from reframe.utility import import_module_from_file

from bisection.core import launchers

Facts = dict[str, Any]  # a part of the dictionary that ReFrame reads

_cluster = import_module_from_file(str(Path(__file__).with_name("common_cluster.py")))
partition, make_system, AS_ROOT = _cluster.partition, _cluster.system, _cluster.AS_ROOT
_simulated = import_module_from_file(str(Path(__file__).with_name("common_simulated.py")))

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
# For partitions that SimGrid simulates: CMake takes its smpicc.
SMPI = {
    "name": "smpi",
    "features": ["kernels", "simulated"],
    "extras": {"cmake": [f"-DBX_SIMULATED={_simulated.SMPI}"]},
    **NO_COMPILERS,
}
ENVIRONMENTS = [{"name": "system", "features": ["kernels"], **NO_COMPILERS}, SPACK]

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

STORAGE = {
    "enable": True,
    "backend": "sqlite",
    "sqlite_db_file": str(REFRAME / "results.db"),
    "sqlite_conn_timeout": 60,
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
        "storage": [STORAGE],
        "logging": [LOGGING],
    }


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


def simulated(file: str, nodes: int) -> Facts:
    """The dictionary that ReFrame reads of a machine of checks/workshop/smpi/machines.csv.

    Args:
        file: the site file, whose name is the machine's.
        nodes: how many of its nodes a launch uses.
    """
    return configuration([_simulated.make_system(Path(file).stem, nodes)], [SMPI])


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


def cpulist(text: str) -> set[int]:
    """The CPUs of the kernel's list format, "0-3,8", as a set of numbers."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return cpus


def cpu_quota() -> float | None:
    """Returns how many CPUs' worth of time the control group grants (v2, then v1); None without a
    limit."""
    candidates = []
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            candidates.append((f"/sys/fs/cgroup{path}/cpu.max", None))
        elif "cpu" in controllers.split(","):
            folder = f"/sys/fs/cgroup/cpu{path}"
            candidates.append((f"{folder}/cpu.cfs_quota_us", f"{folder}/cpu.cfs_period_us"))
    # Inside a container the path is the host's and the group is mounted at the top.
    candidates.append(("/sys/fs/cgroup/cpu.max", None))
    candidates.append(
        ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us")
    )
    limits = []
    for quota_file, period_file in candidates:
        words = (_read(quota_file) + " " + (_read(period_file) if period_file else "")).split()
        if len(words) == 2 and words[0].isdigit() and int(words[1]) > 0:
            limits.append(int(words[0]) / int(words[1]))
    return min(limits, default=None)


def this_machine() -> Facts:
    """ReFrame's processor information for the cores that this process may use.

    ReFrame's own detection does not run for a local scheduler with a parallel launcher. Counted
    are the cores of the affinity mask, no more than the control group's quota; cpus that share a
    core, a socket or a NUMA node are distinguished by /sys.
    """
    allowed = os.sched_getaffinity(0)
    cores, sockets, nodes = {}, {}, {}
    for cpu in sorted(allowed):
        topology = f"/sys/devices/system/cpu/cpu{cpu}/topology"
        siblings = cpulist(_read(f"{topology}/thread_siblings_list")) or {cpu}
        package = _read(f"{topology}/physical_package_id").strip() or "0"
        cores.setdefault(min(siblings), set()).add(cpu)
        sockets.setdefault(package, set()).add(cpu)
    for node in Path("/sys/devices/system/node").glob("node[0-9]*"):
        cpus = cpulist(_read(node / "cpulist")) & allowed
        if cpus:
            nodes[int(node.name[4:])] = cpus
    nodes = nodes or {0: set(allowed)}

    quota = cpu_quota()
    count = len(cores) if quota is None else max(1, min(len(cores), int(quota)))
    per_core = min(len(cpus) for cpus in cores.values())
    info = _read("/proc/cpuinfo")
    return {
        "arch": os.uname().machine,
        "vendor": _cpuinfo(info, "vendor_id"),
        "model": _cpuinfo(info, "model name"),
        "num_cpus": count * per_core,
        "num_cpus_per_core": per_core,
        "num_cpus_per_socket": -(-count * per_core // len(sockets)),
        "num_sockets": len(sockets),
        "topology": {
            "numa_nodes": [_mask(nodes[key]) for key in sorted(nodes)],
            "sockets": [_mask(sockets[key]) for key in sorted(sockets)],
            "cores": [_mask(cores[key]) for key in sorted(cores)],
        },
    }


def _mask(cpus: Iterable[int]) -> str:
    return hex(sum(1 << cpu for cpu in cpus))


def _cpuinfo(info: str, key: str) -> str:
    values = (line.split(":", 1)[1] for line in info.splitlines() if line.startswith(key))
    return next(values, "unknown").strip()


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
