"""Naming stored sessions."""

import pytest
from made_up import session, store

from bisection.store.selection import SelectionError, select


@pytest.fixture
def named(tmp_path):
    phases = ["before"] * 3 + ["after"] * 3
    nightly = [session(i, tags={"tier": "nightly", "phase": p}) for i, p in enumerate(phases)]
    lines = [*nightly, session(9, tags={"tier": "quick"})]
    return store(tmp_path / "store.db", [(line, []) for line in lines])


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("latest", [9]),
        ("latest~1", [5]),
        ("2026-06-02", [1]),
        ("2026-06-02..2026-06-04", [1, 2, 3]),
        ("2026-06-05..", [4, 5, 9]),
        ("..2026-06-01", [0]),
        ("..", [0, 1, 2, 3, 4, 5, 9]),
        ("phase=before", [0, 1, 2]),
        ("00000004", [4]),
        ("latest~1,phase=before", [0, 1, 2, 5]),
        ("00000004-made-up", [4]),
    ],
)
def test_sessions_are_named(named, text, numbers):
    assert [int(s.uuid[:8], 16) for s in select(text, named)] == numbers


def test_earlier_is_of_the_same_kind(named):
    other = select("latest~1", named)
    assert [int(s.uuid[:8], 16) for s in select("earlier:2", named, other)] == [3, 4]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nonsense", "'nonsense' names no session: 7 sessions stored, of 2026-06-01 to 2026-06-10"),
        ("2026-13-01", "'2026-13-01': no such day"),
        ("latest~7", "'latest~7' names no session: 7 sessions stored"),
        ("0000000", "begins 7 identifiers"),
        ("earlier", "'earlier' is before the other side"),
        ("phase=befor", "'phase=befor' names no session: tag phase is before, after$"),
        ("phase=None", "names no session: tag phase is before, after$"),
        ("tier=night", "names no session: tag tier is nightly, quick$"),
        ("pase=before", "names no session: tags are phase=before, phase=after$"),
        ("a" * 5000, "names no session"),
        ("..2026-06-31", "no such day"),
    ],
)
def test_sessions_that_are_none(named, text, says):
    with pytest.raises(SelectionError, match=says.replace("(", r"\(")):
        select(text, named)


def test_identifiers_and_tags_are_taken_as_they_are(tmp_path):
    lines = [session(0, session="1", tags={"branch": "mine/new"}), session(1, session="10")]
    stored = store(tmp_path / "store.db", [(line, []) for line in lines])
    for text in ("1", "branch=mine/new"):
        assert [s.uuid for s in select(text, stored)] == ["1"]
    with pytest.raises(SelectionError):
        select("earlier:0", stored, select("10", stored))


@pytest.mark.parametrize(
    ("sessions", "text", "says"),
    [
        ([], "nonsense", "^'nonsense': no session is stored"),
        ([], "..", "^no session is stored"),
        ([0], "a=b", r"'a=b' names no session: tags are none$"),
        ([0], "nonsense", r"names no session: 1 session stored, of 2026-06-01$"),
    ],
)
def test_a_store_of_little_is_described(tmp_path, sessions, text, says):
    stored = store(tmp_path / "store.db", [(session(number), []) for number in sessions])
    with pytest.raises(SelectionError, match=says):
        select(text, stored)
