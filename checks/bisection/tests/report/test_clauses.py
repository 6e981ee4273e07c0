"""Reasons, changes and numbers in words."""

import json
import math

import pytest

from bisection.analysis import model
from bisection.core.format import amount
from bisection.core.reasons import TOPICS, kinds_in, read_reason
from bisection.core.reasons.base import Reason, Text, clause
from bisection.core.reasons.launches import (
    Blocked,
    CoreShared,
    Hang,
    KernelDied,
    LeftOut,
    Misplaced,
    Remarks,
)
from interconnect import reasons
from interconnect.reasons import SlowComponent, Symptom


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
    assert row.change == says


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
            Blocked(refused="no place", down=tuple((f"n{n}", "bad") for n in range(200))),
            "n2 (bad), n3 (bad) and 196 more",
        ),
        (
            KernelDied(kernel="md", exit_code=132),
            "md was killed by SIGILL; it was built for another processor",
        ),
    ],
)
def test_values_in_words(reason, words):
    assert clause(reason).endswith(words)


@pytest.mark.parametrize(
    ("stored", "says"),
    [
        ({"code": "FOLLOWS", "test": "Build"}, "Build did not pass"),
        ('{"code": "FOLLOWS", "test": "Build"}', "Build did not pass"),
        ({"code": "TEXT", "text": "odd", "line": "x: no"}, "odd: x: no"),
        # of another version
        ({"code": "FOLLOWS", "test": "Build", "odd": 1}, "Build did not pass"),
        ({"code": "FOLLOWS", "check": "Build"}, '{"code": "FOLLOWS", "check": "Build"}'),
        ({"code": "TIMEOUT", "limit": "long"}, '{"code": "TIMEOUT", "limit": "long"}'),
        ({"code": "STALLED", "limit": 30}, '{"code": "STALLED", "limit": 30}'),
        ({"code": ["TIMEOUT"]}, '{"code": ["TIMEOUT"]}'),
        ("free text of ReFrame", "free text of ReFrame"),
        ("{no JSON", "{no JSON"),
        ("", ""),
        (None, ""),
    ],
)
def test_stored_reasons_are_told_of_whatever_kind(stored, says):
    assert clause(read_reason(stored)) == says


SYMPTOM = Symptom("bandwidth", "sends", 0.6, 9.0, 8, 0.61)


@pytest.mark.parametrize(
    "reason",
    [
        Blocked(job="7", waited=9.0, down=(("n1", "fan"),)),
        Misplaced(seats=(CoreShared(host="n1", text="x"),), fault=Hang(silent=(("0-3", "n1"),))),
        SlowComponent(part="node", names=("n1",), symptoms=(SYMPTOM,), drift=True),
        Remarks((LeftOut(("md: no FFTW",)), Text("odd", build="error: y"))),
    ],
)
def test_a_stored_reason_is_read_as_it_was(reason):
    assert read_reason(json.loads(json.dumps(reason.as_dict()))) == reason
    assert read_reason(reason.dumps()).as_dict() == reason.as_dict()


def test_no_two_reasons_are_stored_under_one_code():
    topics = (*TOPICS, reasons)
    kinds = {kind for topic in topics for kind in vars(topic).values() if is_reason(kind)}
    assert len(kinds) == len(kinds_in(*topics))


def is_reason(kind):
    return isinstance(kind, type) and issubclass(kind, Reason) and bool(kind.code)
