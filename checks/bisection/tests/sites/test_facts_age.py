"""A run warns where a site's facts are older than a boot of its nodes, or Slurm's configuration."""

import json
import os

import pytest

from bisection import schedulers
from bisection.core.format import utc
from bisection.night import prepare
from bisection.schedulers import slurm
from bisection.sites.cluster import facts

SLURM = [schedulers.of("slurm")]
WRITTEN = 1795334400.0  # 2026-11-22 08:00 UTC


@pytest.fixture
def site(tmp_path, commands):
    """site(boot, changed): a site file, whose Slurm says so; both in s after its facts."""

    def make(boot, changed, written="2026-11-22T08:00:00Z"):
        conf = tmp_path / "slurm.conf"
        conf.touch()
        os.utime(conf, (WRITTEN + changed, WRITTEN + changed))
        node = f"NodeName=n1 OS=Linux 6.1 Partitions=all BootTime={WRITTEN + boot:.0f} X=1"
        nodes = f"echo '{node}'; echo 'NodeName=n3 Partitions=standard BootTime=None X=1'"
        # It answers for no other nodes.
        cases = f"'node n1,n3') {nodes} ;; 'config ') echo 'SLURM_CONF      = {conf}' ;;"
        commands("scontrol", f'case "$2 $5" in {cases} esac')
        seen = {"queue": "standard", "boot": {"n1.lab.org": 1, "n3": 2}}
        known = {"version": 1, "partitions": {"standard": seen}}
        (tmp_path / "lab.json").write_text(json.dumps({**known, "written": written}))
        return tmp_path / "lab.py"

    return make


@pytest.mark.parametrize(
    ("boot", "changed", "event", "since"),
    [
        (-60, -60, None, None),
        (60, -60, "boot", WRITTEN + 60),
        (-60, 120, "configuration", WRITTEN + 120),
    ],
)
def test_facts_that_are_older_than_an_event(site, boot, changed, event, since):
    reason = facts.outdated(site(boot, changed), SLURM)
    assert (reason is None) == (event is None)
    assert event is None or f"older than the last {event} ({utc(since)})" in reason


def test_without_slurm_or_facts_nothing_is_asked(site, monkeypatch):
    file = site(60, 60, written="yesterday")
    monkeypatch.setattr(slurm, "ask", lambda *command: pytest.fail("asked"))
    assert facts.outdated(file, [schedulers.of("local")]) is None
    assert facts.outdated(file.with_name("other.py"), SLURM) is None
    assert facts.outdated(file, SLURM) is None  # a broken file is left to the site file


def test_a_run_asks_for_a_check(site, monkeypatch, capsys):
    monkeypatch.setattr(prepare, "wait", lambda *_: None)
    partitions = [{"scheduler": "slurm", "access": []}]
    prepare.look_at_machine(site(boot=60, changed=-60), partitions, SLURM, None)
    printed = " ".join(capsys.readouterr().out.split())
    assert "warning: lab.json is older than the last boot" in printed
    assert "`bisection site check lab`" in printed
