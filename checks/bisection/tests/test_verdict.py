import json

import pytest

from bisection import results
from bisection.run import Progress
from bisection.verdict import Metric, duration, judge, troubles_in_log


def entry(name="transpose %method=p2p", result="pass", **more):
    perfvalues = {"here:all:time": [1e-3, 0, None, None, "s", "pass"]}
    return {
        "unique_name": name,
        "display_name": name,
        "hashcode": "0123abcd",
        "system": "here",
        "partition": "all",
        "environ": "system",
        "fixture": False,
        "run_index": 0,
        "result": result,
        "fail_phase": None,
        "fail_reason": None,
        "dependencies_actual": [],
        "perfvalues": perfvalues if result == "pass" else {},
        **more,
    }


def report(*entries):
    info = {"uuid": "u", "time_elapsed": 1.0}
    return {"session_info": info, "runs": [{"testcases": list(entries)}]}


def launch(result, **more):
    return entry("Launch", result, fixture=True, kernel="transpose", **more)


DEPENDS = {"dependencies_actual": [["Launch", "here:all", "system"]]}


@pytest.mark.parametrize(
    ("entries", "code"),
    [
        ([entry()], 0),
        ([entry(result="xfail")], 0),
        ([entry(), entry(result="fail", fail_phase="performance")], 1),
        ([entry(), entry(result="fail", fail_phase="sanity")], 1),
        ([entry(), entry(result="fail", fail_phase="setup")], 3),
        ([entry(), entry(result="xpass")], 1),
        ([entry(), entry(result="abort")], 3),
        ([entry(), entry(result=None)], 3),
        ([entry(), entry(result="skip")], 3),
        ([entry(perfvalues={})], 3),
        ([entry(), launch("skip", not_applicable="x"), entry(result="skip", **DEPENDS)], 0),
        ([launch("skip", not_applicable="x"), entry(result="skip", **DEPENDS)], 3),
        ([launch("fail", fail_phase="run"), entry(result="fail_deps", **DEPENDS)], 3),
        ([launch("fail", fail_phase="sanity"), entry(result="fail_deps", **DEPENDS)], 1),
        ([launch("pass", wrong=["shm"]), entry(**DEPENDS)], 1),
        ([launch("pass")], 3),
        ([], 3),
    ],
)
def test_exit_code(entries, code):
    assert judge(report(*entries)).exit_code == code


@pytest.mark.parametrize(("share", "code"), [(0.0, 1), (0.2, 1), (0.6, 3)])
def test_slow_is_not_judged_where_others_had_the_cores(share, code):
    slow = {"here:all:ratio_serial": [2.0, 1.0, -0.5, 0.5, "ratio", "fail"]}
    failed = entry(result="fail", fail_phase="performance", kernel="transpose")
    failed["perfvalues"] = slow
    verdict = judge(report(launch("pass", disturbed=share), failed))
    assert verdict.exit_code == code
    assert ("other processes" in verdict.bad[0].cause) == (code == 3)


def test_wrong_is_wrong_whoever_had_the_cores():
    failed = entry(result="fail", fail_phase="sanity", kernel="transpose")
    assert judge(report(launch("pass", disturbed=0.9), failed)).exit_code == 1


def test_troubles_in_log():
    log = (
        "WARNING: redefinition of system 'generic': already defined in '<builtin>'\n"
        "WARNING: skipping test file 'checks/x.py': name error: y\n"
        "WARNING: failed to store results in the database: disk I/O error\n"
        "ERROR: run session stopped: keyboard interrupt\n"
        "[==========] Finished on Fri\n"
    )
    assert troubles_in_log(log) == [
        "test file does not load: 'checks/x.py': name error: y",
        "failed to store results in the database: disk I/O error",
        "run session stopped: keyboard interrupt",
    ]
    assert "not stored" in troubles_in_log("[==========] Finished on Fri\n")[0]


def test_strain():
    assert Metric("m", 1.0, "ratio", 0.5, 1.5, "pass").strain == 0
    assert Metric("m", 1.5, "ratio", 0.5, 1.5, "pass").strain == 1
    assert Metric("m", 1.0, "s", None, None, "pass").strain == 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.18e-4, "118 us"), (0.0034, "3.4 ms"), (2, "2 s"), (125, "2 min 5 s"), (5e-8, "50 ns")],
)
def test_duration(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("point", "label"),
    [({"bytes": 8}, "8B"), ({"bytes": 2048}, "2KiB"), ({"bytes": 1 << 20}, "1MiB"), (None, "")],
)
def test_point_label(point, label):
    assert results.point_label(point) == label


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "transpose wrote no result file"),
        ("{", "cannot read "),
        ("[]", "is not a bisection-result file"),
        ({"schema": "bisection-result", "version": 3}, "has version 3; 1 to 2 can be read"),
        ({"schema": "bisection-result", "version": 1, "kernel": "npar"}, "is of kernel 'npar'"),
    ],
)
def test_result_that_is_none(tmp_path, content, says):
    path = tmp_path / "result.json"
    if content is not None:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(results.ResultError, match=says):
        results.load(path, "transpose", "cnt40")


def test_result_of_an_earlier_version(tmp_path):
    path = tmp_path / "result.json"
    older = {"schema": "bisection-result", "version": 1, "kernel": "npar", "case": "mini1",
             "status": "complete", "layout": {"ranks": 2}}  # fmt: skip
    path.write_text(json.dumps(older))
    result = results.load(path, "npar", "mini1")
    assert result["version"] == results.VERSION
    assert result["layout"] == {"ranks": 2, "firmware": {}}


def test_progress(capsys):
    import sys

    progress = Progress(sys.stdout)
    progress.read(
        "[ RUN      ] TransposeLaunch %layout=mpi %case=cnt40 ~generic:default+system /0a"
    )
    assert progress.now == "transpose mpi cnt40"
    progress.read("[       OK ] ( 2/43) TransposeLaunch %layout=mpi")
    progress.read("[     FAIL ] ( 3/43) transpose")
    assert (progress.done, progress.total, progress.failed) == (3, "43", 1)
