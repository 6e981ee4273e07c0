"""Differences between MPI libraries' launchers: whose mpirun it is, and where it puts ranks.

Standard library only: site files and src/tests read this table too.
"""

import functools
import os
import re
import shutil
import subprocess

# What an mpirun prints of itself -> the MPI library that it belongs to.
LIBRARIES = {
    "openmpi": r"Open MPI|OpenRTE",
    "intel-mpi": r"Intel\(R\) MPI",
    "mpich": r"HYDRA|MPICH",
    "mvapich": r"MVAPICH",
}

# Launchers of MPI libraries, as ReFrame has them too.
MPIRUNS = ("mpirun", "mpiexec")

# Options by which a launcher gives each rank and thread a core of its own; kernels/layouts.py fills
# in the fields. Slurm's srun does not take --cpus-per-task over from sbatch.
SRUN = ["--cpu-bind=cores", "--cpus-per-task={threads}"]
HYDRA = ["-ppn {ranks_per_node}", "-bind-to core:{threads}", "-map-by core:{threads}"]
BINDING = {
    "openmpi": ["--map-by ppr:{ranks_per_node}:node:PE={threads}", "--bind-to core"],
    # Its hydra ignores -bind-to and -map-by (2021.18), and shares all cores out equally.
    "intel-mpi": ["-ppn {ranks_per_node}", "-genv I_MPI_PIN_DOMAIN auto"],
    "mpich": HYDRA,
    "mvapich": HYDRA,
}

# Variables by which more ranks than cores share those of a host, and let others run as they wait.
# Each library ignores those of the others. MPICH's ranks spin all the same.
SHARING = {
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",  # Open MPI to version 4
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",  # from version 5
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "I_MPI_THREAD_YIELD": "2",  # sched_yield
    "I_MPI_PIN": "0",
}

# Open MPI refuses to run for root, which is who one is in a container.
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def binding(launcher: str, library: str) -> list[str]:
    """The options for cores of a launcher, as ReFrame calls it, and of its library."""
    of_library = BINDING.get(library, BINDING["openmpi"])
    return {"srun": SRUN, **dict.fromkeys(MPIRUNS, of_library)}.get(launcher, [])


def library_of(about: str) -> tuple[str, str]:
    """The MPI library (of LIBRARIES; "" for another) and its version, of what its mpirun prints of
    itself."""
    name = next((name for name, words in LIBRARIES.items() if re.search(words, about)), "")
    # Intel's is a year and an update: "Version 2021.13 Build 20240515".
    match = re.search(r"\d+(?:\.\d+)+", about)
    return name, match[0] if match else ""


def library(mpirun: str) -> tuple[str, str]:
    """The MPI library of an mpirun, and its version; "" for one that is not there."""
    program = shutil.which(mpirun)
    return _library(program) if program else ("", "")


@functools.cache
def _library(program: str) -> tuple[str, str]:
    # Intel's looks for the rest of itself there.
    path = f"{os.path.dirname(program)}:{os.environ['PATH']}"
    command, pipe = [program, "--version"], subprocess.PIPE
    done = subprocess.run(command, env={**os.environ, "PATH": path}, stdout=pipe, stderr=pipe)
    return library_of((done.stdout + done.stderr).decode(errors="replace"))
