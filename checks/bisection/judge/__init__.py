"""The verdict on a run. Each ruling is a function from a verdict and the evidence to a verdict.

No ruling reads a file or measures. Exit code, first line, report, verdict.json, JUnit and
Prometheus are made from what the last ruling returns.
"""

import traceback

from bisection.core.reasons.base import Text
from bisection.judge import alarms, every_node, launch_rulings, network, retest
from bisection.judge.evidence import Evidence
from bisection.runs.run_verdict import RunVerdict

# In the order of checks/docs/night.md, "Reading the verdict".
RULINGS = (
    launch_rulings.rule_price,  # core-hours, with those of reruns and the retest
    launch_rulings.rule,  # other processes used the cores; wrong answers without a selected test
    launch_rulings.rule_reruns,  # launches that were rerun, as other processes disturbed them
    launch_rulings.rule_hosts,  # slow nodes, faulty adapters
    every_node.rule,  # nodes of a campaign, beside their peers
    network.rule_pairs,  # components of the network that are slow, suspect, or worse than before
    retest.rule_limits,  # metrics outside their limits, after the retest
    alarms.rule_changes,  # changes and faster metrics since the earlier sessions
    retest.rule,  # metrics slower than in all earlier sessions, after the retest
    alarms.rule,  # metrics worse since an earlier session
    network.rule,  # the verdict on the network: pairs, impacts, levels, and all above
)


def rule(run: RunVerdict, evidence: Evidence | None = None) -> RunVerdict:
    """Applies all rulings to a run, as it was read from ReFrame's report, and to the evidence."""
    for ruling in RULINGS:
        try:
            run = ruling(run, evidence or Evidence())
        except Exception as error:  # a defect must not lose the night's verdict
            traceback.print_exc()
            lost = f"{ruling.__module__.rpartition('.')[2]} not judged: {error!r}"
            run = run.adding(troubles=[Text(lost)])
    return run
