"""checks/network.py on real ReFrame with a fake kernel."""

from bisection.kernels import tables

PATTERNS = ("-n", "^network.*launch.layout=mpi")


def test_every_pattern_is_judged_at_its_sizes_and_fitted(bisection):
    run = bisection(selected=PATTERNS, tier="nightly")
    assert run.code == 0, run.text
    cases = {c["method"]: c for c in run.verdict["cases"] if c["check"] == "network"}
    assert set(cases) == set(tables.methods("patterns"))
    names = {m["name"] for m in cases["pingpong"]["metrics"]}
    assert {"time_8B", "time_4MiB", "fit_latency", "fit_bandwidth", "fit_error"} <= names
    assert "time" in {m["name"] for m in cases["barrier"]["metrics"]}


def test_a_pattern_that_is_wrong_or_cannot_run(bisection):
    faults = {"halo": "wrong", "node-to-node": "inapplicable", "allreduce": "inapplicable"}
    run = bisection(selected=PATTERNS, tier="nightly", faults=faults)
    assert run.code == 1, run.text
    verdicts = {c["method"]: c["verdict"] for c in run.verdict["cases"] if c["check"] == "network"}
    assert verdicts["node-to-node"] == "not applicable"  # on one node
    assert verdicts["allreduce"] == verdicts["halo"] == "FAIL"
    assert "wrong answer of halo" in run.said
    assert verdicts["alltoall"] == "pass"


def test_one_rank_alone_has_no_pattern_between_two(bisection):
    selected = ("-n", "^network%method=(pingpong|alltoall)%.*layout=node%")
    run = bisection(selected=selected, tier="nightly", faults={"pingpong": "inapplicable"})
    assert run.code == 0, run.text
    assert run.case("pingpong", "node", "sweep")["verdict"] == "not applicable"
    assert run.case("alltoall", "node", "sweep")["verdict"] == "pass"
