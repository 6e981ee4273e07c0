"""Faults of launches, methods and references in real runs, on a fake kernel.

Many of these tests reproduce a way in which ReFrame alone would have reported PASSED.
"""

import pytest
from running import run_in

# The first five end the job; the others end it well. One run has them all.
LAUNCH_FAULTS = [
    ("mpi/cnt40", "exit-3", "not measured", "transpose exited with 3 (it cannot run here)"),
    ("mpi/cnt80", "exit-2", "not measured", "transpose exited with 2 (usage)"),
    ("mpi/silicon", "segv-after", "FAIL", "transpose was killed by SIGSEGV"),
    ("mpi/silicon", "segv-after", "FAIL", "its result was complete: MPI had only to end"),
    (
        "node/al2o3-g",
        "hang",
        "FAIL",
        "HANG: nothing finished for 5 min; no answer from rank 1 on here; ",
    ),
    ("mpi/tin-8k", "exit-1-but-verified", "FAIL", "exited with 1 (wrong answer), but its"),
    ("mpi/al2o3-g", "two-hosts", "FAIL", "INVALID placement: ranks ran on 2 hosts (elsewhere"),
    ("node/cnt40", "nothing", "FAIL", "transpose wrote no result file"),
    ("node/cnt80", "running", "FAIL", "status is 'running', not 'complete'"),
    ("node/silicon", "wrong-but-exit-0", "FAIL", "exited with 0 (verified), but its result"),
    ("node/tin-8k", "wrong-baseline", "FAIL", "the baseline serial gave a wrong answer"),
]


@pytest.fixture(scope="module")
def launch_run(fake, tmp_path_factory):
    faults = {where: fault for where, fault, _, _ in LAUNCH_FAULTS}
    selected = ("-n", "^transpose%method=p2p%launch.layout=(mpi|node)%launch.case=(?!cpmd)")
    home = tmp_path_factory.mktemp("launch")
    return run_in(home, fake, selected=selected, tier="upgrade", faults=faults)


class TestLaunch:
    """A launch that went wrong fails, and its methods are not judged."""

    def test_run_fails(self, launch_run):
        assert launch_run.code == 1
        assert "FAIL: 0 of 10 checks passed, 8 failed, 2 not measured" in launch_run.said

    @pytest.mark.parametrize(("where", "fault", "word", "says"), LAUNCH_FAULTS)
    def test_fails(self, launch_run, where, fault, word, says):
        layout, case = where.split("/")
        launch = launch_run.case("", layout, case)
        assert launch["verdict"] == word
        assert says in launch["cause"]
        assert says in launch_run.said
        assert launch_run.case("p2p", layout, case)["verdict"] == "not measured"

    def test_that_did_not_end_is_judged_by_its_placement_first(self, bisection):
        run = bisection(faults={"mpi/cnt40": "hang-on-one-core"})
        assert run.code == 1
        cause = run.case("")["cause"]
        assert cause.startswith("INVALID placement: rank 1 on ")
        assert "shares a core with rank 0" in cause
        assert "; HANG: nothing finished for 5 min" in cause

    def test_methods_without_a_check_are_no_pass(self, bisection):
        run = bisection(faults={"mpi/cnt40": "unchecked"})
        assert run.code == 1
        assert "its result has verified: True, wrong: p2p" in run.said

    def test_not_measured_alone_is_3(self, bisection):
        selected = ("-n", "^transpose%method=p2p%launch.layout=(mpi|node)%launch.case=cnt40")
        run = bisection(faults={"mpi/cnt40": "exit-3", "node/cnt40": "exit-2"}, selected=selected)
        assert run.code == 3
        assert "NOT MEASURED: 0 of 2 checks passed, 2 not measured" in run.said

    def test_shared_core_names_rank_and_cpus(self, bisection):
        run = bisection(
            selected=("-n", "^transpose%method=p2p%launch.layout=(mpi|node)%launch.case=cnt40"),
            faults={"mpi/cnt40": "shared-core", "node/cnt40": "shared-core"},
        )
        assert run.code == 1
        for layout, seat in (("mpi", "rank 1 on "), ("node", "thread 1 (cpus 0) ")):
            cause = run.case("", layout)["cause"]
            assert cause.startswith("INVALID placement: rank ")
            assert seat in cause
            assert "shares a core with rank 0" in cause


METHOD_FAULTS = [
    ("p2p", "wrong", "wrong answer of p2p: serial transform: error 0.5 largest element"),
    ("padded", "no-method", "method padded is missing from the results"),
    ("shm", "no-metric", "metric missing from shm: ratio_serial"),
    ("shm-padded", "inapplicable", "shm-padded did not run: needs two nodes"),
    ("gather-scatter", "slow", "ratio_alltoallv is 2.50, allowed is"),
    ("direct", "zero", "metric of direct: ratio_alltoallv is 0.0, not above zero"),
    ("alltoallw", "inf", "metric of alltoallw: ratio_alltoallv is inf, not finite"),
    ("leaders", "null", "metric of leaders: ratio_alltoallv is null, not a number"),
    ("overlap", "text", 'metric of overlap: ratio_alltoallv is "1.0", not a number'),
]


@pytest.fixture(scope="module")
def method_run(fake, tmp_path_factory):
    faults = {method: fault for method, fault, _ in METHOD_FAULTS} | {"mpi/cnt40": "slow-clock"}
    selected = ("-n", "^transpose%.*launch.layout=mpi%launch.case=cnt40")
    return run_in(tmp_path_factory.mktemp("method"), fake, selected=selected, faults=faults)


class TestMethod:
    """What is wrong with one method fails that method by name, and no other."""

    @pytest.mark.parametrize(("method", "fault", "says"), METHOD_FAULTS)
    def test_fails(self, method_run, method, fault, says):
        assert method_run.case(method)["verdict"] == "FAIL"
        assert says in method_run.case(method)["cause"]
        assert says in method_run.said

    def test_sound_method_passes(self, method_run):
        assert method_run.code == 1
        assert method_run.case("alltoallv")["verdict"] == "pass"
        assert "FAIL: 1 of 10 checks passed, 9 failed" in method_run.said

    def test_host_with_a_slow_clock_is_named_after_one_launch(self, method_run):
        says = "is slow: the clock of rank 1 (cpus 1) was 2.60 GHz, the launch's median 3.00 GHz"
        assert f"{says}, in 1 of 1 launches" in method_run.said
        assert (method_run.folder / "nodecheck.txt").read_text() == ""  # not after one launch

    def test_host_with_an_adapter_that_counted_errors_is_named(self, bisection):
        run = bisection(faults={"mpi/cnt40": "errors"})
        says = "errors of adapter mlx5_0:1 grew: symbol_error by 12, in 1 of 1 launches"
        assert run.code == 0  # a remark: the answers are right and the times in bounds
        assert says in run.said
        assert says in (run.folder / "nodecheck.txt").read_text()

    def test_wrong_answer_that_nobody_judges(self, bisection):
        run = bisection(faults={"shm": "wrong"})
        assert run.code == 1
        assert "wrong answer of shm in TransposeLaunch cnt40 mpi (system), and no" in run.said

    def test_expected_to_be_inapplicable(self, bisection):
        run = bisection(
            *("-S", "transpose.inapplicable=p2p:mpi"),
            faults={"p2p": "inapplicable"},
            selected=("-n", "^transpose%method=(p2p|shm)%launch.layout=mpi%launch.case=cnt40"),
        )
        assert run.code == 0, run.text
        assert "not applicable: 1 x needs two nodes" in run.whole


# A reference file with one METHOD % (name, reference of ratio_alltoallv) for each method.
TREE = """
transpose:
  $index: [$partition, method]
  localhost:default:
%s"""
METHOD = """    %s:
      ratio_alltoallv: %s
      ratio_serial: [0.6, -0.5, 0.5]
      exchange_share: [0.3, -0.9, 1.0]
"""
GOOD = "[1.0, -0.5, 0.5]"

REFERENCE_BOUNDS = [
    ("p2p", "[4.0, -0.5, 0.5]", "ratio_alltoallv is 1.00, allowed is 2.00..6.00"),
    ("padded", "[1.0, -0.5, null]", "ratio_alltoallv: the upper bound is open"),
    ("shm", "[1.0, null, 0.5]", "ratio_alltoallv: the lower bound is open"),
    ("shm-padded", "[1.0, -1.0, 0.5]", "ratio_alltoallv: the lower bound -1.0 is not a fract"),
    ("gather-scatter", "[1.0, -0.5, .inf]", "the upper bound inf is not a finite number"),
    ("direct", "[1.0, -0.5, .nan]", "the upper bound nan is not a finite number"),
    ("alltoallw", "[1.0, -0.5, 9.0e6]", "the upper bound '9.0e6' is text, not a number"),
    ("leaders", "[0, -0.5, 0.5]", "ratio_alltoallv: the reference 0 is not above zero"),
]


@pytest.fixture(scope="module")
def reference_run(fake, tmp_path_factory):
    home = tmp_path_factory.mktemp("reference")
    methods = "".join(METHOD % row[:2] for row in [*REFERENCE_BOUNDS, ("alltoallv", GOOD)])
    (home / "localhost.yaml").write_text(TREE % methods)
    selected = ("-n", "^transpose%method=[^o].*launch.layout=mpi%launch.case=cnt40")
    return run_in(home, fake, selected=selected, references=home)


class TestReference:
    """A reference that asserts nothing fails by name."""

    @pytest.mark.parametrize(("method", "bounds", "says"), REFERENCE_BOUNDS)
    def test_that_asserts_nothing(self, reference_run, method, bounds, says):
        assert reference_run.case(method)["verdict"] == "FAIL"
        assert says in reference_run.case(method)["cause"]
        assert says in reference_run.said

    def test_sound_one_passes(self, reference_run):
        assert reference_run.code == 1
        assert reference_run.case("alltoallv")["verdict"] == "pass"

    @pytest.mark.parametrize(
        ("right", "mistyped", "says"),
        [
            ("localhost:default", "localhost:defualt", "for time_or_all"),
            ("transpose:", "trnaspose:", "for time_or_all"),
            ("ratio_serial", "ratio_seiral", "ratio_seiral has a reference on"),
            (GOOD, "[9.0e6, -0.5, 0.5]", "unknown modifier '9.0e6'"),
            (GOOD, "[1.0, -0.5]", "does not match type"),
        ],
    )
    def test_mistyped(self, bisection, tmp_path, right, mistyped, says):
        text = (TREE % (METHOD % ("p2p", GOOD))).replace(right, mistyped)
        (tmp_path / "localhost.yaml").write_text(text)
        run = bisection(references=tmp_path)
        assert run.code == 1, run.text
        assert says.replace("time_or_all", "ratio_alltoallv, ratio_serial, exch") in run.said

    def test_file_is_missing(self, bisection, tmp_path):
        run = bisection(references=tmp_path)
        assert run.code == 1
        assert "claims references of kind ratio, and there is no " in run.said
