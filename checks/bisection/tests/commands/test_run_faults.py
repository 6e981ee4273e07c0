"""Faults of launches, methods and references in real runs, on a fake kernel: a run for each kind.

Many of these tests reproduce a way in which ReFrame alone would have reported PASSED.
"""

import re
import shutil

import pytest
from running import SITES, run_in

from bisection.sites import site

# The first six end the job; the others end it well. One run has them all.
LAUNCH_FAULTS = [
    ("mpi/cnt40", "exit-3", "not measured", "transpose exited with 3 (resources)"),
    ("mpi/cnt80", "exit-2", "not measured", "transpose exited with 2 (usage)"),
    ("mpi/silicon", "segv-after", "FAIL", "transpose was killed by SIGSEGV"),
    ("mpi/silicon", "segv-after", "FAIL", "its result was complete: MPI had only to end"),
    (
        *("node/al2o3-g", "hang", "FAIL"),
        "HANG: nothing finished for 5 min; no answer from rank 1 on here; ",
    ),
    ("mpi/cpmd", "hang-on-one-core", "FAIL", "; HANG: nothing finished for 5 min"),
    ("mpi/tin-8k", "exit-1-but-verified", "FAIL", "exited with 1 (wrong answer), but its"),
    ("mpi/al2o3-g", "two-hosts", "FAIL", "INVALID placement: ranks ran on the hosts elsewhere"),
    ("node/cnt40", "nothing", "FAIL", "transpose wrote no result file"),
    ("node/cnt80", "running", "FAIL", "status is 'running', not 'complete'"),
    ("node/silicon", "wrong-but-exit-0", "FAIL", "exited with 0 (verified), but its result"),
    ("node/tin-8k", "wrong-baseline", "FAIL", "the baseline serial gave a wrong answer"),
    ("node/cpmd", "unchecked", "FAIL", "its result has verified: True, wrong: p2p"),
    ("mpi/cpmd-mini", "shared-core", "FAIL", "INVALID placement: rank 1 on "),
    ("node/cpmd-mini", "shared-core", "FAIL", "thread 1 (cpus 0) "),
]


@pytest.fixture(scope="module")
def launch_run(fake, tmp_path_factory):
    faults = {where: fault for where, fault, _, _ in LAUNCH_FAULTS}
    selected = ("-n", "^transpose%method=p2p%launch.layout=(mpi|node)%")
    home = tmp_path_factory.mktemp("launch")
    return run_in(home, fake, selected=selected, tier="upgrade", faults=faults)


def test_a_run_with_faults_fails(launch_run):
    assert "FAIL: 0 of 14 checks passed, 12 failed, 2 not measured" in launch_run.said
    cause = launch_run.case("", "mpi", "cpmd")["cause"]  # placement before what followed from it
    assert cause.startswith("INVALID placement: rank 1 on ")


METHOD_FAULTS = [
    ("p2p", "wrong", "wrong answer of p2p: serial transform: error 0.5 largest element"),
    ("padded", "no-method", "method padded is missing from the results"),
    ("shm", "no-metric", "metric missing from shm: ratio_serial"),
    ("shm-padded", "inapplicable", "shm-padded did not run: needs two nodes"),
    ("gather-scatter", "slow", "ratio_alltoallv is 2.50, allowed is"),
    ("direct", "ratio_alltoallv=0.0", "metric of direct: ratio_alltoallv is 0.0, not above zero"),
    ("alltoallw", "ratio_alltoallv=Infinity", "ratio_alltoallv is Infinity, not a finite"),
    ("leaders", "ratio_alltoallv=null", "metric of leaders: ratio_alltoallv is null, not a finite"),
    ("overlap", 'ratio_alltoallv="1.0"', 'of overlap: ratio_alltoallv is "1.0", not a finite'),
]


@pytest.fixture(scope="module")
def method_run(fake, tmp_path_factory):
    """On one layout a host has a slow clock, on the other one an adapter that counted errors."""
    faults = {method: fault for method, fault, _ in METHOD_FAULTS}
    faults |= {"mpi/cnt40": "slow-clock", "node/cnt40": "errors"}
    selected = ("-n", "^transpose%.*launch.layout=(mpi|node)%launch.case=cnt40")
    selected += ("-S", "transpose.inapplicable=shm-padded:node")
    return run_in(tmp_path_factory.mktemp("method"), fake, selected=selected, faults=faults)


def test_what_cannot_run_is_not_applicable(method_run):
    assert method_run.case("shm-padded", "node")["verdict"] == "not applicable"
    assert "not applicable: 1 x needs two nodes" in method_run.whole


def test_hosts_with_a_slow_clock_or_an_adapter_that_counted_errors_are_named(method_run):
    clock = "is slow: the clock of rank 1 (cpus 1) was 2.60 GHz, the launch's median 3.00 GHz"
    errors = "errors of adapter mlx5_0:1 grew: symbol_error by 12, in 1 of 2 launches"
    nodecheck = (method_run.folder / "nodecheck.txt").read_text()
    assert f"{clock}, in 1 of 2 launches" in method_run.said
    assert clock not in nodecheck  # not after one launch
    assert errors in method_run.said
    assert errors in nodecheck
    assert method_run.case("", "node")["verdict"] == "pass"  # the answers are right


def test_the_command_to_rerun_selects_the_launches_that_failed(method_run):
    names = re.findall("rerun: .*? -n '(.*?)'", method_run.whole)
    tests = site.load_site("localhost", names).tests
    selected = [test for test in tests if test["named"] and "quick" in test["tags"]]
    judged = [case for case in method_run.verdict["cases"] if case["method"]]
    assert (len(names), len(selected)) == (2, len(judged))


def test_a_verdict_is_printed_again(method_run, command_line):
    for path in (method_run.folder, method_run.folder / "report.json"):
        code, text, _ = command_line("verdict", str(path))
        assert code == 1
        assert "ratio_alltoallv is 2.50" in text


# A reference file with one METHOD % (name, references) for each method.
TREE = """
transpose:
  $index: [$partition, case, method]
  localhost:default:
    cnt40:
%s"""
METHOD = """      %s:
        ratio_alltoallv: %s
        ratio_serial: [0.6, -0.5, 0.5]
        exchange_share: [0.3, -0.9, 1.0]
"""
GOOD = "[1.0, -0.5, 0.5]"
BAD_REFERENCES = [
    ("p2p", "[4.0, -0.5, 0.5]", "ratio_alltoallv is 1.00, allowed is 2.00..6.00"),
    ("padded", "[1.0, -0.5, null]", "ratio_alltoallv: the upper bound is open"),
    ("shm", "[1.0, null, 0.5]", "ratio_alltoallv: the lower bound is open"),
    ("shm-padded", "[1.0, -1.0, 0.5]", "ratio_alltoallv: the lower bound -1.0 is not a fract"),
    ("gather-scatter", "[1.0, -0.5, .inf]", "the upper bound inf is not a finite number"),
    ("direct", "[1.0, -0.5, .nan]", "the upper bound nan is not a finite number"),
    ("alltoallw", "[1.0, -0.5, 9.0e6]", "the upper bound '9.0e6' is text, not a number"),
    ("leaders", "[0, -0.5, 0.5]", "ratio_alltoallv: the reference 0 is not above zero"),
    ("overlap", f"{GOOD}\n        ratio_seiral: {GOOD}", "ratio_seiral has a reference on"),
]


@pytest.fixture(scope="module")
def reference_run(fake, tmp_path_factory):
    """The second case has no references."""
    home = tmp_path_factory.mktemp("reference")
    methods = "".join(METHOD % row[:2] for row in [*BAD_REFERENCES, ("alltoallv", GOOD)])
    (home / "localhost.yaml").write_text(TREE % methods)
    selected = ("-n", "^transpose%.*launch.layout=mpi%launch.case=(cnt40|cpmd-mini)")
    return run_in(home, fake, selected=selected, references=home)


@pytest.mark.parametrize(
    ("run", "where", "word", "says"),
    [
        *(("launch_run", ("", *w.split("/")), word, says) for w, _, word, says in LAUNCH_FAULTS),
        *(("method_run", (method,), "FAIL", says) for method, _, says in METHOD_FAULTS),
        *(("reference_run", (method,), "FAIL", says) for method, _, says in BAD_REFERENCES),
        ("reference_run", ("p2p", "mpi", "cpmd-mini"), "FAIL", "for ratio_alltoallv, ratio_serial"),
        ("reference_run", ("alltoallv",), "pass", ""),
        *(("method_run", ("alltoallv", layout), "pass", "") for layout in ("mpi", "node")),
    ],
)
def test_what_went_wrong_fails_by_name_and_the_others_pass(request, run, where, word, says):
    """Methods of a launch that went wrong are not judged."""
    run = request.getfixturevalue(run)
    assert run.code == 1
    assert run.case(*where)["verdict"] == word
    assert says in run.case(*where)["cause"]
    assert says in run.said
    if where[0] == "":
        assert run.case("p2p", *where[1:])["verdict"] == "not measured"


@pytest.mark.parametrize(
    ("bounds", "says"),
    [
        ("[9.0e6, -0.5, 0.5]", "unknown modifier '9.0e6'"),
        ("[1.0, -0.5]", "does not match type"),
        (None, "claims references of kind ratio, and there is no "),
    ],
)
def test_a_bypassed_network_and_a_file_of_references_that_cannot_be_read_fail(
    bisection, tmp_path, bounds, says
):
    """The partition claims a network; the second launch did not bypass it."""
    if bounds:
        (tmp_path / "localhost.yaml").write_text(TREE % (METHOD % ("p2p", bounds)))
    shutil.copytree(SITES, tmp_path / "sites")
    file = tmp_path / "sites" / "localhost.py"
    file.write_text(file.read_text().replace('"nodes": 1', '"nodes": 1, "network": ["mlx5_0"]'))
    selected = ("-n", "^transpose%method=p2p%launch.layout=(mpi|node)%launch.case=cnt40")
    how = {"selected": selected, "references": tmp_path, "faults": {"mpi/cnt40": "tcp"}}
    run = bisection("--system", str(file), **how)
    assert run.code == 1
    bypassed = {"code": "NETWORK_BYPASSED", "carried": [["eth0", 1.0]], "expected": ["mlx5_0"]}
    assert run.case("")["reasons"]["cause"].items() >= bypassed.items()
    assert says in run.case("p2p", "node")["cause"]
