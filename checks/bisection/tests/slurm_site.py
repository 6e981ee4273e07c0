"""A Slurm cluster of this host alone, once with an accounting database and once without. Further
extras of both are in the variable SLURM_EXTRAS, as JSON."""

import json
import os
from pathlib import Path

from reframe.utility import import_module_from_file

LOCALHOST = Path(__file__).resolve().parents[3] / "site-configs" / "localhost.py"

site_configuration = import_module_from_file(str(LOCALHOST)).site_configuration
(system,) = site_configuration["systems"]
(local,) = system["partitions"]
options = {"max_sacct_failures": 6, "slurm_pending_job_reason_poll_freq": 1}  # at every poll
cluster = {
    **local,
    "environs": ["system"],
    "sched_options": {**local["sched_options"], **options},
    "extras": {"nodes": 1, "binding": ["--oversubscribe"], "references": []}
    | json.loads(os.environ.get("SLURM_EXTRAS", "{}")),
}
# A site file need not give the topology. Two threads per core, as /sys has it; Slurm may count one.
processor = {name: value for name, value in local["processor"].items() if name != "topology"}
processor |= {name: 2 * value for name, value in processor.items() if name.startswith("num_cpus")}
cluster["processor"] = {**local["processor"], **processor}
squeue = {"name": "squeue", "scheduler": "squeue", "processor": processor}
partitions = [{**cluster, "name": "slurm", "scheduler": "slurm"}, {**cluster, **squeue}]
system |= {"name": "slurm_site", "partitions": partitions}
