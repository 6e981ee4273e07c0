"""A Slurm cluster of this host alone, once with an accounting database and once without."""

import os
from pathlib import Path

from reframe.utility import import_module_from_file

ROOT = Path(__file__).resolve().parents[3]
common = import_module_from_file(str(ROOT / "site-configs" / "common.py"))
AS_ROOT = [["OMPI_ALLOW_RUN_AS_ROOT", "1"], ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"]]

site_configuration = common.configuration(
    systems=[
        {
            "name": "slurm_site",
            "hostnames": [".*"],
            "partitions": [
                {
                    "name": scheduler,
                    "scheduler": scheduler,
                    "launcher": "mpirun",
                    "environs": ["system"],
                    "max_jobs": 1,
                    "sched_options": {
                        "max_sacct_failures": 6,
                        "slurm_pending_job_reason_poll_freq": 1,  # at every poll
                    },
                    # A site file need not give the topology.
                    "processor": {
                        name: value
                        for name, value in common.this_machine().items()
                        if name != "topology" or scheduler == "slurm"
                    },
                    "env_vars": AS_ROOT if os.geteuid() == 0 else [],
                    "extras": {"nodes": 1, "binding": ["--oversubscribe"], "references": []},
                }
                for scheduler in ("slurm", "squeue")
            ],
        }
    ]
)
