"""Stores out of reach, and files of other tools with what nobody expects."""

import json
import re
import time

import pytest
from made_up import case, nights, session
from reports import HOSTILE

from bisection.analysis.compare import compare
from bisection.core.verdicts import Verdict
from bisection.store import sync
from bisection.store.database import Store
from bisection.store.sample_file import StoreError, write_samples
from bisection.store.selection import select


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("BISECTION_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def file(tmp_path):
    """A sample file of one night."""
    write_samples(tmp_path / "a.jsonl", session(1), [case(metrics={"time": 0.5})])
    return tmp_path / "a.jsonl"


@pytest.mark.parametrize("content", [b"this is no database" * 400, None])
def test_a_store_that_cannot_be_opened_is_one_line(home, command_line, content):
    """A folder in its place stands for a file of another user: root may read all."""
    (home / "store.db").write_bytes(content) if content else (home / "store.db").mkdir()
    for words in ("compare a b", "history", "report", "sessions"):
        code, _, errors = command_line(*words.split())
        assert code == 2
        assert errors.startswith(f"bisection {words.split()[0]}: error: {home}")
        assert errors.count("\n") == 1
    with pytest.raises(StoreError, match="file is not a database" if content else "unable to open"):
        Store(home / "store.db")


@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "1e309", "1e308", "1e-320", "1" + "0" * 400]
)
def test_values_that_are_no_numbers_are_not_measured_and_kept(home, file, command_line, value):
    file.write_text(file.read_text().replace("0.5", value))
    assert command_line("import", str(file))[0] == 0
    assert len(list((home / "imported").glob("*.jsonl"))) == 1
    (home / "store.db").unlink()
    with sync.opened(home) as store:  # made again from the copy
        (stored,) = store.samples()["value"]
        assert (stored == stored) == (value == "1e-320")


def test_control_characters_of_names_do_not_reach_a_terminal(home, command_line):
    with Store(home / "store.db") as store:
        for number in range(1, 9):
            method = HOSTILE + str(number > 2)  # new in the third
            metrics = {"time": 0.5 + number / 100}
            job = case(method, metrics, system=HOSTILE, check=HOSTILE)
            store.add([(session(number, tags={"system": HOSTILE, "tier": HOSTILE}), [job])])
    for words in ("compare latest~6 latest~5", "history", "sessions", "compare --plan 5%"):
        printed = command_line(*words.split())[1]
        assert printed
        assert "[31m" not in printed
        assert not re.search("[\x00-\x08\x0b-\x1f]", printed)


def test_sessions_of_similar_and_long_names_keep_copies_of_their_own(home, file, command_line):
    names = ["x/y", "x_y", "z" * 300]
    file.write_text("".join(json.dumps(session(1, session=name)) + "\n" for name in names))
    assert command_line("import", str(file))[0] == 0
    (home / "store.db").unlink()
    with sync.opened(home) as store:
        assert {stored.uuid for stored in store.sessions()} == set(names)


def test_nothing_is_stored_or_left_behind_if_the_store_cannot_take_it(home, file, monkeypatch):
    with sync.opened(home) as store:
        monkeypatch.setattr(store, "add", lambda _: (_ for _ in ()).throw(StoreError("full")))
        with pytest.raises(StoreError):
            select(str(file), store)
    assert not list((home / "imported").glob("*"))


@pytest.mark.parametrize("huge", [1e308, 1e-308])
def test_huge_values_are_compared(compared, huge):
    compared(nights({"p2p": [1.0] * 6}), nights({"p2p": [huge]}, first=10))
    result = compared(nights({"shm": [huge] * 6}, first=20), nights({"shm": [huge]}, first=30))
    verdicts = {row.verdict for row in result.rows}
    assert verdicts <= {Verdict.INCONCLUSIVE, Verdict.NEW, Verdict.NOT_MEASURED}


def test_a_session_of_the_future_is_not_the_latest(home, capsys):
    with sync.opened(home) as store:
        store.add(nights({"p2p": [1e-3, 1e-3]}))
        store.add([(session(9, start=time.time() + 30 * 86400), [case()])])
    with sync.opened(home) as store:
        assert [chosen.uuid[:8] for chosen in select("latest", store)] == ["00000001"]
        assert [chosen.uuid[:8] for chosen in select("00000009", store)] == ["00000009"]
    said = "warning: `latest` leaves out sessions that begin in the future: 00000009"
    assert said in capsys.readouterr().err


def test_a_control_of_what_is_compared_stays(tmp_path):
    control = {"method": "serial", "control": True}
    sessions = [
        (session(n), [case(metrics={"time": 1e-3}), case(metrics={"time": 1e-3}, **control)])
        for n in range(12)
    ]
    with Store(tmp_path / "store.db") as store:
        store.add(sessions)
        both = store.sessions()
        rows = compare(store, both[:6], both[6:], name=re.compile("p2p")).rows
        assert sorted(row.method for row in rows) == ["p2p", "serial"]
        assert compare(store, both[:6], both[6:], name=re.compile("none")).rows == []
