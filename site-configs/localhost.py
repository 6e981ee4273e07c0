"""This machine, whatever it is: one host, its cores, the mpirun on PATH.

Another site is another file like this one; README.md says how to add yours.
"""

import os
import shutil
import subprocess
from pathlib import Path

from reframe.utility import import_module_from_file

common = import_module_from_file(str(Path(__file__).with_name("common.py")))


def binding() -> list[str]:
    """Options by which this mpirun puts each rank on cores of its own.

    Filled in with {ranks_per_node} and {threads} of the layout (bisection/kernels/layouts.py).
    """
    mpirun = shutil.which("mpirun")
    command = [mpirun, "--version"]
    about = subprocess.run(command, capture_output=True, text=True).stdout if mpirun else ""
    if "HYDRA" in about or "Intel(R) MPI" in about:
        return ["-bind-to core:{threads}", "-map-by core:{threads}"]
    return ["--map-by ppr:{ranks_per_node}:node:PE={threads}", "--bind-to core"]


# Open MPI refuses to run for root, which is who one is in a container.
AS_ROOT = [["OMPI_ALLOW_RUN_AS_ROOT", "1"], ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"]]

site_configuration = common.configuration(
    systems=[
        {
            # Of a copy of this file: the copy's.
            "name": Path(__file__).stem,
            "descr": "this machine",
            "hostnames": [".*"],
            "partitions": [
                {
                    "name": "default",
                    "descr": "all cores that this process may use",
                    "scheduler": "local",
                    "launcher": "mpirun",
                    "environs": ["system", "spack"],
                    # Two launches at once would disturb each other.
                    "max_jobs": 1,
                    "processor": common.this_machine(),
                    "env_vars": AS_ROOT if os.geteuid() == 0 else [],
                    "extras": {
                        # Nodes a launch uses, and how the launcher binds.
                        "nodes": 1,
                        "binding": binding(),
                        # The kinds of metric that must have a reference here ("ratio", "time"):
                        # one without is a failure. reference/systems/localhost.yaml holds them.
                        "references": ["ratio"],
                    },
                }
            ],
        }
    ]
)
