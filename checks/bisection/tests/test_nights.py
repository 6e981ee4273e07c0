"""Stored nights for other programs: rows and arrays in Python, CSV, JSON lines and Parquet."""

import csv
import datetime
import doctest
import io
import math
import sys
import tracemalloc

import numpy as np
import pytest
from made_up import case, nights, session, sessions, store
from running import CHECKS
from validated import valid

from bisection import nights as public
from bisection.core.verdicts import BisectionError
from bisection.report import night_files
from bisection.report.night_files import NAMES, csv_text, json_text
from bisection.store.sample_file import SPOOLED, add_verdict, write_samples
from bisection.store.selection import SelectionError


@pytest.fixture
def home(home):
    """Two nights: of the second, a job is disturbed, one counts none, and limits are known."""
    tags = {**session(0)["tags"], "note": 'a "b"; c, d\nü'}
    first = session(0, tags=tags), [case(metrics={"time": 1e-3}, hosts=["n2", "n1"])]
    second = (
        session(1),
        [
            case(metrics={"time": 1e-3}),
            case(metrics={"time": 3e-3}, hosts=["n3"]),
            case(metrics={"time": 4e-3}, disturbed=0.5),
            case("shm", {"time": 2e-3}, disturbed=0.5),
            case("new", {"moved": [0, "count", "lower"], "share": [None, "share", "lower"]}),
        ],
    )
    limits = {"name": "time", "asserted": True, "low": 1e-4, "high": None}
    others = {"name": "moved", "asserted": False, "low": None, "high": None}
    for line, cases in (first, second):
        folder = home / "results" / line["session"]
        folder.mkdir(parents=True)
        write_samples(folder / SPOOLED, line, cases)
    test = {name: second[1][0][name] for name in ("environ", "check", "case", "layout", "method")}
    judged = {**test, "partition": "lab:cpu", "metrics": [limits, others]}
    add_verdict(folder / SPOOLED, {"cases": [judged]})
    (home / "results" / "stopped").mkdir()
    return home


def numbers(rows):
    return {(r["session"][:8], r["method"], r["metric"]): r["value"] for r in rows}


VALUES = {
    ("00000000", "p2p", "time"): 1e-3,
    ("00000001", "p2p", "time"): 2e-3,  # of two jobs that nothing disturbed
    ("00000001", "shm", "time"): None,
    ("00000001", "new", "moved"): 0.0,
    ("00000001", "new", "share"): None,
}


def test_rows_have_what_each_session_measured(home, command_line):
    rows = [*public.rows()]
    assert numbers(map(vars, rows)) == VALUES
    of_p2p = [row for row in rows if row.method == "p2p"]
    assert [(row.lower, row.upper) for row in of_p2p] == [(None, None), (1e-4, None)]
    assert [row.hosts for row in of_p2p] == [["n1", "n2"], ["n1", "n3"]]
    assert [row.date for row in of_p2p] == ["2026-06-01T00:00:00Z", "2026-06-02T00:00:00Z"]
    assert of_p2p[1].disturbed == pytest.approx(0.5 / 3)
    assert [*public.rows("latest", "shm$")] == [row for row in rows if row.method == "shm"]
    code, _, _ = command_line("sessions", "exclude", "latest", "-m", "x")
    assert (code, len([*public.rows()]), len([*public.rows("00000001")])) == (0, 1, 4)


def test_json_has_an_object_per_line(home, command_line):
    code, text, _ = command_line("export", "--json")
    rows = [valid(line, "night") for line in text.splitlines()]
    assert (code, numbers(rows)) == (0, VALUES)
    assert rows == [vars(row) for row in public.rows()]


def test_csv_opens_in_a_spreadsheet(home, command_line, tmp_path):
    """By RFC 4180: a head, lines that end with CR LF, quotes where they are needed."""
    file = tmp_path / "nights.csv"
    assert command_line("export", "--csv", "-o", str(file)) == (0, "", "")
    content = file.read_bytes()
    assert content.startswith(",".join(NAMES).encode() + b"\r\n")
    assert content.count(b"\r\n") == content.count(b"\n") - 1 == 6  # one is in a tag
    rows = [*csv.DictReader(io.StringIO(content.decode(), newline=""), strict=True)]
    assert {tuple(row) for row in rows} == {tuple(NAMES)}
    read = [{**row, "value": float(row["value"]) if row["value"] else None} for row in rows]
    assert numbers(read) == VALUES
    assert rows[0]["tags"].endswith('; note=a "b"; c, d\nü; system=lab; tier=nightly')
    assert (rows[0]["hosts"], rows[0]["lower"]) == ("n1 n2", "")
    assert command_line("export", "--csv")[1] == content.decode()


def test_parquet_has_the_same(home, command_line, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "nights.parquet"
    assert command_line("export", "--parquet", "-o", str(file)) == (0, "", "")
    rows = parquet.read_table(file).to_pylist()
    assert numbers(rows) == VALUES
    for row, known in zip(rows, public.rows(), strict=True):
        date = datetime.datetime.fromisoformat(known.date.replace("Z", "+00:00"))
        assert {**row, "tags": dict(row["tags"])} == {**vars(known), "date": date}


def test_what_cannot_be_exported_is_one_line(home, command_line, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    file = tmp_path / "kept"
    file.write_text("old")
    for words, says in (
        (["--csv", "never"], "'never' names no session: 2 sessions stored"),
        (["--csv", "-n", "("], "'(' is no regular expression"),
        (["--csv", "--json"], "not allowed with argument"),
        ([], "one of the arguments --csv --json --parquet is required"),
        (["--csv", "-o", str(tmp_path / "no" / "x")], f"{tmp_path}/no/x: No such file"),
        (["--parquet"], "--parquet is no text: name its file by -o FILE"),
        (
            ["--parquet", "-o", str(file)],
            "needs the Python package pyarrow, which is not installed",
        ),
        (["--json", "never", "-o", str(file)], "'never' names no session"),
    ):
        code, text, errors = command_line("export", *words)
        assert (code, text, errors.count("\n")) == (2, "", 1)
        assert says in errors
    assert file.read_text() == "old"
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_arrays_are_metrics_by_sessions(home):
    table = public.load()
    values = {
        (table.sessions[at].uuid[:8], metric.method, metric.metric): table.values[row, at]
        for row, metric in enumerate(table.metrics)
        for at in range(2)
    }
    known = {key: value for key, value in values.items() if not math.isnan(value)}
    assert known == {key: value for key, value in VALUES.items() if value is not None}
    assert table.values.shape == (4, 2)
    assert np.diff(table.times).tolist() == [86400]
    assert public.load(name="nothing").values.shape == (0, 2)
    with pytest.raises(SelectionError, match="'never' names no session"):
        public.load("never")


def test_a_frame_has_a_row_per_session(home):
    pandas = pytest.importorskip("pandas")
    table = public.load()
    frame = table.frame()
    assert [*frame.index.strftime("%Y-%m-%d")] == ["2026-06-01", "2026-06-02"]
    assert frame.xs("p2p", axis=1, level="method").iloc[:, 0].tolist() == [1e-3, 2e-3]
    assert frame.columns.names == [*table.columns]
    assert len(pandas.DataFrame(public.rows())) == len(VALUES)


def test_a_home_is_named_or_the_usual_one(home, tmp_path, monkeypatch):
    monkeypatch.setenv("BISECTION_HOME", str(tmp_path / "empty"))
    assert len(public.load(home=home).sessions) == len({r.session for r in public.rows(home=home)})
    with pytest.raises(BisectionError, match="no session is stored"):
        public.load()


def test_examples_of_the_documentation(home, monkeypatch):
    times = {"p2p": [1e-3] * 30, "shm": [2e-3] * 24 + [4e-3] + [2e-3] * 5}
    empty = home / "another"
    store(empty / "store.db", nights(times)).close()
    monkeypatch.setenv("BISECTION_HOME", str(empty))
    file = CHECKS / "docs" / "numbers.md"
    failed, tried = doctest.testfile(str(file), module_relative=False)
    assert (failed, tried) == (0, 7)


@pytest.mark.parametrize("form", [csv_text, json_text])
def test_memory_does_not_grow_with_sessions(tmp_path, monkeypatch, form):
    monkeypatch.setattr(public, "AT_ONCE", 4)
    monkeypatch.setattr(night_files, "TOGETHER", 200)
    cases = [case(f"m{i}", {f"t{j}": 1.0 for j in range(20)}) for i in range(5)]

    def peak(count):
        store(tmp_path / str(count) / "store.db", sessions(0, [cases] * count)).close()
        tracemalloc.start()
        parts = form(public.rows(home=tmp_path / str(count)))
        longest = max(map(len, parts))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert longest < 200 * 600
        return most

    peak(1)
    assert peak(48) < 1.5 * peak(12)
