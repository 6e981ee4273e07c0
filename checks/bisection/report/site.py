"""The output of `bisection site check`: a line per probe, and advice below a wrong one."""

from collections.abc import Iterable

from bisection.core.grouping import grouped
from bisection.core.reasons import Code, Reason, clause
from bisection.report.lines import fitting
from bisection.sites.cluster.check import Finding, State
from bisection.sites.cluster.check_probes import PROBES

TITLES = {probe.name: probe.title for probe in PROBES}
WIDTH = max(map(len, TITLES.values()))

# What to do, by the code of what is wrong. {name} is the site, {partition} the partition.
REMEDIES = {
    Code.SITE_DEFECTS: "Mend what it names; `bisection doctor --system {name}` lists all defects.",
    Code.SCHEDULER_SILENT: "`scontrol ping` shows whether it runs; SLURM_CONF names its file.",
    Code.NO_ACCOUNTING: 'Write scheduler="squeue" in the site file, or start slurmdbd.',
    Code.ACCOUNT_OPEN: "Write account=... in the site file.",
    Code.ACCOUNT_UNKNOWN: "Write one of these in the site file (sacctmgr show assoc).",
    Code.QUEUE_ACCOUNTS: "Write an account that can in the site file, or another queue.",
    Code.QUEUE_UNKNOWN: "Write one of these in the site file; `sinfo` lists them.",
    Code.NODES_UP: "Resume sound nodes, `scontrol update nodename=... state=resume`, or use fewer.",
    Code.NOT_PLACED: "Correct nodes, cores and options of {partition} in the site file.",
    Code.BLOCKED: "Look at the queue with `squeue`; --patience lets the job wait longer.",
    Code.TIMEOUT: "Look at the last step in the job's output.",
    Code.NODE_FAIL: "Repair the node, or drain it.",
    Code.OUT_OF_MEMORY: "Ask for more memory in the site file, such as --mem=0.",
    Code.CANCELLED: "Somebody or preemption cancelled it: check again.",
    Code.INFRASTRUCTURE: "`scontrol ping` shows whether the controller runs.",
    Code.OUTPUT_UNSEEN: "Put BISECTION_HOME on a file system that the nodes mount.",
    Code.NOT_ENDED: "Look at the job's output.",
    Code.MODULES_FAIL: "Write modules in the site file that `module avail` lists on a node.",
    Code.PROBE_NOT_BUILT: "Load an MPI library that has mpicc: modules=[...] in the site file.",
    Code.KERNELS_FAIL: "Load what is missing, or build with Spack: `bisection run -p spack`.",
    Code.NO_SPACE: "Make room there, or set BISECTION_HOME to a folder on another file system.",
    Code.KERNELS_LATE: "Other processes use the nodes, or the file system is slow: check again.",
    Code.FOLDER_UNSEEN: "Put BISECTION_HOME on a file system that these nodes mount and may write.",
    Code.PATH_UNSEEN: "Put it on a file system that these nodes mount.",
    Code.CORES_CLAIMED: "Correct `processor`, or `bisection site new {name} --refresh`.",
    Code.NODES_DIFFER: "Repair the odd nodes, or give each kind a partition with a constraint.",
    Code.FACTS_CHANGED: "Repair the nodes, or record it: `bisection site new {name} --refresh`.",
    Code.NO_WORLD: 'Try another launcher, or options=["--mpi=..."] of `srun --mpi=list`.',
    Code.WORLDS: 'Launcher and MPI library differ: try options=["--mpi=pmi2"] or another launcher.',
    Code.MISPLACED: "Correct the launcher's options for cores: `binding` in the site file.",
    Code.SRUN_UNBOUND: 'Write TaskPlugin=task/affinity in slurm.conf, or use launcher="mpirun".',
    Code.NETWORK_UNUSED_BY: "Look at UCX_TLS, OMPI_MCA_pml, FI_PROVIDER and the MPI build.",
    Code.LINK_SLOW: "Look at its cable, or record it: `bisection site new {name} --refresh`.",
    Code.RANK_EXIT_HANGS: "Use another launcher, or its option that ends all ranks with one.",
    Code.RANK_EXIT_LOST: "Use another launcher: with this one a crash passes for success.",
    Code.TIME_SHORT: "Choose a queue with a longer limit, or write max_time in extras.",
    Code.MEMORY_SHORT: "Ask for all memory of a node (--mem=0), or use fewer nodes.",
    # not tried
    Code.NO_FACTS: "`bisection site new {name} --refresh` writes it.",
    Code.LINK_DISTURBED: "Check again while nothing else runs on these nodes.",
    Code.SPEED_UNKNOWN: "`bisection site new {name} --refresh` records them.",
    Code.BYTES_UNCOUNTED: "Look at the MPI library's own report of its transport.",
    Code.SCHEDULER_UNASKED: "Slurm, PBS and Flux are checked; `bisection run` works with others.",
    Code.KERNELS_BY_SPACK: "`bisection run -p {environ}` builds them.",
}
REFUSED = "Correct queue, account, qos and nodes of {partition} in the site file."  # BLOCKED
OTHERWISE = "Write another queue in the site file, or ask for access to this one."  # QUEUE_*


def remedy(reason: Reason, name: str, partition: str) -> str:
    """Returns what to do about a reason of a site and its partition."""
    text = REMEDIES.get(reason.code, OTHERWISE)
    if reason.code == Code.BLOCKED and reason["refused"]:
        text = REFUSED
    return text.format(name=name, partition=partition, environ=reason["environ"])


BELOW = " " * 15  # further lines of a result begin below its title


def result_lines(finding: Finding, name: str) -> list[str]:
    """The lines of a result of the site `name`: its words, and for what is wrong or not tried what
    to do. None for what rests on another result: `untried` has them together."""
    state, reason = finding.state, finding.reason
    if reason.code == Code.RESTS_ON:
        return []
    lines = fitting(f"  {state:<9}  {TITLES[finding.probe]:<{WIDTH}}  {clause(reason)}", BELOW)
    if state != State.OK:
        lines += fitting(f"{BELOW}-> {remedy(reason, name, finding.partition)}", f"{BELOW}   ")
    return lines


def untried(findings: Iterable[Finding]) -> list[str]:
    """The lines on results of one partition that rest on others, by these."""
    resting = (finding for finding in findings if finding.reason.code == Code.RESTS_ON)
    lines = []
    for root, rest in grouped(resting, lambda finding: finding.reason["probe"]).items():
        titles = ", ".join(TITLES[finding.probe] for finding in rest)
        why = f'as "{TITLES[root]}" is not ok'
        lines += fitting(f"  {State.NOT_TRIED:<9}  {why}: {titles}", f"{BELOW[:-2]}")
    return lines
