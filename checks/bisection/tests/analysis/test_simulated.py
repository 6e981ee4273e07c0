"""A transpose and patterns before and after one primitive got worse, under SimGrid's MPI: every
session of a side is the same."""

import pytest
from made_up import case, sessions
from on_simgrid import launched, needs

from bisection.core.reasons.base import clause
from bisection.core.reasons.performance import NetworkExplains
from bisection.kernels import results

pytestmark = needs("patterns", "transpose")
LAUNCHES = {
    "patterns": ("sweep", "--method pingpong,alltoallv --largest 16384 --repeats 1 --block 1"),
    "transpose": ("cnt40", "--method alltoallv,p2p --planner estimate --repeats 1 --block 2"),
}


def measured(cables):
    """The test cases of a session on a tree of eight hosts with these cables."""
    cases = []
    for kernel, (name, options) in LAUNCHES.items():
        outcome = launched(kernel, 2, 4, 4, cables, "--case", name, *options.split())
        entries = [e for e in outcome.result["results"] if e["applicable"]]
        for method in dict.fromkeys(entry["method"] for entry in entries):
            metrics = results.metrics(e for e in entries if e["method"] == method)
            values = {n: [m["value"], m["unit"], m["better"]] for n, m in metrics.items()}
            check = {"patterns": "network"}.get(kernel, kernel)
            cases.append(case(method, values, check=check, case=name, geometry="8x1"))
    return cases


def test_more_latency_explains_slower_transposes(compared):
    before = measured("")
    after = measured("; ".join(f"node {host} both 1 2e-7" for host in range(8)))
    result = compared(sessions(0, [before] * 5), sessions(100, [after] * 5))
    for method in ("alltoallv", "p2p"):
        (transpose,) = [r for r in result.rows if r.check == "transpose" and r.method == method
                        and r.metric == "time"]  # fmt: skip
        cause = transpose.cause
        assert (type(cause), cause.cause) == (NetworkExplains, "latency")
        assert cause.change == pytest.approx(0.4, abs=0.03)
        assert cause.points == pytest.approx(transpose.slowdown - 1, rel=0.15)
        print(f"{method}: {clause(cause)}")
