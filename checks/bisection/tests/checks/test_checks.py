"""The checks of checks/*.py on real ReFrame with a fake kernel: what is judged, and what fails."""

import csv
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from running import run_in

from bisection.kernels import tables
from bisection.store.sample_file import SPOOLED

MPI = "%.*layout=mpi%launch.case"
BOTH = "%.*layout=(mpi|node)%launch.case"
# A method of a run, its fault, its verdict ("" if there is no such test) and words of its cause;
# that of a wrong answer names the method.
with Path(__file__).with_name("verdicts.csv").open(newline="") as file:
    ROWS = [*csv.DictReader(file)]


def named(*patterns):
    """ReFrame's options that select tests by their names without blanks."""
    return [word for pattern in patterns for word in ("-n", f"^{pattern}$")]


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


def test_every_pattern_is_judged_at_its_sizes_and_fitted(healthy):
    cases = {c["method"]: c for c in healthy.verdict["cases"] if c["check"] == "network"}
    assert set(cases) == set(tables.methods("patterns"))
    names = {m["name"] for m in cases["pingpong"]["metrics"]}
    assert {"time_8B", "time_2KiB", "time_4MiB"} <= names
    assert {"fit_latency", "fit_bandwidth", "fit_error"} <= names
    assert "time" in {m["name"] for m in cases["barrier"]["metrics"]}


@pytest.fixture(scope="session")
def faulty(fake, gallery):
    """Real for what ReFrame does with tests that fail, are skipped or have a note."""
    rows = [row for row in ROWS if row["run"] == "faulty"]
    patterns = {"{check}%.*layout={layout}%.*case={case}".format(**row) for row in rows}
    faults = {
        "{method}@{layout}/{case}".format(**row): row["fault"] for row in rows if row["fault"]
    }
    faults["npar-1@mpi/mini4"] = "other-best"
    how = {"selected": named(*sorted(patterns)), "tier": "upgrade", "faults": faults}
    return gallery("faulty", lambda home: run_in(home, fake, **how))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join([*row.values()][:6]))
def test_a_method_has_its_verdict(request, row):
    run = request.getfixturevalue(row["run"])
    assert run.code == (row["run"] == "faulty"), run.text
    place = {name: row[name] for name in ("check", "layout", "case", "method")}
    cases = [case for case in run.verdict["cases"] if place.items() <= case.items()]
    assert [case["verdict"] for case in cases] == [row["verdict"]] * bool(row["verdict"]), cases
    cause = f"wrong answer of {row['method']}" if row["fault"] == "wrong" else row["cause"]
    assert all(cause in case["cause"] for case in cases)


def test_what_is_noted_does_not_fail(faulty):
    cases = [("best", "mpi", "mini4", "npar_best"), ("packed", "node", "fe", "md_layout")]
    best, layout = (
        faulty.case(method, layout, case, check=check)["reasons"]["remark"]
        for method, layout, case, check in cases
    )
    assert best["text"] == "the best NPAR is 1, it was 2; that is 7% slower"
    assert layout["text"] == "node is 25% faster than one rank per core on 2 cores"
