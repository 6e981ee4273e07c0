"""Reasons, changes and numbers in words."""

import ast
import copy
import math
import pickle

import pytest
from running import CHECKS

from bisection.analysis import model
from bisection.core.format import amount, change
from bisection.core.reasons import KINDS
from bisection.core.reasons.base import Reason, clause
from bisection.core.reasons.launches import Blocked, KernelDied


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
    assert change(row.change) == says


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.000118, "s", "118 us"),
        (0.0034, "s", "3.4 ms"),
        (125, "s", "2 min 5 s"),
        (900, "s", "15 min"),
        (90001, "s", "1 d 1 h 1 s"),
        (5e-8, "s", "50 ns"),
        (0.0, "s", "0 s"),
        (0.1341, "share", "13.4%"),
        (7311750.0, "atom-steps/s", "7.31 M atom-steps/s"),
        (11.8e9, "B/s", "11.8 GB/s"),
        (296368, "B", "296 kB"),
        (10, "messages", "10 messages"),
        (1.3269, "ratio", "1.33"),
        (None, "s", "\u2013"),
        (math.nan, "s", "\u2013"),
    ],
)
def test_amounts(value, unit, text):
    assert amount(value, unit) == text


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
    text = clause(Blocked(refused=f"sbatch: {words}"))
    assert hint in text.partition(words)[2]
    assert ("site file" in text) == bool(hint)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (
            Blocked(refused="no place", down=[[f"n{n}", "bad"] for n in range(200)]),
            "n2 (bad), n3 (bad) and 196 more",
        ),
        (Code.RANK_EXIT_HANGS(seconds=12.003456), "its launch did not end in 10 s, but in 12.0 s"),
        (
            KernelDied(kernel="md", exit_code=132, last=""),
            "md was killed by SIGILL; it was built for another processor",
        ),
    ],
)
def test_values_in_words(reason, words):
    assert clause(reason).endswith(words)


@pytest.mark.parametrize("code", KINDS.values())
def test_a_reason_whose_values_are_of_another_version_is_still_told(code):
    assert clause(Reason(code)).strip()
    assert clause(Reason(code, {"foreign": 1})).strip()


@pytest.mark.parametrize(
    ("stored", "says"),
    [
        ({"code": "NO_KERNEL", "folder": "/b"}, "no bisection-* in /b"),
        ('{"code": "NO_KERNEL", "folder": "/b"}', "no bisection-* in /b"),
        ({"code": "STALLED", "limit": 30}, '{"code": "STALLED", "limit": 30}'),
        ({"code": ["TIMEOUT"]}, '{"code": ["TIMEOUT"]}'),
        ("free text of ReFrame", "free text of ReFrame"),
        ("{no JSON", "{no JSON"),
        ("", ""),
        (None, ""),
    ],
)
def test_stored_reasons_are_told_of_whatever_kind(stored, says):
    assert clause(stored) == says


def test_a_copied_reason_is_the_same():
    reason = Blocked(job="7", waited=math.nan)
    assert reason.waited == "nan"
    assert copy.deepcopy(reason) == pickle.loads(pickle.dumps(reason)) == reason
    assert copy.deepcopy(reason).code is Blocked


@pytest.mark.parametrize("values", [{}, {"folder": "x", "file": "y"}, {"path": "x"}])
def test_a_reason_is_made_once_and_with_the_values_that_it_has(values):
    with pytest.raises(TypeError, match="NO_KERNEL"):
        Code.NO_KERNEL(**values)
    with pytest.raises(TypeError, match="two reasons NO_KERNEL"):
        type("Again", (Topic,), {"NO_KERNEL": "again"})


def calls(tree):
    """The kind and the names of values of each reason that a module makes."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        other = ast.unparse(node.func) in ("Fault", "reason_of", "type(case.reason)")
        for kind in [] if other else [node.func, *node.args]:
            if isinstance(kind, ast.Attribute) and ast.unparse(kind.value) == "Code":
                yield kind.attr, [keyword.arg for keyword in node.keywords], node.lineno


def test_reasons_are_made_with_the_values_that_they_have():
    """Also such of paths that no test takes: values behind ** are not seen."""
    wrong, seen = [], set()
    # the workshop's reasons are its own
    files = [f for f in CHECKS.rglob("*.py") if not {"tests", "workshop"} & {*f.parts}]
    for file in files:
        for code, names, line in calls(ast.parse(file.read_text())):
            seen.add(code)
            signature = KINDS[code].signature
            bind = signature.bind_partial if None in names else signature.bind
            try:
                bind(**dict.fromkeys(name for name in names if name))
            except TypeError as error:
                wrong.append(f"{file}:{line}: {code}: {error}")
    assert wrong == []
    assert {"BLOCKED", "WRONG_ANSWER"} <= seen
