"""A kernel's result file, read without trusting it."""

import json

import pytest

from bisection.kernels import results
from bisection.report.clauses import clause


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
        ("{", "cannot read {path}: "),
        ("[]", "{path} is not a bisection-result file"),
        ({"schema": "bisection-result", "version": 3}, "{path} has version 3; 1 to 2 can be read"),
        (
            {"schema": "bisection-result", "version": 1, "kernel": "npar"},
            "{path} is of kernel 'npar'",
        ),
    ],
)
def test_a_file_that_is_no_result_is_refused(tmp_path, content, says):
    path = tmp_path / "result.json"
    if content is not None:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(results.ResultError) as error:
        results.load(path, "transpose", "cnt40")
    assert clause(error.value.reason).startswith(says.format(path=path))


def test_preempted_samples_are_those_that_the_kernel_marks():
    samples = {"seconds": [1e-4, 1.0, 1.0], "switches": [1, 31, 99]}
    assert results.preempted_samples({"samples": samples}) == [False, False, True]
    marked = {**samples, "preempted": [1, 0, 0]}
    assert results.preempted_samples({"samples": marked}) == [True, False, False]
    assert results.preempted({"results": [{"samples": marked}]}) == pytest.approx(1 / 3)


def test_result_of_an_earlier_version(tmp_path):
    path = tmp_path / "result.json"
    older = {"schema": "bisection-result", "version": 1, "kernel": "npar", "case": "mini1",
             "status": "complete", "layout": {"ranks": 2}}  # fmt: skip
    path.write_text(json.dumps(older))
    result = results.load(path, "npar", "mini1")
    assert result["version"] == results.VERSION
    assert result["layout"] == {"ranks": 2, "firmware": {}}
