"""`bisection sessions`: listed, tagged, excluded, forgotten; and what then leaves them out."""

import json
import os

import pytest
from made_up import case, nights, session
from running import CHECKS

from bisection.advice import sources
from bisection.core import paths
from bisection.core.verdicts import BisectionError
from bisection.runs import command as commands
from bisection.store import database, sync
from bisection.store.database import Store
from bisection.store.marks import marks_file
from bisection.store.nights import Nights
from bisection.store.sample_file import SPOOLED, write_samples

TCP = "OMPI_MCA_btl=tcp,self"
FACTS = {"MPI": "Open MPI 4.1.4", "MPI environment": "none"}


@pytest.fixture
def home(home):
    """Twelve nights of June: 1 to 9 as usual, 10 through TCP, 11 half disturbed, 12 failed."""
    usual = nights({"p2p": [1e-3] * 9, "shm": [2e-3] * 9}, 1, facts=FACTS)
    tags = {**session(0)["tags"], "phase": "after"}
    tcp = session(10, facts={**FACTS, "MPI environment": TCP}, tags=tags)
    for line, cases in [
        *usual,
        (tcp, [case(metrics={"time": 8e-3})]),
        (session(11, facts={}), [case(metrics={"time": 1e-3}, disturbed=0.5)]),
        (session(12, facts=FACTS), [case(metrics={"time": 1e-3}, verdict="FAIL")]),
    ]:
        folder = home / "results" / f"night-{line['session'][:8]}"
        folder.mkdir(parents=True)
        write_samples(folder / SPOOLED, line, cases)
    return home


@pytest.fixture
def bisection(home, command_line):
    """bisection(*arguments): (exit code, output, errors) on these nights."""
    return command_line


def test_list_names_what_is_unusual_newest_last(bisection):
    code, text, _ = bisection("sessions")
    assert code == 0
    assert text.splitlines()[0] == "12 sessions: system lab, tier nightly, environ system"
    assert text.splitlines()[1].split()[:2] == ["session", "started"]
    assert text.splitlines()[-6:] == [
        "00000009  2026-06-10 00:00  PASS     2/2            0%",
        "0000000a  2026-06-11 00:00  PASS     1/1            0%  phase=after",
        f"    changed: MPI environment: none -> {TCP}",
        "0000000b  2026-06-12 00:00  PASS     1/1           50%",
        "0000000c  2026-06-13 00:00  FAIL     0/1            0%",
        f"    changed: MPI environment: {TCP} -> none",
    ]
    assert max(map(len, text.splitlines())) <= 80


def test_list_shows_what_differs_between_sessions_and_selects(bisection, home):
    with sync.opened(home) as database:
        tags = {"tier": "quick", "system": "other:cpu", "environ": "spack", "note": "n" * 70}
        database.add([(session(13, tags=tags), [])])
    _, text, _ = bisection("sessions", "list", "latest", "0000000c")
    head, *lines = text.splitlines()
    assert head.split()[:5] == ["session", "started", "(UTC)", "system", "tier"]
    assert lines[-2].split()[3:5] == ["other:cpu", "quick"]
    assert lines[-1] == f"    note={'n' * 70}"
    assert len(lines) == 3
    assert bisection("sessions", "list", "nonsense")[0] == 2


def test_list_as_json(bisection):
    bisection("sessions", "exclude", "phase=after", "-m", "TCP")
    code, text, _ = bisection("sessions", "list", "--json")
    (tcp,) = [s for s in json.loads(text)["sessions"] if s["tags"].get("phase")]
    assert code == 0
    assert (tcp["session"], tcp["excluded"], tcp["verdict"]) == ("0000000a-made-up", "TCP", "pass")
    assert tcp["changed"] == {"MPI environment": ["none", TCP]}
    assert tcp["jobs"] == {"pass": 1}


def test_list_of_an_empty_store(bisection, home):
    for file in home.glob("results/*/*"):
        file.unlink()
    assert bisection("sessions")[:2] == (0, "no session is stored; `bisection run` stores one\n")


NOTE = "note: excluded sessions left out: 0000000a\n"


def test_excluded_sessions_are_named_by_their_identifier_only(bisection, home):
    code, text, _ = bisection("sessions", "exclude", "0000000a", "--reason", "TCP  on purpose")
    assert code == 0
    assert text == "0000000a of 2026-06-11 00:00 UTC: excluded: TCP on purpose\n"
    assert "    excluded: TCP on purpose\n" in bisection("sessions")[1]
    code, _, errors = bisection("compare", "phase=after", "latest")
    assert code == 2
    assert "'phase=after' names no session: 1 session excluded (0000000a)" in errors
    words = {"2026-06-02..2026-06-11": True, "earlier:2": True, "earlier:1": False}
    for before, noted in {**words, "0000000a": False}.items():
        assert (NOTE in bisection("compare", before, "latest")[1]) == noted
    history = bisection("history")[1]
    assert NOTE in history
    assert "11 sessions" in history
    assert bisection("report", "-o", str(home / "out"))[0] in (0, 1, 3)
    assert NOTE[6:-1] in (home / "out" / "report.html").read_text()
    bisection("sessions", "include", "0000000a")
    assert NOTE not in bisection("history")[1]
    assert bisection("compare", "phase=after", "latest")[0] != 2
    bisection("sessions", "exclude", "0000000a", "latest", "-m", "maintenance")
    text = bisection("compare", "earlier:3", "latest")[1]
    assert "before: 3 sessions, 00000007 of" in text
    assert "after:  0000000b of" in text
    assert "excluded sessions left out: 0000000a, 0000000c" in text


def test_advice_leaves_excluded_sessions_out(bisection, home, monkeypatch):
    for folder in home.glob("results/*"):
        (folder / "npar.json").write_text("{}")
    read = []
    monkeypatch.setattr(sources.results, "load", lambda path, _: read.append(path) or {})
    assert bisection("advise", "npar")[0] == 3
    assert len(read) == 12
    bisection("sessions", "exclude", "0000000a", "-m", "x")
    bisection("sessions", "forget", "0000000b")
    read.clear()
    _, _, errors = bisection("advise", "npar")
    assert len(read) == 10
    assert "excluded sessions left out: night-0000000a, night-0000000b\n" in errors
    read.clear()
    bisection("advise", "npar", "--from", str(home / "results"))
    assert len(read) == 12


def test_tags_are_added_changed_and_removed(bisection, home):
    bisection("sessions", "tag", "fan=broken", "latest~1", "latest")
    assert bisection("sessions", "list", "fan=broken")[1].startswith("2 sessions")
    bisection("sessions", "tag", "phase=", "0000000a")
    assert bisection("sessions", "list", "phase=after")[0] == 2
    code, _, errors = bisection("sessions", "tag", "tier=quick", "latest")
    assert (code, "the name tier is reserved" in errors) == (2, True)
    with Store(paths.store_db(home)) as database:
        assert database.sessions()[-1].tags["tier"] == "nightly"


def test_forgotten_sessions_do_not_come_back(bisection, home):
    code, text, _ = bisection("sessions", "forget", "0000000a", "latest")
    assert code == 0
    folder = home / "results" / "night-0000000a"
    assert f"0000000a of 2026-06-11 00:00 UTC: forgotten; its results stay in {folder}" in text
    with Store(paths.store_db(home)) as database:
        assert len(database.sessions()) == 10
        assert len(Nights(database, database.sessions()).jobs) == 19
    assert bisection("import")[:2] == (0, "the store has 10 sessions\n")
    _, text, _ = bisection("import", str(folder))
    assert text == f"{folder}: 0 sessions stored, 1 forgotten (0000000a-made-up)\n"
    code, _, errors = bisection("compare", str(folder), "latest")
    assert code == 2
    assert "session 0000000a is forgotten; `bisection sessions restore 0000000a`" in errors
    assert "forgotten: 0000000a, 0000000c (" in bisection("sessions")[1]
    paths.store_db(home).unlink()  # made again, without them
    assert bisection("sessions")[1].startswith("10 sessions")


def test_forgotten_sessions_are_restored_from_their_results(bisection, home):
    bisection("sessions", "exclude", "0000000a", "-m", "x")
    bisection("sessions", "forget", "0000000a", "0000000b")
    (home / "results" / "night-0000000b" / SPOOLED).unlink()
    code, _, errors = bisection("sessions", "restore", "0000")
    assert (code, "'0000' names no forgotten session alone" in errors) == (2, True)
    code, text, _ = bisection("sessions", "restore", "0000000a", "0000000b")
    assert code == 0
    assert text.splitlines()[0] == "0000000a: stored again"
    assert text.splitlines()[1].startswith("0000000b: nothing is left of it")
    assert "excluded: x" in bisection("sessions")[1]


@pytest.mark.parametrize("content", ["{", "[]", '{"version": 1}', '{"version": 9, "sessions": {}}'])
def test_damaged_marks_are_one_line_and_stay(bisection, home, content):
    bisection("sessions")
    marks_file(paths.store_db(home)).write_text(content)
    for arguments in (["sessions"], ["sessions", "forget", "latest"], ["history"]):
        code, _, errors = bisection(*arguments)
        assert code == 2
        assert errors.count("\n") == 1
        assert "sessions.json" in errors
    assert marks_file(paths.store_db(home)).read_text() == content
    assert "sessions.json" in bisection("doctor", "--system", "localhost")[1]


def test_a_session_is_removed_only_if_that_is_noted(bisection, home, monkeypatch):
    def full(*_):
        raise BisectionError("no space left")

    monkeypatch.setattr(database, "write_marks", full)
    code, _, errors = bisection("sessions", "forget", "latest")
    assert (code, "no space left" in errors) == (2, True)
    assert "0000000c" in bisection("sessions")[1]


# ---- commands that can be pasted ----


def test_rerun_command_and_paths_work_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "home", lambda: paths.ROOT / ".bisection")
    monkeypatch.chdir(paths.ROOT)
    assert not os.path.isabs(paths.shown(CHECKS))
    here = commands.invocation()[0]
    monkeypatch.chdir(tmp_path)
    there = commands.invocation()[0]
    assert os.path.isabs(there)
    assert paths.ROOT / here == (paths.ROOT / there)
    assert commands.pasted(["reframe", "-r"]) == f"(cd {paths.ROOT} && reframe -r)"
    assert paths.shown(CHECKS) == str(CHECKS)
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert paths.shown(CHECKS) == str(CHECKS)
    monkeypatch.undo()
    monkeypatch.setenv("BISECTION_HOME", str(tmp_path))
    assert commands.invocation()[:2] == ["env", f"BISECTION_HOME={tmp_path}"]


# ---- the command line itself ----
