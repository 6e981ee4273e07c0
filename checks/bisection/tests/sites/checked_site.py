"""A program for the login node of a virtual cluster: `site check` without a build of the kernels.

checked_site.py SITE.py     prints [partition, probe, state, clause] of each result as JSON
"""

import json
import sys

from bisection.core import paths
from bisection.sites.cluster import check
from bisection.sites.cluster.check_probes import PROBES
from bisection.sites.site import load_site

site = load_site(sys.argv[1])
(folder := paths.home() / "site-check").mkdir(parents=True, exist_ok=True)
subjects = check.subjects(site, site.partitions, folder, 120)
for subject in subjects:
    subject.built[subject.kernel_key] = "another partition"
findings = check.run(PROBES, subjects)
print(json.dumps([[f.partition, f.probe, f.state, f.text] for f in findings]))
