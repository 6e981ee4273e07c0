"""Locks, ReFrame's database and the store, damaged in every way."""

import dataclasses
import json
import sqlite3

import pytest
from houses import told
from running import SITES

from bisection.core import paths
from bisection.kernels.spack import externals, lock
from bisection.report.words import defect_line
from bisection.sites import stored
from bisection.sites.site import Site
from bisection.store import sync


@pytest.fixture
def locked(tmp_path, monkeypatch):
    """(a site that builds by Spack, the folder of its lock), where one has been made."""
    monkeypatch.setenv("BISECTION_HOME", str(tmp_path))
    file = externals.environment_file("debian12")
    folder = tmp_path / "spack" / "environments" / "debian12"
    folder.mkdir(parents=True)
    text = lock.render(file, externals.survey_externals(file).installed)
    (folder / "spack.yaml").write_text(text)
    spec = {"name": "k", "version": "1", "arch": {"target": "x86_64"}, "dependencies": []}
    of = {"version": "1.1.0"}
    content = {"roots": [{"hash": "h"}], "spack": of, "concrete_specs": {"h": spec}}
    (folder / "spack.lock").write_text(json.dumps(content))
    facts = lock.lock_facts(folder / "spack.lock")
    lock.State(installation={"lock_hash": facts["lock_hash"]}).save(folder / "state.json")
    environs = {"spack": {"features": ["spack"], "extras": {"spack_env": "auto"}}}
    return Site("localhost", SITES / "localhost.py", environs=environs), folder


class TestLocks:
    def test_good_one(self, locked):
        assert stored.lock_findings(locked[0]) == []

    def test_made_from_an_older_file(self, locked):
        site, folder = locked
        text = (folder / "spack.yaml").read_text()
        line = text[: text.index("fftw@")].count("\n") + 1
        (folder / "spack.yaml").write_text(text.replace("fftw@", "fftw@1.", 1))
        (finding,) = stored.lock_findings(site)
        assert defect_line(finding).startswith(f"spack-env/debian12/spack.yaml:{line}: ")
        assert "spack.lock was made from" in defect_line(finding)

    def test_changed_by_hand(self, locked):
        site, folder = locked
        with (folder / "spack.lock").open("a") as file:
            file.write("\n")
        (finding,) = stored.lock_findings(site)
        assert "was changed since the kernels were built from it" in defect_line(finding)

    @pytest.mark.parametrize("text", ["", "[]", "{", '{"roots": []}'])
    def test_no_lock_at_all(self, locked, text):
        site, folder = locked
        (folder / "spack.lock").write_text(text)
        (finding,) = stored.lock_findings(site)
        assert "is no lock of Spack" in defect_line(finding)

    def test_missing_is_a_note(self, locked):
        site, folder = locked
        (folder / "spack.lock").unlink()
        (note,) = stored.lock_findings(site)
        assert note.is_note
        assert "note: environment spack: nothing is built yet for spack_env auto" in told([note])

    def test_nothing_where_spack_was_never_used(self, locked, monkeypatch, tmp_path):
        monkeypatch.setenv("BISECTION_HOME", str(tmp_path / "other"))
        assert stored.lock_findings(locked[0]) == []

    def test_unknown_environment(self, locked):
        environs = {"spack": {"features": ["spack"], "extras": {"spack_env": "debian"}}}
        (finding,) = stored.lock_findings(dataclasses.replace(locked[0], environs=environs))
        assert "spack_env is debian: allowed are debian12, generic, auto" in defect_line(finding)


class TestStore:
    @pytest.mark.parametrize("content", [b"garbage" * 100, b"SQLite format 3\0" + b"x" * 5000])
    def test_damaged_results_are_a_defect(self, tmp_path, content):
        path = paths.results_db(tmp_path)
        path.parent.mkdir()
        path.write_bytes(content)
        (defect,) = sync.store_defects(tmp_path)
        assert defect_line(defect).startswith(f"{path}:1: is damaged: ")

    def test_damaged_store_is_a_defect(self, tmp_path):
        paths.store_db(tmp_path).write_bytes(b"this is no database" * 400)
        (defect,) = sync.store_defects(tmp_path)
        assert (defect.path, defect.line) == (str(paths.store_db(tmp_path)), 1)
        assert "`bisection import` rebuilds it" in defect_line(defect)

    def test_store_of_a_newer_version_is_a_defect(self, tmp_path):
        with sqlite3.connect(paths.store_db(tmp_path)) as base:
            base.execute("PRAGMA user_version = 99")
        (defect,) = sync.store_defects(tmp_path)
        assert "version 99" in defect_line(defect)

    def test_no_store_is_no_defect(self, tmp_path):
        assert sync.store_defects(tmp_path) == []
