"""A program for the login node of a virtual cluster: `site check` without a build of the kernels.

checked_site.py SITE.py     prints [partition, probe, state, clause] of each result as JSON
"""

import json
import sys

from bisection.core import paths
from bisection.sites.before_run import enter_cluster
from bisection.sites.cluster import probe_runner
from bisection.sites.cluster.probes import PROBES
from bisection.sites.site_files import load_site

site = load_site(sys.argv[1])
enter_cluster(site.partitions)
(folder := paths.home() / "site-check").mkdir(parents=True, exist_ok=True)
subjects = probe_runner.subjects(site, site.partitions, folder, 120)
for subject in subjects:
    subject.built[subject.kernel_key] = "another partition"
findings = probe_runner.run(PROBES, subjects)
print(json.dumps([[f.partition, f.probe, f.state, f.text] for f in findings]))
