"""ReFrame's process: its output as progress, its end."""

import io
import json
import os
import select
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from running import CHECKS

from bisection.core import paths
from bisection.core.reasons.base import clause
from bisection.core.verdicts import Exit
from bisection.judge import decision
from bisection.night.measure import measure
from bisection.runs import command
from bisection.runs.command import Progress, rerun
from bisection.runs.folder import new_folder
from bisection.runs.run_verdict import Request


def test_progress(tmp_path):
    progress = Progress(io.StringIO(), tmp_path, print)
    progress.read("[ RUN      ] TransposeLaunch %layout=mpi %case=cnt40 ~here:all+system /0a")
    progress.read("[       OK ] ( 2/43) Build ~here:all+system /0b [built]")
    progress.live = True
    progress.show()
    assert progress.stream.getvalue().endswith(" s  2/43  transpose mpi cnt40")


def test_reframe_and_its_jobs_have_no_keys_of_endpoints(tmp_path, monkeypatch):
    for name in ("BISECTION_NOTIFY_AUTH", "BISECTION_NOTIFY_AUTH_FILE", "OTHER"):
        monkeypatch.setenv(name, "a secret")
    with command.environment(tmp_path) as variables:
        assert [name for name, text in variables.items() if text == "a secret"] == ["OTHER"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_before_the_first_launch_is_a_trouble_and_no_empty_selection(tmp_path, number):
    """ReFrame loads tests: the default action of a signal ends it, and it prints nothing."""
    request = Request(command=["sh", "-c", f"kill -{number:d} $$"])
    before = signal.getsignal(signal.SIGTERM)
    verdict = measure(request, tmp_path)
    assert signal.getsignal(signal.SIGTERM) == before  # which ends what follows
    assert (decision.of_run(verdict), verdict.session) == (Exit.NOT_MEASURED, "")
    assert list(map(clause, verdict.troubles)) == [f"run session stopped: {number.name}"]


BUILD = "[ RUN      ] Build ~localhost:default+system /0123abcd"
LAUNCH = "[ RUN      ] TransposeLaunch %layout=mpi ~localhost:default+system /0123abcd"


@pytest.mark.parametrize(
    ("printed", "limit", "ends"),
    [
        ("", None, False),
        (BUILD, None, False),
        (LAUNCH, None, True),
        (LAUNCH, 60, True),
        ("", 60, True),
    ],
)
def test_an_interrupt_before_the_first_launch_leaves_no_results(home, printed, limit, ends):
    """A rerun or retest, which has a limit, is a part of a night that has results already."""
    results = new_folder()
    heard = f"until [ -s {results}/reframe.log ]; do sleep 0.1; done"
    script = f"echo '{printed}'; {heard}; kill -INT $PPID; exec sleep 600"
    request = Request(command=["bash", "-c", script])
    if ends:
        verdict = measure(request, results, limit)
        assert decision.of_run(verdict) == Exit.NOT_MEASURED
    else:
        with pytest.raises(KeyboardInterrupt):
            measure(request, results, limit)
    assert results.exists() == ends


def test_each_run_has_a_folder_of_its_own(home, monkeypatch):
    """Also where another one makes its folder between a look and the making of ours."""
    monkeypatch.setattr("pathlib.Path.exists", lambda path: False)
    folders = [new_folder() for _ in range(3)]
    assert len({*folders, *(home / "results").glob("2*")}) == 3
    assert (home / "results" / "latest").resolve() == folders[-1]


def test_a_rerun_names_a_site_file_elsewhere_by_its_path():
    request = Request("quick", "hpc:compute", arguments=["-n", "md"], site="/srv/our site/hpc.py")
    assert " run --tier quick --system '/srv/our site/hpc.py:compute' -n md" in rerun([], request)
    assert "--system hpc:compute" in rerun([], replace(request, site=""))
    assert "--system" not in rerun([], Request("quick"))


def test_a_reservation_reaches_site_files_and_the_next_run(tmp_path):
    request = Request(reservation="upgrade")
    with command.environment(tmp_path, request) as environ:
        assert environ[paths.RESERVATION] == "upgrade"
    assert "--reservation upgrade" in rerun([], request)


CHILD = 'trap "echo ended >pipe; exit" TERM; echo ready >pipe; sleep 600 & wait'
WATCH = """
import sys
from pathlib import Path
from bisection.core import paths
from bisection.runs.command import watch
from bisection.runs.run_verdict import Request
paths.ROOT = Path.cwd()
watch(Request(command=["sh", "-c", sys.argv[1]]), paths.ROOT, print)
"""


def test_it_ends_with_a_killed_run(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    pipe = os.open(tmp_path / "pipe", os.O_RDWR)

    def heard():
        return os.read(pipe, 100) if select.select([pipe], [], [], 300)[0] else b"nothing"

    watching = subprocess.Popen(
        [sys.executable, "-c", WATCH, CHILD],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(CHECKS)},
    )
    assert heard() == b"ready\n"
    watching.kill()
    watching.wait()
    assert heard() == b"ended\n"
    os.close(pipe)


@pytest.mark.parametrize(
    ("disturbed", "lines"), [([1, 1, 1, 1], 1), ([1, 1], 0), ([0, 1, 1, 1], 0)]
)
def test_disturbed_launches_are_told_once(tmp_path, disturbed, lines):
    reasons = []
    progress = Progress(io.StringIO(), tmp_path, reasons.append)
    damaged = tmp_path / "system" / "partition" / "environ" / "Damaged" / "result.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_text("[]")
    for number, flag in enumerate(disturbed):
        folder = tmp_path / "system" / "partition" / "environ" / f"Launch_{number}"
        folder.mkdir(parents=True)
        result = {"status": "complete", "results": [{"samples": {"disturbed": [flag] * 4}}]}
        (folder / "result.json").write_text(json.dumps(result))
        progress.read(f"[       OK ] ( {number + 1}/9) NparLaunch %layout=mpi")
    says = "other processes used the cores of the first 3 launches"
    assert [str(reason).partition(";")[0] for reason in reasons] == [says] * lines
