"""The verdict on a run. Each ruling is a function from a verdict and the evidence to a verdict.

No ruling reads a file or measures. Exit code, first line, report, verdict.json, JUnit and
Prometheus are made from what the last ruling returns.
"""

import traceback
from collections.abc import Callable
from functools import reduce

from bisection.core.reasons import Code
from bisection.judge import (
    alarms,
    bounds,
    disturbed,
    hosts,
    launches,
    network,
    nights,
    pairs,
    retest,
)
from bisection.judge.evidence import Evidence
from bisection.runs.model import RunVerdict

# In the order of checks/README, "Reading the verdict".
RULINGS = (
    launches.rule,  # other processes had the cores; a wrong answer that no selected test is about
    disturbed.rule,  # launches that were measured again, as other processes had their cores
    hosts.rule,  # slow nodes, faulty adapters
    pairs.rule,  # components of the network that are slow, suspect, or worse than before
    bounds.rule,  # what was outside its bounds, after its retest
    nights.rule,  # what changed, and what is faster, beside the earlier sessions
    retest.rule,  # what is slower than in all earlier sessions, after its retest
    alarms.rule,  # what is worse since an earlier session
    network.rule,  # whether users may have this network: pairs, impacts, levels, and all above
)


def rule(run: RunVerdict, evidence: Evidence | None = None) -> RunVerdict:
    """Rules on a run.

    Args:
        run: as it was read from ReFrame's report.
        evidence: what is known beside it; None: nothing.
    """

    def ruled(verdict: RunVerdict, ruling: Callable[..., RunVerdict]) -> RunVerdict:
        try:
            return ruling(verdict, evidence or Evidence())
        except Exception as error:  # a defect must not lose the night's verdict
            traceback.print_exc()
            lost = f"{ruling.__module__.rpartition('.')[2]} not judged: {error!r}"
            return verdict.noting(troubles=[Code.NOT_KEPT(error=lost)])

    return reduce(ruled, RULINGS, run)
