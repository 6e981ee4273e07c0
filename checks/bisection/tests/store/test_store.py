"""The store: what it is made from, what damages it, who writes at once."""

import json
import multiprocessing
import os
import re
import resource
import sqlite3
import sys

import pytest
import results_made
from made_up import case, nights, session, store
from results_made import entry

from bisection import cli
from bisection.core import paths
from bisection.core.reasons import Code, clause
from bisection.runs.command import TAG
from bisection.runs.report import read
from bisection.store import sample_file, sync
from bisection.store.database import Store


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def file(tmp_path):
    """A sample file of one session with two test cases."""
    path = tmp_path / "samples.jsonl"
    sample_file.write_samples(path, session(1), [case(metrics={"time": 1.5}), case("shm")])
    return path


def imported(home, *files, monkeypatch):
    monkeypatch.setenv("BISECTION_HOME", str(home))
    return cli.main(["import", *map(str, files)])


# ---- sample files ----


def test_sample_file_is_what_the_store_gets(tmp_path, file):
    """A test that was repeated is stored each time."""
    with file.open("a") as more:
        more.write(json.dumps({**case(metrics={"time": 2.5}), "run": 0}) + "\n")
    stored = store(tmp_path / "store.db", sync.contents(file))
    (only,) = stored.sessions()
    assert (only.uuid, only.facts) == ("00000001-made-up", {"MPI": "Open MPI 4.1.4"})
    tests = [(test.method, test.geometry) for test in stored.tests().values()]
    assert tests == [("p2p", "2x1"), ("shm", "2x1")]
    assert stored.samples()[["run", "value"]].tolist() == [(0, 1.5), (1, 2.5)]
    assert [o.verdict for o in stored.outcomes([only])] == ["pass"] * 3


def test_other_tools_need_to_say_little(tmp_path):
    path = tmp_path / "theirs.jsonl"
    path.write_text(
        '{"schema": "bisection-samples", "version": 2, "session": "a", "start": 5}\n'
        '{"check": "hpl", "metrics": {"rate": [2.5e12, "flop/s", "higher"]}}\n'
    )
    stored = store(tmp_path / "store.db", sync.contents(path))
    assert next(iter(stored.metrics().values())) == ("rate", "flop/s", "higher")


SESSION = '{"schema": "bisection-samples", "version": 2, "session": "a"'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no session in it"),
        ('{"check": "x", "metrics": {}}', ":1: a test case before any session"),
        (SESSION, ":1: not JSON, or cut short"),
        (
            SESSION.replace("2", "1") + "}",
            "version 1; only 'bisection-samples' version 2 can be read: move the file away",
        ),
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
        sync.contents(path)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ('"metrics": {"time": 3}', "metrics.time is 3: it must be array"),
        ('"metrics": {"time": ["3", "s", "lower"]}', 'metrics.time.0 is "3": it must be number'),
        ('"metrics": {"time": [3, "s", "smaller"]}', 'metrics.time.2 is "smaller"'),
        ('"metrics": []', r"metrics is \[\]"),
        ('"metrics": {"time": [3, "s"', "not JSON, or cut short"),
        ('"metrics": {}, "hosts": ["\\ud800"]', "half of a surrogate pair"),
        *(
            (f'"metrics": {{}}, {field}', rf"{field.split(chr(34))[1]}(\.0)? is")
            for field in (
                *('"run": "x"', '"run": -3', '"disturbed": "x"', '"hosts": "n1"', '"hosts": [1]'),
                *('"pair": ["n1"]', '"verdict": [1]', '"cause": 7', '"control": "yes"'),
            )
        ),
    ],
)
def test_half_a_file_stores_nothing(tmp_path, file, fields, says, monkeypatch, capsys):
    with file.open("a") as more:
        more.write(f'{{"check": "x", {fields}}}\n')
    assert imported(tmp_path, file, monkeypatch=monkeypatch) == 2
    assert re.search(f"samples.jsonl:4: .*{says}", capsys.readouterr().err)
    assert Store(paths.store_db(tmp_path)).sessions() == []


def test_import_twice_is_import_once(tmp_path, file, monkeypatch, capsys):
    assert imported(tmp_path, file, monkeypatch=monkeypatch) == 0
    assert imported(tmp_path, file, monkeypatch=monkeypatch) == 0
    printed = capsys.readouterr().out
    assert "1 session stored" in printed
    assert "0 sessions stored, 1 stored before" in printed
    assert len(Store(paths.store_db(tmp_path)).samples()) == 1


def test_a_file_that_cannot_be_written_is_not_half_there(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(sample_file.StoreError, match="cannot write"):
        sample_file.write_samples(tmp_path / "folder" / "no" / "x.jsonl", session(1), [])
    with pytest.raises(sample_file.StoreError, match="JSON compliant"):
        sample_file.write_samples(tmp_path / "x.jsonl", session(1), [{"a": float("nan")}])
    assert list(tmp_path.glob("*x.jsonl*")) == []
    assert list(tmp_path.glob(".*")) == []


# ---- ReFrame's record ----


def report(uuid="11112222", **more):
    """A report of one test."""
    info = {"time_start_unix": 1e9, "tier": "nightly", "phase": "before", "num_cases": 1}
    return results_made.report(entry(**more), uuid=uuid, hostname="login", **info)


def reframes_database(home, *reports):
    path = paths.results_db(home)
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE sessions(uuid TEXT PRIMARY KEY, json_blob TEXT)")
        for content in reports:
            row = (content["session_info"]["uuid"], json.dumps(content))
            database.execute("INSERT INTO sessions VALUES(?, ?)", row)
    database.close()
    return path


def test_reframes_sessions_are_taken_over(tmp_path):
    reframes_database(tmp_path, report(), report("3333", value=float("inf")))
    with sync.opened(tmp_path) as stored:
        assert [s.tags for s in stored.sessions()] == [{"tier": "nightly", "phase": "before"}] * 2
        values = stored.samples()["value"]
        assert values[0] == 1e-3
        assert values[1] != values[1]  # not finite: not measured
    with sync.opened(tmp_path) as stored:
        assert len(stored.sessions()) == 2


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


@pytest.mark.parametrize("blob", ["{x", "[]", '{"session_info": {}, "runs": []}', "[" * 100_000])
def test_reframes_session_that_is_damaged_is_named(tmp_path, blob, capsys):
    with sqlite3.connect(reframes_database(tmp_path)) as database:
        rows = [("bad", blob), ("later", json.dumps(report("later")))]
        database.executemany("INSERT INTO sessions VALUES(?, ?)", rows)
    database.close()
    with sync.opened(tmp_path) as stored:
        assert len(stored.sessions()) == 1
        assert "session bad: not a report of ReFrame" in capsys.readouterr().err
        added, fault = sync.synchronise(stored, tmp_path)
    assert (added, "session bad" in fault) == (0, True)


# ---- damage ----


def test_files_that_are_damaged_keep_no_other_from_the_store(tmp_path, capsys):
    for name in ("a", "b", "c"):
        (tmp_path / "results" / name).mkdir(parents=True)
    (tmp_path / "results" / "a" / sample_file.SPOOLED).write_bytes(b"\xff\xfe\n")
    (tmp_path / "results" / "b" / sample_file.SPOOLED).mkdir()
    spooled = tmp_path / "results" / "c" / sample_file.SPOOLED
    sample_file.write_samples(spooled, session(7), [case()])
    (trouble,) = kept(tmp_path, report(), tmp_path / "results" / "c")  # of a new store
    assert "a/samples.jsonl" in clause(trouble)
    sample_file.write_samples(spooled, session(7), [case()])
    with sync.opened(tmp_path) as stored:
        assert [s.uuid for s in stored.sessions()] == ["11112222", "00000007-made-up"]
    assert "a/samples.jsonl" in capsys.readouterr().err


def die_while_writing(path):
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA cache_size = 1")  # so that changes reach the file before the end
    database.execute("BEGIN IMMEDIATE")
    for number in range(3000):
        row = (f"half {number}", 1.0, "{}" * 100, "{}")
        database.execute("INSERT INTO sessions(uuid, start, tags, facts) VALUES(?, ?, ?, ?)", row)
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


def test_what_a_killed_writer_left_is_no_damage(tmp_path):
    path = tmp_path / "store.db"
    store(path, nights({"p2p": [1.0] * 50})).close()
    assert in_processes(die_while_writing, [path]) == [-9]
    assert (tmp_path / "store.db-journal").exists()
    assert sync.damage(path) == ""
    with Store(path) as stored:
        assert len(stored.sessions()) == 50


def test_a_store_that_another_writes_to_is_not_damaged(tmp_path, monkeypatch):
    monkeypatch.setattr(sync, "TIMEOUT", 0.1)
    path = tmp_path / "store.db"
    store(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    assert sync.damage(path) == ""
    other.close()


@pytest.mark.parametrize("name", ["50%20off", "a#b", "a?b"])
def test_homes_have_any_name(tmp_path, name):
    home = tmp_path / name
    home.mkdir()
    reframes_database(home, report())
    with sync.opened(home) as stored:
        assert len(stored.sessions()) == 1
    assert sync.damage(paths.store_db(home)) == ""
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_journal_of_a_damaged_store_goes_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr(sync, "damage", lambda path: "torn" if path.name == "store.db" else "")
    path = tmp_path / "store.db"
    path.write_bytes(b"garbage" * 100)
    (tmp_path / "store.db-journal").write_bytes(b"left over")
    (trouble,) = sync.set_damaged_aside(tmp_path)
    names = [trouble["now"], f"{trouble['now']}-journal"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_tags_that_are_damaged_in_the_store(tmp_path):
    stored = store(tmp_path / "store.db", nights({"p2p": [1.0]}))
    stored.connection.execute("UPDATE sessions SET tags = '{x'")
    with pytest.raises(sample_file.StoreError, match=r"store\.db: Expecting property name"):
        stored.sessions()


@pytest.mark.parametrize("kept", [0, 4096, 1 / 2])
def test_damaged_store_is_set_aside_and_made_again(tmp_path, monkeypatch, capsys, kept):
    """Of garbage, of a page and garbage, of half a store."""
    reframes_database(tmp_path, report())
    sync.opened(tmp_path).close()
    path = paths.store_db(tmp_path)
    whole = path.read_bytes()
    damaged = whole[: len(whole) // 2] if kept == 1 / 2 else whole[:kept] + b"garbage" * 600
    path.write_bytes(damaged)
    assert sync.store_defects(tmp_path)
    assert imported(tmp_path, monkeypatch=monkeypatch) == 3
    printed = capsys.readouterr().out
    assert "store.db was damaged" in printed
    assert "1 session stored; the store has 1" in printed
    assert sync.store_defects(tmp_path) == []
    (aside,) = tmp_path.glob("store.db.broken-*")
    assert aside.read_bytes() == damaged


@pytest.mark.parametrize("version", [1, 9])
def test_store_of_another_version_is_left_alone(tmp_path, version):
    stored = store(tmp_path / "store.db")
    stored.connection.execute(f"PRAGMA user_version = {version}")
    stored.close()
    says = f"version {version}, of another Bisection, and only 2 can be read: rename it; `bisec"
    with pytest.raises(sample_file.StoreError, match=says):
        Store(tmp_path / "store.db")


def fill_a_full_disk(path):
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
    try:
        big = [case(f"m{i}", {"time": 1.0}) for i in range(3000)]
        Store(path).add([(session(2), big)])
    except sample_file.StoreError:
        sys.exit(5)


def test_full_disk_stores_all_of_a_session_or_nothing(tmp_path):
    path = tmp_path / "store.db"
    store(path, nights({"p2p": [1.0]})).close()
    assert in_processes(fill_a_full_disk, [path]) == [5]
    assert sync.damage(path) == ""
    with Store(path) as stored:
        assert len(stored.sessions()) == 1
        assert len(stored.samples()) == 1


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
        assert len(stored.samples()) == 2000


# ---- what a run keeps ----


@pytest.mark.parametrize(
    ("tag", "taken"),
    [("phase=before", False), ("fw-version=2.1", False), ("timeslot=a", False), ("a=", False)]
    + [(f"{name}=x", True) for name in ("tier", "system", "num_nodes", "user", "time_start")],
)
def test_tags_that_a_session_would_lose_are_refused(tag, taken):
    assert (TAG.fullmatch(tag) is None) == taken


def kept(home, report, folder):
    """The troubles of keeping a run."""
    with Store(paths.store_db(home)) as store:
        return sync.keep(store, home, read(report), folder)


@pytest.mark.parametrize(
    ("uuid", "folder", "code", "stored"),
    [("11112222", "no folder", Code.NOT_KEPT, 1), ("", ".", Code.NOT_STORED, 0)],
)
def test_a_run_without_a_file_is_stored_but_none_without_an_identifier(
    tmp_path, uuid, folder, code, stored
):
    (trouble,) = kept(tmp_path, report(uuid=uuid), tmp_path / folder)
    assert trouble.code == code
    with Store(paths.store_db(tmp_path)) as store:
        assert len(store.sessions()) == stored


def test_a_damaged_database_that_cannot_be_moved_is_told(tmp_path, monkeypatch, capsys):
    paths.store_db(tmp_path).write_bytes(b"garbage" * 100)

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(sync.Path, "replace", refuse)
    (trouble,) = sync.set_damaged_aside(tmp_path)
    assert "store.db aside: Permission denied" in clause(trouble)
    assert imported(tmp_path, monkeypatch=monkeypatch) == 3
    assert "store.db aside: Permission denied" in capsys.readouterr().out
