"""Reasons and changes in words."""

import pytest

from bisection.analysis import model
from bisection.core.reasons import Code, Reason
from bisection.report.clauses import CLAUSES, FAULTS, clause
from bisection.report.ratios import change


@pytest.mark.parametrize(
    ("ratio", "low", "high", "better", "unit", "says"),
    [
        (1.14, 1.11, 1.17, "lower", "s", "14% [11%, 17%] slower"),
        (0.5, 0.4, 0.8, "lower", "s", "2 [1.25, 2.5] times as fast"),
        (1 / 1.25, 1 / 1.5, 1 / 1.1, "lower", "s", "25% [10%, 50%] faster"),
        (9.38, 8.88, 9.76, "lower", "s", "9.38 [8.88, 9.76] times slower"),
        (0.8, 0.75, 0.9, "higher", "atom-steps/s", "25% [11%, 33%] slower"),
        (1.02, 0.99, 1.05, "higher", "GHz", "2.0% [-1.0%, 5.0%] faster"),
        (0.84, 0.82, 0.85, "lower", "ratio", "16% [15%, 18%] less"),
        (1.1, None, None, "lower", "s", "10% slower"),
        (None, None, None, "lower", "s", ""),
    ],
)
def test_change_in_clause(ratio, low, high, better, unit, says):
    row = model.Row(*["x"] * 7, "time", unit, better, False, model.Side(), model.Side())
    row.ratio, row.low, row.high = ratio, low, high
    assert change(row) == says


def test_many_nodes_that_are_down_are_not_all_listed():
    down = [[f"n{number}", "bad"] for number in range(200)]
    words = clause(Reason.of(Code.BLOCKED, refused="no place", down=down))
    assert words.endswith("n2 (bad), n3 (bad) and 196 more")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("Invalid account or account/partition combination specified", "site new --account A`)"),
        ("Invalid qos specification", "(qos=... in the site file, or `site new --qos Q`)"),
        ("name a --qos and an account", "(account=... and qos=... in the site file"),
        ("Job violates accounting/QOS policy (job submit limit, size)", ""),
        ("Requested node configuration is not available", ""),
    ],
)
def test_a_refusal_names_the_option_that_mends_it(words, hint):
    text = clause(Reason.of(Code.BLOCKED, refused=f"sbatch: {words}"))
    assert hint in text.partition(words)[2]
    assert ("site file" in text) == bool(hint)


def test_seconds_until_a_launch_ended_are_rounded():
    words = clause(Reason.of(Code.RANK_EXIT_HANGS, seconds=12.003456))
    assert words == "its launch did not end in 10 s, but in 12.0 s"


@pytest.mark.parametrize("code", Code)
def test_every_code_has_a_clause(code):
    assert code in CLAUSES


@pytest.mark.parametrize("code", Code)
def test_a_code_whose_values_are_of_another_version_is_still_told(code):
    reason = Reason.of(code)
    assert clause(reason)
    assert clause(reason).startswith(f"{code}: ") == (code in FAULTS)


def test_no_reason_is_no_clause():
    assert clause(None) == ""


def test_code_for_another_processor_is_named():
    reason = Reason.of(Code.KERNEL_EXIT, kernel="md", exit_code=132, last="")
    assert clause(reason) == ("md was killed by SIGILL; it was built for another processor")
