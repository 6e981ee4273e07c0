"""Locks, damaged in every way."""

import dataclasses
import json

import pytest
from running import SITES

from bisection.kernels.spack import externals
from bisection.kernels.spack.install import lock_facts
from bisection.sites import lock_rules
from bisection.sites.site_files import Site


@pytest.fixture
def locked(home):
    """(a site that builds by Spack, the folder of its lock), where one has been made."""
    file = externals.environment_file("debian12")
    folder = home / "spack" / "environments" / "debian12"
    folder.mkdir(parents=True)
    text = externals.render(file, externals.survey_externals(file).installed)
    (folder / "spack.yaml").write_text(text)
    spec = {"name": "k", "version": "1", "arch": {"target": "x86_64"}, "dependencies": []}
    of = {"version": "1.1.0"}
    content = {"roots": [{"hash": "h"}], "spack": of, "concrete_specs": {"h": spec}}
    (folder / "spack.lock").write_text(json.dumps(content))
    facts = lock_facts(folder / "spack.lock")
    (folder / "state.json").write_text(json.dumps({"installation": facts}))
    environs = {"spack": {"features": ["spack"], "extras": {"spack_env": "auto"}}}
    return Site("localhost", SITES / "localhost.py", environs=environs), folder


# How a lock is damaged -> the words of the defect.
DAMAGES = [
    (lambda lock: None, None),
    (lambda lock: lock.write_text(lock.read_text() + "\n"), "changed since the kernels were built"),
    *(
        (lambda lock, text=text: lock.write_text(text), "is no lock of Spack")
        for text in ("", "[]", '{"roots": []}')
    ),
    (lambda lock: lock.unlink(), "nothing built yet"),
]


@pytest.mark.parametrize(("damage", "says"), DAMAGES)
def test_damaged_lock(locked, damage, says):
    site, folder = locked
    damage(folder / "spack.lock")
    findings = list(lock_rules.lock_findings(site))
    assert len(findings) == (says is not None)
    for finding in findings:
        assert (says in finding.text, finding.is_note) == (True, says == "nothing built yet")


def test_lock_of_an_older_file(locked):
    site, folder = locked
    text = (folder / "spack.yaml").read_text()
    line = text[: text.index("fftw@")].count("\n") + 1
    (folder / "spack.yaml").write_text(text.replace("fftw@", "fftw@1.", 1))
    (finding,) = lock_rules.lock_findings(site)
    assert (finding.path, finding.line) == ("spack-env/debian12/spack.yaml", line)
    assert "was made from" in finding.text


def test_nothing_where_spack_was_never_used(locked, monkeypatch, tmp_path):
    monkeypatch.setenv("BISECTION_HOME", str(tmp_path / "other"))
    assert list(lock_rules.lock_findings(locked[0])) == []


def test_unknown_environment(locked):
    environs = {"spack": {"features": ["spack"], "extras": {"spack_env": "debian"}}}
    (finding,) = lock_rules.lock_findings(dataclasses.replace(locked[0], environs=environs))
    assert finding.text.endswith("spack_env is debian: allowed are debian12, generic, auto")
