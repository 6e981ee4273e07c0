"""The store: what it is made from, what damages it, who writes at once, and files of other tools
with what nobody expects."""

import json
import multiprocessing
import os
import re
import resource
import sqlite3
import sys
import time
from argparse import ArgumentTypeError
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import results_made
from made_up import case, nights, session, sessions, store
from reports import HOSTILE
from results_made import entry

from bisection.core import paths
from bisection.core.verdicts import Exit, Verdict
from bisection.runs import command
from bisection.runs.reframe_report import read
from bisection.store import sample_file, sync
from bisection.store.database import Store
from bisection.store.nights import Nights
from bisection.store.selection import select


@pytest.fixture
def file(tmp_path):
    """A sample file of one session with two test cases."""
    path = tmp_path / "samples.jsonl"
    sample_file.write_samples(path, session(1), [case(metrics={"time": 1.5}), case("shm")])
    return path


def read_all(path):
    return list(sample_file.read_samples(path))


def jobs_of(store):
    return Nights(store, store.sessions()).jobs


# ---- sample files ----


def test_sample_file_is_what_the_store_gets(tmp_path, file):
    """A test that was repeated is stored each time."""
    with file.open("a") as more:
        more.write(json.dumps({**case(metrics={"time": 2.5}), "run": 0}) + "\n")
    stored = store(tmp_path / "store.db", read_all(file))
    (only,) = stored.sessions()
    assert (only.uuid, only.facts) == ("00000001-made-up", {"MPI": "Open MPI 4.1.4"})
    tests = [(test.method, test.geometry) for test in stored.tests().values()]
    assert tests == [("p2p", "2x1"), ("shm", "2x1")]
    assert jobs_of(stored)[["run", "value"]].tolist() == [(0, 1.5), (1, 2.5)]
    assert [o.verdict for o in stored.outcomes([only])] == ["pass"] * 3


def test_many_hosts_are_written_and_stored_once(tmp_path):
    """Each of hundreds of tests of thousands of nodes has the same ones."""
    many, few = [f"n{number:04d}" for number in range(4000)], ["n1", "n2"]
    hosts = [few, many, few, many, [], many[1:], many]
    path, lines = tmp_path / "samples.jsonl", [case(f"m{n}", hosts=h) for n, h in enumerate(hosts)]
    sample_file.write_samples(path, session(1), lines)
    assert path.stat().st_size < 2.5 * len(json.dumps(many))
    ((_, cases),) = read_all(path)
    assert [each["hosts"] for each in cases] == hosts
    stored = store(tmp_path / "store.db", read_all(path))
    outcomes = stored.outcomes(stored.sessions())
    assert [[*outcome.hosts] for outcome in outcomes] == hosts
    assert outcomes[1].hosts is outcomes[6].hosts
    assert (tmp_path / "store.db").stat().st_size < 8 * len(json.dumps(many))
    with path.open("a") as more:
        more.write(json.dumps(case(hosts=6)) + "\n" + json.dumps(case(hosts=8)) + "\n")
    with pytest.raises(sample_file.StoreError, match=":10: hosts is 8"):
        read_all(path)


def test_other_tools_need_to_say_little(tmp_path):
    path = tmp_path / "theirs.jsonl"
    path.write_text(
        '{"schema": "bisection-samples", "version": 4, "session": "a", "start": 5}\n'
        '{"check": "hpl", "metrics": {"rate": [2.5e12, "flop/s", "higher"]}}\n'
    )
    stored = store(tmp_path / "store.db", read_all(path))
    assert next(iter(stored.metrics().values())) == ("rate", "flop/s", "higher")


OURS = "'bisection-samples' version 4"
SESSION = '{"schema": "bisection-samples", "version": 4, "session": "a"'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no session in it"),
        ('{"check": "x", "metrics": {}}', ":1: a test case before any session"),
        (SESSION, ":1: not JSON, or cut short"),
        (
            SESSION.replace("4", "5") + "}",
            f"version 5, of another Bisection; only {OURS} can be read",
        ),
        ("\0\1", ":1: not JSON, or cut short"),
        (SESSION.replace('"a"', "3") + ', "start": 1}', "session is 3"),
        (SESSION + "}", "start is missing"),
        ("[]", ":1: not an object"),
        ("[" * 100_000, ":1: not JSON, or cut short"),
        (SESSION + ', "start": NaN}', ":1: start is"),
        (SESSION + ', "start": Infinity}', ":1: start is"),
        (SESSION + ', "start": 1e300}', ":1: start is"),
        (SESSION + ', "start": 1}\n' + SESSION + ', "start": 1}', ":2: session a twice"),
        (SESSION + ', "start": 1, "tags": [1]}', ":1: tags is"),
        (SESSION + ', "start": 1, "facts": {"MPI": 4}}', ":1: facts.MPI is"),
    ],
)
def test_session_line_that_is_none(tmp_path, text, says):
    path = tmp_path / "bad.jsonl"
    path.write_text(text + "\n")
    with pytest.raises(sample_file.StoreError, match=says):
        read_all(path)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ('"metrics": {"time": 3}', "metrics.time is 3: it must be array"),
        ('"metrics": {"time": ["3", "s", "lower"]}', 'metrics.time.0 is "3": it must be number'),
        ('"metrics": {"time": [3, "s", "smaller"]}', 'metrics.time.2 is "smaller"'),
        ('"metrics": []', r"metrics is \[\]"),
        ('"metrics": {"time": [3, "s"', "not JSON, or cut short"),
        ('"metrics": {}, "hosts": ["\\ud800"]', "half of a surrogate pair"),
        ('"metrics": {}, "run": "x"', "run is"),
        ('"metrics": {}, "run": -3', "run is"),
        ('"metrics": {}, "disturbed": "x"', "disturbed is"),
        ('"metrics": {}, "hosts": "n1"', "hosts is"),
        ('"metrics": {}, "hosts": [1]', "hosts.0 is"),
        ('"metrics": {}, "verdict": [1]', "verdict is"),
        ('"metrics": {}, "reason": 7', "reason is"),
        ('"metrics": {}, "control": "yes"', "control is"),
    ],
)
def test_half_a_file_stores_nothing(home, file, fields, says, command_line):
    with file.open("a") as more:
        more.write(f'{{"check": "x", {fields}}}\n')
    code, _, errors = command_line("import", str(file))
    assert code == 2
    assert re.search(f"samples.jsonl:4: .*{says}", errors)
    assert Store(paths.store_db(home)).sessions() == []


def test_import_twice_is_import_once(home, file, command_line):
    for counts in ("1 session stored", "0 sessions stored, 1 stored before"):
        assert command_line("import", str(file)) == (0, f"{file}: {counts}\n", "")
    assert len(jobs_of(Store(paths.store_db(home)))) == 1


def test_a_file_that_cannot_be_written_is_not_half_there(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(sample_file.StoreError, match="cannot write"):
        sample_file.write_samples(tmp_path / "folder" / "no" / "x.jsonl", session(1), [])
    with pytest.raises(sample_file.StoreError, match="JSON compliant"):
        sample_file.write_samples(tmp_path / "x.jsonl", session(1), [{"a": float("nan")}])
    assert list(tmp_path.glob("*x.jsonl*")) == []
    assert list(tmp_path.glob(".*")) == []


@pytest.mark.parametrize("name", ["pipe", "pipe.json", "/dev/zero"])
@pytest.mark.parametrize(
    "words", ["import {}", "compare {} latest", "verdict {}", "sessions list {}"]
)
def test_what_is_no_file_is_not_read(home, file, command_line, name, words):
    """A pipe may wait for ever, and a device have no end."""
    sync.import_file(Store(paths.store_db(home)), home, file)
    path = Path(home, name)
    if not path.exists():
        os.mkfifo(path)
    code, out, errors = command_line(*words.format(path).split())
    assert (code, out, errors.count("\n")) == (2, "", 1)
    assert errors.endswith(f"{path}: not a regular file\n")


@pytest.mark.parametrize(
    ("tags", "lacks"),
    [
        ({"tier": "quick"}, "names no system"),
        ({"system": "lab"}, "names no tier"),
        ({"system": "", "tier": ""}, "names no system and no tier"),
        ({}, "names no system and no tier"),
        (None, "names no system and no tier"),
    ],
)
def test_a_session_without_a_kind_is_not_imported(home, file, command_line, tags, lacks):
    """No other could be compared with it."""
    file.write_text("".join(json.dumps(session(n, tags=tags)) + "\n" for n in (1, 2)))
    code, out, errors = command_line("import", str(file))
    assert (code, out, errors.count("\n")) == (2, "", 1)
    assert f"{file}: session " in errors
    assert f" {lacks}: it is not one of `bisection run`" in errors
    assert Store(paths.store_db(home)).sessions() == []
    assert not [*home.glob("imported/*")]


# ---- a run's record ----


def report(uuid="11112222", **more):
    info = {"time_start_unix": 1e9, "tier": "nightly", "phase": "before", "num_cases": 1}
    return results_made.report(entry(**more), uuid=uuid, hostname="login", **info)


@pytest.mark.parametrize("placed", [True, False])
def test_controls_and_facts_of_a_launch(placed):
    """Where ranks were placed wrongly, no control counts."""
    record = {"kernel": "transpose", "hosts": ["n1"], "facts": {"MPI": "x", "lock": "aa"}}
    record |= {"controls": {"serial": 2e-4, "clock": 2.9}, "slowest": "n7"}
    failed = {} if placed else {"result": "fail", "fail_phase": "sanity", "fail_reason": "INVALID"}
    launch = report(fixture=True, launch_record=record, perfvalues=None, **failed)
    line, cases = sync.of_verdict(read(launch))
    assert line["facts"] == {"MPI": "x", "clock": "2.9 GHz", "lock": "aa", "nodes": "n1"}
    controls = [(c["method"], *c["metrics"], c["hosts"], c["control"]) for c in cases]
    expected = [("serial", "time", ["n1"], True), ("clock", "clock", ["n7"], True)]
    assert controls == (expected if placed else [])


# ---- damage ----


def test_a_sample_file_with_a_fault_is_one_line_and_the_rest_is_used(home, file, command_line):
    says = ":3: not JSON, or cut short"
    for number, text in enumerate([file.read_text(), file.read_text()[:-40]]):
        folder = home / "results" / str(number)
        folder.mkdir(parents=True)
        text = text.replace("00000001", "00000002") if not number else text
        (folder / sample_file.SPOOLED).write_text(text)
    (home / "results" / "2" / sample_file.SPOOLED).mkdir(parents=True)
    for _ in range(2):  # by each command, until it is restored
        code, text, errors = command_line("sessions", "list", "--json")
        assert (code, len(json.loads(text)["sessions"])) == (0, 1)
        fault, folder = errors.splitlines()
        assert f"results/1/samples.jsonl{says}" in fault
        assert "results/2/samples.jsonl: Is a directory" in folder
        assert fault.endswith(": restore this file, or move it away; all other files are used")
    code, text, errors = command_line("import")
    assert (code, text, len(errors.splitlines())) == (2, "the store has 1 session\n", 2)
    code, text, _ = command_line("doctor", "--system", "localhost")
    assert (code, f"results/1/samples.jsonl{says}" in text) == (1, True)
    (home / "results" / "1" / sample_file.SPOOLED).write_text(file.read_text())
    code, text, errors = command_line("sessions", "list", "--json")
    assert (len(json.loads(text)["sessions"]), len(errors.splitlines())) == (2, 1)


def test_a_store_that_was_removed_is_made_again_with_the_same_answers(home, command_line, rng):
    times = 1e-3 * np.repeat([1.0, 1.2], 15) * np.exp(rng.normal(0, 0.01, 30))
    contents = nights({"p2p": times, "shm": times[::-1]})
    with Store(paths.store_db(home)) as store:
        store.add(reversed(contents))  # as sessions that were imported later
    for line, cases in contents:
        folder = home / "results" / line["session"]
        folder.mkdir(parents=True)
        sample_file.write_samples(folder / sample_file.SPOOLED, line, cases)
    answers = []
    for damage in (Path.touch, Path.unlink, lambda path: path.write_bytes(b"garbage" * 600)):
        damage(paths.store_db(home))
        said = [command_line(*words.split()) for words in ("compare earlier:20 latest", "history")]
        said.append(command_line("report", "-o", str(home / "report")))
        said.append((home / "report" / "bisection.prom").read_text())
        answers.append(said)
    assert answers[0][1][0] == Exit.SLOWER
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_shows_the_progress_where_many_sessions_are_stored(
    home, monkeypatch, capsys, terminal
):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setattr(sync, "MANY", 3)
    (home / "imported").mkdir()
    for count in (2, 3):  # the second time one is new
        for number in range(count * 10, count * 11):
            path = home / "imported" / f"{number}.jsonl"
            sample_file.write_samples(path, session(number), [case()])
        sync.opened(home).close()
    shown = capsys.readouterr().err
    assert shown.count("/2 sessions") == 0
    assert shown.endswith("3/3 sessions\n" if terminal else "")
    assert bool(shown) == terminal


def die_while_writing(path):
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA cache_size = 1")  # so that changes reach the file before the end
    database.execute("BEGIN IMMEDIATE")
    for number in range(3000):
        row = (None, f"half {number}", 1.0, "{}" * 100, "{}", "{}")
        database.execute("INSERT INTO sessions VALUES(?, ?, ?, ?, ?, ?)", row)
    os.kill(os.getpid(), 9)


def in_processes(function, *arguments):
    """The exit codes of a function in processes of their own, at once, with these arguments."""
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=function, args=words) for words in arguments]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return [worker.exitcode for worker in workers]


def fill_a_full_disk(path):
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
    try:
        big = [case(f"m{i}", {"time": 1.0}) for i in range(3000)]
        Store(path).add([(session(2), big)])
    except sample_file.StoreError:
        sys.exit(5)


@pytest.mark.parametrize(("function", "code"), [(die_while_writing, -9), (fill_a_full_disk, 5)])
def test_a_writer_that_was_killed_or_has_no_room_stores_nothing_and_leaves_no_damage(
    tmp_path, function, code
):
    path = tmp_path / "store.db"
    store(path, nights({"p2p": [1.0]})).close()
    assert in_processes(function, [path]) == [code]
    assert (tmp_path / "store.db-journal").exists() == (code == -9)
    assert not sync.is_damaged(path)
    with Store(path) as stored:
        assert (len(stored.sessions()), len(jobs_of(stored))) == (1, 1)


def test_a_store_that_another_writes_to_is_not_damaged(tmp_path, monkeypatch):
    monkeypatch.setattr(sync, "TIMEOUT", 0.1)
    path = tmp_path / "store.db"
    store(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    assert not sync.is_damaged(path)
    other.close()


def test_the_journal_of_a_damaged_store_goes_with_it(tmp_path):
    path = tmp_path / "store.db"
    path.write_bytes(b"garbage" * 100)
    (tmp_path / "store.db-journal").write_bytes(b"left over")
    sync.opened(tmp_path).close()
    assert [path.name for path in tmp_path.iterdir()] == ["store.db"]


def test_tags_that_are_damaged_in_the_store(tmp_path):
    stored = store(tmp_path / "store.db", nights({"p2p": [1.0]}))
    stored.connection.execute("UPDATE sessions SET tags = '{x'")
    with pytest.raises(sample_file.StoreError, match=r"store\.db: Expecting property name"):
        stored.sessions()


@pytest.mark.parametrize("kept", [0, 4096, 1 / 2])
def test_a_damaged_store_is_made_again(home, file, command_line, kept):
    """Of garbage, of a page and garbage, of half a store."""
    command_line("import", str(file))
    path = paths.store_db(home)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if kept == 1 / 2 else whole[:kept] + b"garbage" * 600)
    assert sync.is_damaged(path)
    assert command_line("import") == (0, "the store has 1 session\n", "")
    assert not sync.is_damaged(path)


@pytest.mark.parametrize("version", [1, 9])
def test_a_store_of_another_version_is_made_again(home, file, command_line, version):
    command_line("import", str(file))
    with sqlite3.connect(paths.store_db(home)) as database:
        database.execute("ALTER TABLE tests ADD COLUMN other TEXT")
        database.execute(f"PRAGMA user_version = {version}")
    database.close()
    assert command_line("import") == (0, "the store has 1 session\n", "")
    assert [test.method for test in Store(paths.store_db(home)).tests().values()] == ["p2p", "shm"]


def add_many(path, first):
    for number in range(first, first + 10):
        cases = [case(f"m{i}", {"time": 1.0}) for i in range(50)]
        with Store(path) as stored:
            stored.add([(session(number), cases)])


def test_nights_that_end_together_are_all_stored(tmp_path):
    path = tmp_path / "store.db"
    assert in_processes(add_many, *([path, 100 * i] for i in range(4))) == [0] * 4
    with Store(path) as stored:
        assert len(stored.sessions()) == 40
        assert len(jobs_of(stored)) == 2000


# ---- what a run keeps ----


TAGS = {
    "": ("phase=before", "fw-version=2.1", "timeslot=a", "a="),
    "is reserved": ("tier=x", "system=x", "num_nodes=x", "user=x", "time_start=x"),
    "not NAME=VALUE on one line, without commas":
        ("a=b\nc", "a=b\x1b[31m", "a=b\u2028c", "a=\udc80", "a=b,c", "=b"),
}  # fmt: skip


@pytest.mark.parametrize(("error", "text"), [(error, t) for error in TAGS for t in TAGS[error]])
def test_tags_that_a_session_would_lose_or_no_line_can_hold_are_refused(error, text):
    with pytest.raises(ArgumentTypeError, match=error) if error else nullcontext():
        assert command.tag(text) == text


@pytest.mark.parametrize(
    ("uuid", "folder", "says", "stored"),
    [("11112222", "no folder", "no folder", 1), ("", ".", "not stored: ", 0)],
)
def test_a_run_without_a_file_is_stored_but_none_without_an_identifier(
    tmp_path, uuid, folder, says, stored
):
    with Store(paths.store_db(tmp_path)) as store:
        (trouble,) = sync.keep(store, read(report(uuid=uuid)), tmp_path / folder)
        assert says in str(trouble)
        assert len(store.sessions()) == stored


def test_a_run_that_the_store_does_not_take_is_recorded(tmp_path):
    folder = tmp_path / "results" / "night"
    folder.mkdir(parents=True)
    with Store(paths.store_db(tmp_path)) as store:
        store.connection.execute("PRAGMA query_only = 1")  # as on a full disk
        (trouble,) = sync.keep(store, read(report()), folder)
    assert str(trouble).startswith("not stored: ")
    with sync.opened(tmp_path) as store:
        assert [session.uuid for session in store.sessions()] == ["11112222"]


# ---- what nobody expects ----


def test_a_store_that_cannot_be_opened_is_one_line(home, command_line):
    """A folder in its place stands for a file of another user: root may read all."""
    (home / "store.db").mkdir()
    for words in ("compare a b", "history", "report", "sessions"):
        code, _, errors = command_line(*words.split())
        assert code == 2
        assert errors.startswith(f"bisection {words.split()[0]}: error: {home}")
        assert "unable to open" in errors
        assert errors.count("\n") == 1


@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "1e309", "1e308", "1e-320", "1" + "0" * 400]
)
def test_values_that_are_no_numbers_are_not_measured_and_kept(home, file, command_line, value):
    file.write_text(file.read_text().replace("1.5", value))
    assert command_line("import", str(file))[0] == 0
    assert len(list((home / "imported").glob("*.jsonl"))) == 1
    (home / "store.db").unlink()
    with sync.opened(home) as store:  # made again from the copy
        (stored,) = jobs_of(store)["value"]
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
    def full(*_):
        raise sample_file.StoreError("full")

    with sync.opened(home) as store:
        monkeypatch.setattr(store, "add", full)
        with pytest.raises(sample_file.StoreError):
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


def test_a_control_of_what_is_compared_stays(compared):
    control = case("serial", {"time": 1e-3}, control=True)
    contents = sessions(0, [[case(metrics={"time": 1e-3}), control]] * 12)
    for name, methods in (("p2p", ["p2p", "serial"]), ("none", [])):
        rows = compared(contents[:6], contents[6:], name=re.compile(name)).rows
        assert sorted(row.method for row in rows) == methods
