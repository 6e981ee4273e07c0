"""A run's verdict as a mail."""

from dataclasses import replace

from made_up import with_case
from results_made import changed, result_of

from bisection.core.reasons import Code
from bisection.core.verdicts import Verdict
from bisection.report import run as run_report
from bisection.runs.model import JudgedMetric, RunVerdict

BUILT = "GNU 12.2.0; Open MPI v4.1.4; fftw 3.3.10; cjson 1.7.15; hdf5 1.10.8; openblas 0.3.21"
SUITE = {
    "transpose": (("cnt40", "cnt80", "silicon", "tin-8k", "al2o3-g"), 10),
    "npar": (("mini1", "mini2", "mini3", "mini4", "mini5"), 9),
    "md": (("sic", "cu3au", "fe", "test10", "test20", "test30"), 3),
    "network": (("sweep",), 2),
}


def nightly():
    """A night in which all is well, on three layouts of one partition."""
    cases = []
    for kernel, (names, count) in SUITE.items():
        for case in names:
            for layout, geometry in (("mpi", "48x1"), ("node", "1x48"), ("node2", "2x24")):
                for number in range(count):
                    name = f"{kernel} %method=gather-scatter{number} %layout={layout} %case={case}"
                    point = "_512KiB" if case == "sweep" else ""
                    ratio, slower = f"ratio_alltoallv{point}", 1 + number / 40
                    metrics = [
                        JudgedMetric(f"time{point}", 137e-6 * slower, "s", None, None, "pass"),
                        JudgedMetric(ratio, slower, "ratio", 0.5, 1.5, "pass"),
                    ]
                    cases.append(
                        result_of(
                            *(
                                "lab",
                                "cpu",
                                "system",
                                kernel,
                                case,
                                layout,
                                f"gather-scatter{number}",
                            ),
                            name=name,
                            hash=f"{len(cases):08x}",
                            kernel="patterns" if kernel == "network" else kernel,
                            geometry=geometry,
                            built_with=BUILT,
                            verdict=Verdict.PASS,
                            metrics=metrics,
                        )
                    )
    return RunVerdict(cases=cases, seconds=420.0)


def slow(verdict, index):
    """The run with a test outside its bounds."""
    failed = ["ratio_alltoallv", 2.5, "ratio", 0.5, 1.5]
    metrics = [verdict.cases[index].metrics[0], JudgedMetric(*failed, "fail")]
    reason = Code.OUT_OF_BOUNDS(metrics=[failed])
    fields = {"metrics": metrics, "reason": reason, "files": "results/kernels/x*"}
    return with_case(verdict, index, verdict=Verdict.FAIL, **fields)


def test_a_good_night_fits_a_mail():
    verdict = nightly()
    lines = run_report.text(verdict)
    assert lines[0] == "PASS: 345 of 345 checks passed, in 7 min 0 s"
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    rows = {tuple(line.split()[:2]): line for line in lines if line.startswith("  ")}
    for kernel, (names, count) in SUITE.items():
        for case in names:
            assert f"{3 * count}/{3 * count}" in rows[kernel, case]
    assert "gather-scatter0 mpi " in rows["transpose", "cnt40"]
    assert "ratio_alltoallv 73%" in rows["transpose", "cnt40"]


def test_failures_come_first_with_cause_and_rerun_command():
    lines = run_report.text(slow(nightly(), 3))
    assert lines[0].startswith("FAIL: 344 of 345 checks passed, 1 failed")
    assert lines[1] == "FAIL: transpose cnt40 mpi (system)"
    assert "gather-scatter3: ratio_alltoallv is 2.50, allowed is 0.50..1.50" in lines[2]
    assert "run --tier nightly -n /00000003" in lines[3]
    assert lines[4] == "    files: results/kernels/x*"
    row = next(line for line in lines if line.startswith("  transpose") and "cnt40" in line)
    assert "29/30" in row
    assert "ratio_alltoallv 200%" in row


def test_failures_come_before_what_was_not_measured():
    reason = Code.OUT_OF_BOUNDS(metrics=[["ratio_serial", 9.0, "ratio", 0.5, 1.5]])
    verdict = with_case(slow(nightly(), -1), 0, verdict=Verdict.NOT_MEASURED, reason=reason)
    lines = run_report.text(verdict)
    assert lines[1] == "FAIL: network sweep node2 (system)"
    assert next(line for line in lines[2:] if not line.startswith(" ")).startswith("not measured: ")
    for line in lines[1:]:  # but commands and files, which are to be copied
        assert len(line) <= 80 or line.strip().startswith(("rerun:", "files:"))


def test_tests_that_did_not_run_are_counted_with_their_kernel():
    absent = {"kernel": "", "verdict": Verdict.NOT_APPLICABLE, "metrics": []}
    cases = [
        changed(case, **absent) if case.layout == "node2" else case for case in nightly().cases
    ]
    lines = run_report.text(RunVerdict(cases))
    assert sum(line.startswith("  transpose ") for line in lines) == 5
    assert "20/20" in next(line for line in lines if line.startswith("  transpose "))


def test_verbose_has_every_test():
    verdict = nightly()
    text = "\n".join(run_report.text(verdict, verbose=True))
    assert text.count("gather-scatter9 ") == 5 * 3
    assert run_report.text(verdict)[0] == text.splitlines()[0]


def test_a_collapsed_row_shows_the_range_of_what_it_stands_for():
    night = nightly()
    launch = [c for c in night.cases if (c.record.kernel, c.case, c.layout) == ("md", "sic", "mpi")]
    run = RunVerdict(launch)
    for index, case in enumerate(launch):
        value = 2.5 + 2 * index
        ratio = JudgedMetric("ratio_alltoallv", value, "ratio", 0.5, 1.5, "fail")
        metrics = [case.metrics[0], ratio]
        run = with_case(run, index, verdict=Verdict.NOT_MEASURED, metrics=metrics)
    lines = run_report.table(run)
    (row,) = (line for line in lines if "(3 methods)" in line)
    assert "137 us..144 us" in row
    assert "2.50..6.50!(0.50..1.50)" in row
    assert row.endswith("not measured")
    assert len(lines) == 3


def test_several_runs_of_a_test_are_a_row_with_their_range():
    times = [JudgedMetric("time", n * 1e-3, "s", None, None, "pass") for n in (1, 2, 3)]
    case = nightly().cases[0]
    runs = [replace(case, run=run, metrics=[time]) for run, time in enumerate(times)]
    (row,) = run_report.table(RunVerdict(cases=runs))[2:]
    assert "1 ms..3 ms" in row
    assert row.endswith("pass x3")


def test_a_night_without_references_says_so():
    verdict = replace(nightly(), nights=1)
    assert "Nothing was judged" not in run_report.sentence(verdict)  # ratios are
    for index, case in enumerate(verdict.cases):
        bare = [replace(metric, low=None, high=None) for metric in case.metrics]
        verdict = with_case(verdict, index, metrics=bare)
    says = "Nothing was judged: lab:cpu has no references ({}; propose after 10)"
    assert run_report.text(verdict)[1].strip() == says.format("1 night")
    fat = replace(verdict.cases[0], partition="fat")
    verdict = replace(verdict, nights=5, cases=[*verdict.cases, fat])
    says = says.replace("cpu has", "cpu, lab:fat have")
    assert run_report.sentence(verdict).endswith(says.format("5 nights"))
    says = run_report.sentence(replace(verdict, nights=6))
    assert "Times are judged by 5 earlier nights" in says


def test_colours_of_a_compiler_do_not_reach_the_terminal():
    lines = run_report.wrapped("\x1b[31merror\x1b[0m: no\x07file\x00")
    assert lines == ["error: no file"]
