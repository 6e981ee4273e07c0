"""This machine, whatever it is: one host, its cores, the mpirun on PATH.

Another site is another file like this one; README.md says how to add yours.
"""

from pathlib import Path

from reframe.utility import import_module_from_file

common = import_module_from_file(str(Path(__file__).with_name("common.py")))

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
                    "env_vars": common.AS_ROOT,
                    "extras": {
                        # Nodes a launch uses, and how the launcher binds.
                        "nodes": 1,
                        "binding": common.binding("mpirun"),
                        # Cores that a run may use tonight, and why not all.
                        "granted": common.granted(),
                        # The kinds of metric that must have a reference here ("ratio", "time"):
                        # one without is a failure. reference/systems/localhost.yaml holds them.
                        "references": ["ratio"],
                    },
                }
            ],
        }
    ]
)
