"""The checks of checks/*.py on real ReFrame with a fake kernel: what is judged, and what fails."""

import re
import xml.etree.ElementTree as ET

import pytest
from running import run_in

from bisection.kernels import tables
from bisection.store.sample_file import SPOOLED

NONE = "not applicable"
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


@pytest.fixture(scope="session")
def healthy(fake, gallery):
    """Real for all that ReFrame does with a test that passes: each kernel, with our references."""
    selected = named(
        f"transpose{MPI}=cnt40",
        f"halo{MPI}=pchan-24",
        f"eigen{MPI}=(fock-256|aimpro-mini|pdsyevd-(3888|7194))",
        "eigen%.*layout=node%launch.case=crystal-mini",
        f"eigen_guess{MPI}=fock-512",
        "md(_layout)?%.*case=fe",
        f"md{MPI}=nacl-mini",
        f"npar{BOTH}=mini1",
        f"npar{MPI}=mini[24]",
        f"patches{MPI}=(dhfr-mini|f1-atpase)",
        f"tasks{MPI}=gamess-uk(-mini)?",
        f"restart{MPI}=waves(-mini)?",
        f"restart_metadata{MPI}=files-50",
        f"network{MPI}=sweep",
    )
    return gallery("healthy", lambda home: run_in(home, fake, selected=selected, tier="upgrade"))


def test_a_healthy_run_has_all_that_was_selected_and_leaves_its_files(healthy):
    assert healthy.code == 0, healthy.text
    cases, log = healthy.verdict["cases"], (healthy.folder / "reframe.log").read_text()
    (ran,) = re.findall(r"Running (\d+) check", log)
    assert len(cases) == int(ran)
    methods = {k: {c["method"] for c in cases if c["check"] == k} for k in tables.ALTERNATIVES}
    assert all(methods[k] >= set(tables.methods(k)) for k in methods)
    assert healthy.verdict["troubles"] == []
    for name in ("verdict.txt", "report.json", "report.html", "reframe.log", SPOOLED):
        assert (healthy.folder / name).exists()
    launches = healthy.verdict["launches"]  # a test of several has the seconds of each
    ran = [one for one in launches if one["exit_code"] is not None and len(one["seconds"]) == 1]
    assert len(list((healthy.folder / "kernels").glob("*.json"))) == len(ran) > 0
    assert not (healthy.folder / "stage").exists()
    metrics = {metric["name"]: metric for metric in healthy.case("p2p")["metrics"]}
    ratio = metrics["ratio_alltoallv"]
    assert ratio["low"] < ratio["value"] < ratio["high"]
    assert (ratio["asserted"], metrics["time"]["asserted"]) == (True, False)
    suite = ET.parse(healthy.folder / "junit.xml").getroot()
    assert (suite.get("failures"), suite.get("errors")) == ("0", "0")
    assert "needs 32 cores, a launch here has 2" in healthy.whole
    assert "layout node2 is the same as mpi here (2x1)" in healthy.whole


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
        ("restart", "mpi", "waves", "hdf5-chunked", "pass"),
        ("restart_metadata", "mpi", "files-50", "own-folder", "pass"),
        ("tasks", "mpi", "gamess-uk", "counter", "not applicable"),  # needs a machine
    ],
)
def test_healthy_machine(healthy, check, layout, case, method, verdict):
    assert healthy.code == 0, healthy.text
    assert verdicts(healthy).get((check, layout, case, method)) == verdict


def test_every_pattern_is_judged_at_its_sizes_and_fitted(healthy):
    cases = {c["method"]: c for c in healthy.verdict["cases"] if c["check"] == "network"}
    assert set(cases) == set(tables.methods("patterns"))
    names = {m["name"] for m in cases["pingpong"]["metrics"]}
    assert {"time_8B", "time_2KiB", "time_4MiB"} <= names
    assert {"fit_latency", "fit_bandwidth", "fit_error"} <= names
    assert "time" in {m["name"] for m in cases["barrier"]["metrics"]}


# (check, layout/case, method, its fault, its verdict, what its cause has)
FAULTS = [
    ("eigen", "mpi/fock-256", "pdsyevx", "wrong", "FAIL", "wrong answer of pdsyevx"),
    ("eigen", "mpi/fock-256", "pdsyevd", "ratio_dsyevd=60", "FAIL", "ratio_dsyevd"),
    ("eigen", "mpi/fock-256", "jacobi", "sweeps=9", "FAIL", "sweeps"),
    ("eigen", "mpi/fock-256", "elpa1", "inapplicable", NONE, ""),
    ("eigen", "mpi/fock-256", "pdsyevr", None, "pass", ""),
    ("md", "mpi/cu3au", "dlpoly3", "ratio_packed=9", "FAIL", "ratio_packed is 9"),
    ("md", "mpi/cu3au", "packed", "ratio_cached=9", "FAIL", "ratio_cached is 9"),
    ("md", "mpi/cu3au", "recompute", "wrong", "FAIL", "wrong answer of recompute"),
    ("md_layout", "node/cu3au", "packed", "time=2e-3", "FAIL", "ratio_mpi is 2.00"),
    ("md_layout", "node/fe", "packed", "time=0.8e-3", "pass", ""),
    ("network", "mpi/sweep", "halo", "wrong", "FAIL", "wrong answer of halo"),
    ("network", "mpi/sweep", "node-to-node", "inapplicable", NONE, ""),  # on one node
    ("network", "mpi/sweep", "allreduce", "inapplicable", "FAIL", "needs two nodes"),
    ("network", "mpi/sweep", "alltoall", None, "pass", ""),
    ("network", "node/sweep", "pingpong", "inapplicable", NONE, ""),  # of one rank
    ("network", "node/sweep", "alltoall", None, "pass", ""),
    ("npar", "mpi/mini3", "zeroing", "ratio_base=2.5", "FAIL", "ratio_base"),
    ("npar", "mpi/mini3", "npar-1", "ratio_best=2.5", "FAIL", "ratio_best"),
    ("npar", "mpi/mini3", "emulated", None, "pass", ""),
    ("npar", "mpi/mini4", "elpa", "inapplicable", NONE, ""),
    ("npar_best", "mpi/mini4", "best", None, "pass", ""),
    ("patches", "mpi/dhfr-mini", "testsome", "wrong", "FAIL", "wrong answer of testsome"),
    ("patches", "mpi/dhfr-mini", "iprobe", "ratio_static=9", "FAIL", "ratio_static"),
    ("patches", "mpi/dhfr-mini", "waitany", "ratio_forces=99", "FAIL", "ratio_forces"),
    ("patches", "mpi/dhfr-mini", "aggregated", None, "pass", ""),
    ("restart", "mpi/waves-mini", "root", "wrong", "FAIL", "wrong answer of root"),
    ("restart", "mpi/waves-mini", "checkpoint", "ratio_copy=1e6", "FAIL", "ratio_copy"),
    (
        "restart_metadata",
        "mpi/files-50",
        "shared-folder",
        "wrong",
        "FAIL",
        "wrong answer of shared",
    ),
    ("restart_metadata", "mpi/files-50", "own-folder", "no-list", "FAIL", "operations_list"),
    ("tasks", "mpi/gamess-uk-mini", "static", "ratio_ideal=9", "FAIL", "ratio_ideal"),
    ("tasks", "mpi/gamess-uk-mini", "counter", "wrong", "FAIL", "wrong answer of counter"),
    ("tasks", "mpi/gamess-uk-mini", "counter-progress", "no-imbalance", "FAIL", "imbalance"),
    ("tasks", "mpi/gamess-uk-mini", "hierarchical", "ratio_bare=99", "FAIL", "ratio_bare"),
    ("tasks", "mpi/gamess-uk-mini", "manager", None, "pass", ""),
    ("tasks", "node/gamess-uk-mini", "manager", "inapplicable", NONE, ""),  # of one rank
    ("tasks", "node/gamess-uk-mini", "static", "inapplicable", "FAIL", "needs two nodes"),
]


@pytest.fixture(scope="session")
def faulty(fake, gallery):
    """Real for what ReFrame does with tests that fail, are skipped or have a note."""
    places = {(check, *where.split("/")) for check, where, *_ in FAULTS}
    patterns = [f"{check}%.*layout={layout}%.*case={case}" for check, layout, case in places]
    faults = {f"{method}@{where}": fault for _, where, method, fault, *_ in FAULTS if fault}
    faults["npar-1@mpi/mini4"] = "other-best"
    how = {"selected": named(*sorted(patterns)), "tier": "upgrade", "faults": faults}
    return gallery("faulty", lambda home: run_in(home, fake, **how))


@pytest.mark.parametrize(("check", "where", "method", "fault", "verdict", "says"), FAULTS)
def test_fault_of_a_method(faulty, check, where, method, fault, verdict, says):
    assert faulty.code == 1, faulty.text
    layout, case = where.split("/")
    judged = faulty.case(method, layout, case, check=check)
    assert judged["verdict"] == verdict, judged
    assert says in judged["cause"]


def test_what_is_noted_does_not_fail(faulty):
    cases = [("best", "mpi", "mini4", "npar_best"), ("packed", "node", "fe", "md_layout")]
    best, layout = (
        faulty.case(method, layout, case, check=check)["reasons"]["remark"]
        for method, layout, case, check in cases
    )
    assert best["text"] == "the best NPAR is 1, it was 2; that is 7% slower"
    assert layout["text"] == "node is 25% faster than one rank per core on 2 cores"
