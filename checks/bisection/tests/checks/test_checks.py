"""The checks of checks/*.py on real ReFrame with a fake kernel: what is judged, and what fails."""

import pytest
from running import run_in

from bisection.kernels import tables

MPI = "%.*layout=mpi%launch.case"
BOTH = "%.*layout=(mpi|node)%launch.case"


def named(*patterns):
    """ReFrame's options that select tests by their names without blanks."""
    return [word for pattern in patterns for word in ("-n", f"^{pattern}$")]


def verdicts(run):
    """(check, layout, case, method) -> verdict."""
    return {
        (c["check"], c["layout"], c["case"], c["method"]): c["verdict"]
        for c in run.verdict["cases"]
        if c["method"]
    }


@pytest.fixture(scope="module")
def run(fake, tmp_path_factory):
    """run(*patterns, faults) is a Run of the tests with these names."""

    def start(*patterns, faults=None):
        home = tmp_path_factory.mktemp("home")
        return run_in(home, fake, selected=named(*patterns), tier="upgrade", faults=faults)

    return start


@pytest.fixture(scope="module")
def healthy(run):
    return run(
        f"eigen{MPI}=(fock-256|aimpro-mini|pdsyevd-(3888|7194))",
        "eigen%.*layout=node%launch.case=crystal-mini",
        f"eigen_guess{MPI}=fock-512",
        "md(_layout)?%.*case=fe",
        f"md{MPI}=nacl-mini",
        f"npar{BOTH}=mini1",
        f"npar{MPI}=mini[24]",
        f"patches{MPI}=(dhfr-mini|f1-atpase)",
        f"tasks{MPI}=gamess-uk(-mini)?",
        f"network{MPI}=sweep",
    )


@pytest.mark.parametrize(
    ("check", "layout", "case", "method", "verdict"),
    [
        ("eigen", "node", "crystal-mini", "jacobi", "pass"),
        ("eigen", "mpi", "pdsyevd-3888", "pdsyevd", "pass"),
        ("eigen", "mpi", "pdsyevd-7194", "pdsyevd", "not applicable"),  # needs a machine
        ("eigen", "mpi", "aimpro-mini", "jacobi", None),
        ("eigen", "mpi", "pdsyevd-3888", "pdsyev", None),
        ("eigen_guess", "mpi", "fock-512", "jacobi", "pass"),
        ("md", "node", "fe", "dlpoly3", "pass"),
        ("md", "mpi", "fe", "recompute", "pass"),
        ("md", "mpi", "nacl-mini", "recompute", None),  # keeps no pair terms
        ("md", "mpi", "nacl-mini", "column-wise", "pass"),
        ("md", "mpi", "fe", "column-wise", None),  # has no charges
        ("md", "domain", "fe", "packed", "not applicable"),
        ("md_layout", "node", "fe", "packed", "pass"),
        ("md_layout", "node2", "fe", "packed", "not applicable"),
        ("npar", "mpi", "mini1", "npar-2", "pass"),
        ("npar", "node", "mini1", "npar-1", "pass"),
        ("npar", "node", "mini1", "npar-2", None),  # one rank
        ("npar", "mpi", "mini2", "npar-1", None),  # hybrid: NPAR is the number of ranks
        ("npar", "mpi", "mini2", "npar-2", "pass"),
        ("npar", "mpi", "mini4", "scalapack", "pass"),
        ("patches", "mpi", "dhfr-mini", "static", "pass"),
        ("patches", "mpi", "f1-atpase", "aggregated", "pass"),
        ("tasks", "mpi", "gamess-uk", "counter", "not applicable"),  # needs a machine
    ],
)
def test_healthy_machine(healthy, check, layout, case, method, verdict):
    assert healthy.code == 0, healthy.text
    assert verdicts(healthy).get((check, layout, case, method)) == verdict


def test_healthy_machine_has_the_reasons_of_what_is_left_out(healthy):
    assert "needs 32 cores, a launch here has 2" in healthy.whole
    assert "layout node2 is the same as mpi here (2x1)" in healthy.whole


def test_every_pattern_is_judged_at_its_sizes_and_fitted(healthy):
    cases = {c["method"]: c for c in healthy.verdict["cases"] if c["check"] == "network"}
    assert set(cases) == set(tables.methods("patterns"))
    names = {m["name"] for m in cases["pingpong"]["metrics"]}
    assert {"time_8B", "time_2KiB", "time_4MiB"} <= names
    assert {"fit_latency", "fit_bandwidth", "fit_error"} <= names
    assert "time" in {m["name"] for m in cases["barrier"]["metrics"]}


# (check, case, method, its fault, what its cause has; "" of a method that is not applicable)
FAULTS = [
    ("eigen", "fock-256", "pdsyevx", "wrong", "wrong answer of pdsyevx"),
    ("eigen", "fock-256", "pdsyevd", "ratio_dsyevd=60", "ratio_dsyevd"),
    ("eigen", "fock-256", "jacobi", "sweeps=9", "sweeps"),
    ("eigen", "fock-256", "elpa1", "inapplicable", ""),
    ("md", "cu3au", "dlpoly3", "ratio_packed=9", "ratio_packed is 9"),
    ("md", "cu3au", "packed", "ratio_cached=9", "ratio_cached is 9"),
    ("md", "cu3au", "recompute", "wrong", "wrong answer of recompute"),
    ("network", "sweep", "halo", "wrong", "wrong answer of halo"),
    ("network", "sweep", "node-to-node", "inapplicable", ""),  # on one node
    ("network", "sweep", "allreduce", "inapplicable", "needs two nodes"),
    ("npar", "mini3", "zeroing", "ratio_base=2.5", "ratio_base"),
    ("npar", "mini3", "npar-1", "ratio_best=2.5", "ratio_best"),
    ("patches", "dhfr-mini", "testsome", "wrong", "wrong answer of testsome"),
    ("patches", "dhfr-mini", "iprobe", "ratio_static=9", "ratio_static"),
    ("patches", "dhfr-mini", "waitany", "ratio_forces=99", "ratio_forces"),
    ("tasks", "gamess-uk-mini", "static", "ratio_ideal=9", "ratio_ideal"),
    ("tasks", "gamess-uk-mini", "counter", "wrong", "wrong answer of counter"),
    ("tasks", "gamess-uk-mini", "hierarchical", "ratio_bare=99", "ratio_bare"),
    ("eigen", "fock-256", "pdsyevr", None, None),
    ("network", "sweep", "alltoall", None, None),
    ("npar", "mini3", "emulated", None, None),
    ("patches", "dhfr-mini", "aggregated", None, None),
    ("tasks", "gamess-uk-mini", "manager", None, None),
]


@pytest.fixture(scope="module")
def faulty(run):
    patterns = {f"{check}{MPI}={case}": None for check, case, *_ in FAULTS}
    return run(*patterns, faults={method: fault for _, _, method, fault, _ in FAULTS if fault})


@pytest.mark.parametrize(("check", "case", "method", "fault", "says"), FAULTS)
def test_fault_of_a_method(faulty, check, case, method, fault, says):
    assert faulty.code == 1, faulty.text
    judged = faulty.case(method, case=case, check=check)
    failed = "FAIL" if says else "not applicable"
    assert judged["verdict"] == (failed if fault else "pass"), judged
    assert (says or "") in judged["cause"]


def test_launches_of_one_rank(run):
    """A hybrid that is slow fails; what one rank cannot do is not applicable."""
    run = run(
        "md_layout%.*layout=node%.*case=cu3au",
        "tasks%.*layout=node%launch.case=gamess-uk-mini",
        "network%method=(pingpong|alltoall)%launch.layout=node%launch.case=sweep",
        faults={
            "node/cu3au": "packed:time=2e-3",
            **dict.fromkeys(("manager", "static", "pingpong"), "inapplicable"),
        },
    )
    assert run.code == 1, run.text
    hybrid = run.case("packed", "node", "cu3au", check="md_layout")
    assert hybrid["verdict"] == "FAIL"
    assert "ratio_mpi is 2.00" in hybrid["cause"]
    assert run.case("manager", "node", "gamess-uk-mini")["verdict"] == "not applicable"
    assert run.case("static", "node", "gamess-uk-mini")["verdict"] == "FAIL"
    assert run.case("pingpong", "node", "sweep")["verdict"] == "not applicable"
    assert run.case("alltoall", "node", "sweep")["verdict"] == "pass"


def test_what_is_noted_and_does_not_fail(run):
    run = run(
        f"npar(_best)?{MPI}=mini3",
        "md(_layout)?%.*case=cu3au",
        faults={"npar-1": "other-best", "elpa": "inapplicable", "node/cu3au": "packed:time=0.8e-3"},
    )
    assert run.code == 0, run.text
    assert "the best NPAR is 1, it was 2; that is 7% slower" in run.said
    assert run.case("elpa", case="mini3")["verdict"] == "not applicable"
    assert "node is 25% faster than one rank per core on 2 cores" in run.said
