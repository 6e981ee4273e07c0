"""A real transpose and real patterns under SimGrid's MPI, before and after one primitive got worse.

Messages take time there and computing none: the machine that runs the test does not matter, and
every session of a side is the same. Skipped where `make test-kernels` found no SimGrid.
"""

import pytest
from made_up import case, sessions
from test_blame_simulated import FOLDER, simulated

from bisection.core.reasons import Code, clause
from bisection.kernels import results

missing = simulated.missing(FOLDER, "patterns", "transpose")
pytestmark = pytest.mark.skipif(bool(missing), reason=str(missing))
TREE = simulated.Tree(2, 4, 4)
HOSTS = len(TREE.names())
LAUNCHES = {
    "patterns": ("sweep", "--method pingpong,alltoallv --largest 16384 --repeats 1 --block 1"),
    "transpose": (
        "cnt40",
        "--method alltoallv,p2p --planner estimate --repeats 1 --block 2",
    ),
}


def measured(cables):
    """The test cases of a session on the tree with these cables."""
    cases = []
    for kernel, (name, options) in LAUNCHES.items():
        arguments = ("--case", name, *options.split())
        outcome = simulated.simulate(FOLDER, kernel, TREE, *arguments, cables=cables)
        assert outcome.code == 0, outcome.stdout + outcome.stderr
        entries = [e for e in outcome.result["results"] if e["applicable"]]
        for method in dict.fromkeys(entry["method"] for entry in entries):
            metrics = results.metrics(e for e in entries if e["method"] == method)
            values = {n: [m["value"], m["unit"], m["better"]] for n, m in metrics.items()}
            check = {"patterns": "network"}.get(kernel, kernel)
            where = {"check": check, "case": name, "geometry": f"{HOSTS}x1"}
            cases.append(case(method, values, **where))
    return cases


def test_more_latency_explains_slower_transposes(compared):
    before = measured("")
    after = measured("; ".join(f"node {host} both 1 2e-7" for host in range(HOSTS)))
    result = compared(sessions(0, [before] * 5), sessions(100, [after] * 5))
    for method in ("alltoallv", "p2p"):
        (transpose,) = [r for r in result.rows if r.check == "transpose" and r.method == method
                        and r.metric == "time"]  # fmt: skip
        cause = transpose.cause
        assert (cause.code, cause["cause"]) == (Code.NETWORK_EXPLAINS, "latency")
        assert cause["change"] == pytest.approx(0.4, abs=0.03)
        assert cause["points"] == pytest.approx(transpose.slowdown - 1, rel=0.15)
        print(f"{method}: {clause(cause)}")
