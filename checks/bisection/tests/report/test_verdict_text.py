"""A run's verdict as a mail."""

from dataclasses import replace

import pytest
from made_up import with_case
from results_made import changed, result_of
from running import joined

from bisection.core.reasons.launches import Disturbed, OutOfBounds, ReframeText
from bisection.core.verdicts import Verdict
from bisection.kernels.launch_record import LaunchRecord
from bisection.report import verdict_text
from bisection.report.lines import commanded
from bisection.runs.run_verdict import JudgedMetric, RunVerdict

BUILT = "GNU 12.2.0; Open MPI v4.1.4; fftw 3.3.10; hdf5 1.10.8; openblas 0.3.21"
SUITE = {
    "transpose": (("cnt40", "cnt80", "silicon", "tin-8k", "al2o3-g"), 10),
    "npar": (("mini1", "mini2", "mini3", "mini4", "mini5"), 9),
    "md": (("sic", "cu3au", "fe", "test10", "test20", "test30"), 3),
    "network": (("sweep",), 2),
}
GEOMETRIES = {"mpi": "48x1", "node": "1x48", "node2": "2x24"}


def night_of(kernel, case, layout, number):
    """A test that passed; that of a later method is slower."""
    method, point = f"gather-scatter{number}", "_512KiB" if case == "sweep" else ""
    slower = 1 + number / 40
    metrics = [
        JudgedMetric(f"time{point}", 137e-6 * slower, "s", None, None, "pass"),
        JudgedMetric(f"ratio_alltoallv{point}", slower, "ratio", 0.5, 1.5, "pass"),
    ]
    facts = {"kernel": "patterns" if kernel == "network" else kernel, "built_with": BUILT}
    facts |= {"geometry": GEOMETRIES[layout], "verdict": Verdict.PASS, "metrics": metrics}
    facts["name"] = f"{kernel} %method={method} %layout={layout} %case={case}"
    return result_of("lab", "cpu", "system", kernel, case, layout, method, **facts)


def nightly():
    """A night in which all is well, on three layouts of one partition."""
    cases = [
        night_of(kernel, case, layout, number)
        for kernel, (names, count) in SUITE.items()
        for case in names
        for layout in GEOMETRIES
        for number in range(count)
    ]
    cases = [replace(case, hash=f"{number:08x}") for number, case in enumerate(cases)]
    return RunVerdict(cases=cases, seconds=420.0)


def slow(verdict, index):
    """The run with a test outside its bounds."""
    failed = ["ratio_alltoallv", 2.5, "ratio", 0.5, 1.5]
    metrics = [verdict.cases[index].metrics[0], JudgedMetric(*failed, "fail")]
    reason = OutOfBounds(metrics=[failed])
    fields = {"metrics": metrics, "reason": reason, "files": "results/kernels/x*"}
    return with_case(verdict, index, verdict=Verdict.FAIL, **fields)


def test_the_worst_metric_is_of_tests_that_were_judged():
    failed = slow(nightly(), 0)
    disturbed = with_case(failed, 0, verdict=Verdict.NOT_MEASURED)
    texts = ["".join(verdict_text.summary(run)) for run in (failed, disturbed)]
    assert ["200%" in text for text in texts] == [True, False]


def test_a_line_whose_tests_were_all_disturbed_says_so():
    verdict = nightly()
    for index in range(3 * 10):  # cnt40
        lost = {"verdict": Verdict.NOT_MEASURED, "reason": Disturbed(fraction=0.5), "metrics": []}
        verdict = with_case(verdict, index, **lost)
    lines = [line.split()[1:] for line in verdict_text.summary(verdict) if "transpose" in line]
    assert lines[0] == ["cnt40", "30", "disturbed", "-", "-"]
    assert lines[1][:2] == ["cnt80", "30/30"]


def test_a_good_night_fits_a_mail():
    lines = verdict_text.text(nightly())
    assert lines[0] == "PASS: 345 of 345 checks passed, in 7 min"
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    rows = {tuple(line.split()[:2]): line for line in lines if line.startswith("  ")}
    for kernel, (names, count) in SUITE.items():
        assert all(f"{3 * count}/{3 * count}" in rows[kernel, case] for case in names)
    assert "gather-scatter0 mpi " in rows["transpose", "cnt40"]
    assert "ratio_alltoallv 73%" in rows["transpose", "cnt40"]


def test_what_is_to_be_copied_keeps_an_odd_quote():
    path = f"/home/o'neil/{'x' * 60}/a b"
    assert joined("\n".join(commanded("files", path, "    "))) == f"    files: {path}"


def test_a_skew_and_who_was_last_stand_at_the_metric():
    night = nightly()
    case = night.cases[0]
    last = {case.method: "rank 5 on n3 has 1.4 times the mean outside MPI"}
    metrics = (JudgedMetric("time", 2e-3, "s", None, None, ""), *case.metrics[1:])
    run = with_case(night, 0, metrics=metrics, skewed={case.method: 0.213}, last=last)
    record = run.cases[0].record
    (row,) = (line for line in verdict_text.table(run) if "apart" in line)
    assert "2 ms (starts 21% apart)" in row
    failed = ("time", 2e-3, "s", 1e-4, 1e-3)
    says = "starts of ranks were 21% of a step apart; rank 5 on n3 has 1.4 times the mean"
    assert says in record.beyond(case.method, [failed]).words()
    assert "apart" not in record.beyond("another", [failed]).words()


def test_a_skew_of_a_small_message_is_not_said_of_a_large_one():
    record = LaunchRecord(skewed={"alltoall_8B": 0.35}, last={"alltoall_8B": "rank 5 is last"})
    words = {
        size: record.beyond("alltoall", [(f"time_{size}", 2.0, "s", 0.1, 1.0)]).words()
        for size in ("8B", "2MiB")
    }
    assert ["35% of a step" in text and "rank 5" in text for text in words.values()] == [
        True,
        False,
    ]
    assert "rank" not in words["2MiB"]


def test_failures_come_first_with_cause_and_rerun_command():
    reason = OutOfBounds(metrics=[["ratio_serial", 9.0, "ratio", 0.5, 1.5]])
    verdict = with_case(slow(nightly(), -1), 0, verdict=Verdict.NOT_MEASURED, reason=reason)
    lines = joined("\n".join(verdict_text.text(verdict))).splitlines()
    assert lines[0].startswith("FAIL: 343 of 345 checks passed, 1 failed")
    assert lines[1] == "FAIL: network sweep node2 (system)"
    assert "gather-scatter1: ratio_alltoallv is 2.50, allowed is 0.50..1.50" in lines[2]
    assert "run --tier nightly -n /00000158" in lines[3]
    assert lines[4] == "    files: results/kernels/x*"
    assert lines[5].startswith("not measured: ")
    (row,) = (line for line in lines if line.startswith("  network"))
    assert "5/6" in row
    assert "ratio_alltoallv 200%" in row
    for line in lines[1:]:  # but commands and files, which are to be copied
        assert len(line) <= 80 or line.strip().startswith(("rerun:", "files:"))


def test_tests_that_did_not_run_are_counted_with_their_kernel():
    absent = {"kernel": "", "verdict": Verdict.NOT_APPLICABLE, "metrics": []}
    cases = [changed(c, **absent) if c.layout == "node2" else c for c in nightly().cases]
    lines = verdict_text.text(RunVerdict(cases))
    assert sum(line.startswith("  transpose ") for line in lines) == 5


def test_what_an_interrupt_left_out_is_one_group():
    end = ReframeText(text="run session stopped: cancelled by user", ended=True)
    night = replace(nightly(), troubles=[end])
    left_out = range(len(night.cases) // 3, len(night.cases))  # of several kernels and methods
    for index in left_out:
        night = with_case(night, index, verdict=Verdict.NOT_MEASURED, reason=end)
    (group,) = verdict_text.failure_groups(night)
    assert (len(group.cases), len(group.causes)) == (len(left_out), 1)


def test_the_table_of_all_tests_has_their_metrics_and_limits():
    verdict = slow(nightly(), 3)
    lines = verdict_text.text(verdict, verbose=True)
    assert set(verdict_text.text(verdict)) < set(lines)
    rows = [" ".join(line.split()) for line in verdict_text.table(verdict)[2:]]
    assert len(rows) == sum(case.verdict != Verdict.NOT_APPLICABLE for case in verdict.judged)
    name = "transpose cnt40 mpi 48x1 gather-scatter"
    assert rows[2] == f"{name}2 144 us ratio_alltoallv 1.05 (0.50..1.50) pass"
    assert rows[3] == f"{name}3 147 us ratio_alltoallv 2.50!(0.50..1.50) FAIL"


def test_several_runs_of_a_test_are_a_row_with_their_range():
    case = night_of("md", "sic", "mpi", 0)
    times = [replace(case.metrics[0], value=n * 1e-3) for n in (2, 1, 3)]
    runs = [replace(case, run=run, metrics=[time]) for run, time in enumerate(times)]
    (row,) = verdict_text.table(RunVerdict(cases=runs))[2:]
    assert "1 ms to 3 ms" in row
    assert row.endswith("pass x3")


BARE = "Only answers were judged: lab:cpu has no references (1 night; propose after 10)"
SEVERAL = (
    "Only answers were judged: lab:cpu, lab:fat have no references (5 nights; propose after 10)"
)
EARLIER = "Times are judged by earlier nights: no references yet (6 of 10 nights)"


@pytest.mark.parametrize(
    ("nights", "partitions", "says"),
    [(1, ["cpu"], BARE), (5, ["cpu", "fat"], SEVERAL), (6, ["cpu"], EARLIER)],
)
def test_a_night_without_references_says_so(nights, partitions, says):
    judged = night_of("md", "sic", "mpi", 0)  # by its ratio
    assert "Only answers were judged" not in verdict_text.sentence(
        RunVerdict([judged], nights=nights)
    )
    bare = [replace(metric, low=None, high=None) for metric in judged.metrics]
    cases = [replace(judged, partition=partition, metrics=bare) for partition in partitions]
    assert verdict_text.sentence(RunVerdict(cases, nights=nights)).endswith(f". {says}")


def test_colours_of_a_compiler_do_not_reach_the_terminal():
    lines = verdict_text.wrapped("\x1b[31merror\x1b[0m: no\x07file\x00")
    assert lines == ["error: no file"]


@pytest.mark.parametrize("whole", ["20.2 s", "`a b c`", "3 sessions", "x" * 90])
def test_what_belongs_together_stays_on_one_line(whole):
    for width in range(60, verdict_text.WIDTH):
        (line,) = (
            each for each in verdict_text.wrapped(f"{'-' * width} {whole} end") if whole in each
        )
        assert len(line) <= max(verdict_text.WIDTH, len(whole) + 2)
