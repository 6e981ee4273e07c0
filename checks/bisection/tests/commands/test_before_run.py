"""What `bisection run` refuses before anything is built or measured."""

import contextlib
import os
import pwd
import sys
from types import SimpleNamespace

import pytest

from bisection import cli, schedulers
from bisection.core.verdicts import BisectionError
from bisection.runs import command, waiting
from bisection.sites.before_run import enter_cluster

REFERENCES = "tiny:\n  $index: [$partition]\n  localhost:default: {time: [1.0, -0.5, 0.5}\n"


class Started(Exception):
    """ReFrame would have been started."""


@pytest.fixture
def house(house, monkeypatch):
    """A small house; ReFrame's command line is kept in place of being run."""

    def watch(request, *_):
        raise Started(request.command)

    monkeypatch.setenv("SLURM_CLUSTERS", "")  # which a site file may set
    monkeypatch.setattr(command, "watch", watch)
    monkeypatch.setattr(waiting, "until_quiet", lambda *_: None)
    return house


def change(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--system", "genric"], "system genric: unknown; site-configs/ has localhost"),
        (["--system", "localhost:gpu"], "--system localhost:gpu: unknown partition; localhost has"),
        (["-p", "gnu"], "-p gnu: no such environment; localhost has system, spack"),
        (["-p", "("], "-p (: no regular expression: "),
        (["-n", "tinny"], "-n tinny: no such test; there are checks tiny"),
        (["--tier", "quick", "-n", "tiny", "-n", "tinny"], "-n tinny: no such test; there are"),
        (["-n", "("], "-n (: no regular expression: "),
        (["-n", "tiny"], "-n tiny: nothing in tier nightly; in quick"),
        (["--max-retries=1"], "--max-retries=1 is rejected: a check that fails once has failed"),
        (["--skip-performance-check"], "is rejected: a slow method would pass"),
        (["--skip-sanity-check"], "is rejected: a wrong answer would pass"),
        (["--tier", "quick", "-l"], "-l is rejected: it measures nothing"),
        (["--list"], "--list is rejected: it measures nothing"),
        (["-S", "transpose.asserted=time"], "is rejected: it changes what is judged"),
        (["--tier", "quick", "--against", "network=older"], "'network=older': no session is"),
    ],
)  # fmt: skip
def test_names_that_there_are_not_and_what_hides_failures_are_usage(house, capsys, arguments, says):
    assert cli.main(["run", *arguments]) == 2
    assert says in capsys.readouterr().err
    assert not (house / "home" / "results").exists()


SITE, YAML = "site-configs/localhost.py", "reference/systems/localhost.yaml"


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        (SITE, "systems=[", "systems=[)", f"{SITE}:"),
        (
            *(SITE, '"nodes": 1', '"nodes": 0'),
            "localhost:default: extras.nodes is 0: a whole number above 0 is allowed",
        ),
        (YAML, None, REFERENCES, f"{YAML}:3: is not YAML: "),
        ("checks/tiny.py", "return True", "return (", "checks/tiny.py:13: does not load: "),
    ],
)
def test_files_that_cannot_be_used_are_usage(house, capsys, file, old, new, says):
    if old:
        change(house / file, old, new)
    else:
        (house / file).write_text(new)
    assert cli.main(["run", "--tier", "quick"]) == 2
    text = capsys.readouterr().err
    assert says in text
    assert text.count("\n") == 1
    assert not (house / "home" / "results").exists()


SLURM = '"scheduler": "squeue", "access": ["--account=a", "--partition={}"]'


SHOWN = "PartitionName=batch Nodes=n1\\nPartitionName=debug.q Nodes=n1\\n"
QUEUES = f'[ "$*" = "show partition --all -o" ] && printf "{SHOWN}"'
OF_BIG = QUEUES.replace(SHOWN, "PartitionName=far\\n") + ' && test "$SLURM_CLUSTERS" = big'


@pytest.mark.parametrize(
    ("queue", "unknown", "scontrol"),
    [
        ("batch", None, QUEUES),
        ("batch,debug.q", None, QUEUES),
        ("bacth", "bacth", QUEUES),
        ("batch,debug", "debug", QUEUES),
        ('far", "-M big', None, OF_BIG),  # a queue of another cluster
        ('batch", "--clusters=big', "batch", OF_BIG),
        ("bacth", None, "exit 1"),  # names no queues
    ],
)
def test_a_queue_that_slurm_does_not_know_is_refused(
    house, capsys, commands, queue, unknown, scontrol
):
    """Each of its launches would be refused, one after the other."""
    change(house / SITE, '"scheduler": "local"', SLURM.format(queue))
    commands("sinfo", "echo batch")
    commands("scontrol", scontrol)
    arguments = ["run", "--tier", "quick", "-n", "tiny"]
    if unknown is None:
        with pytest.raises(Started):
            cli.main(arguments)
        return
    assert cli.main(arguments) == 2
    text = capsys.readouterr().err
    known = "far" if scontrol == OF_BIG else "batch, debug.q"
    assert f": queue {unknown} does not exist; there are {known}\n" in text
    assert text.startswith(f"bisection run: error: {SITE}:")
    assert not (house / "home" / "results").exists()


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ("--clusters=annex", ""),
        ("", "default uses annex; second uses the usual one; one can be measured at a time"),
        ("-M big", "default uses annex; second uses big; one can be measured at a time"),
        ("-M annex,big", "default uses annex; second uses annex,big; one can be"),
    ],
)
def test_one_cluster_is_asked_and_cancelled_on(monkeypatch, commands, tmp_path, second, says):
    monkeypatch.setenv("SLURM_CLUSTERS", "")
    rows = {"default": "-M annex", "second": second}
    parts = [{"name": n, "scheduler": "slurm", "access": [o]} for n, o in rows.items()]
    if says:
        with pytest.raises(BisectionError, match=f"of several clusters: {says}"):
            enter_cluster(parts)
        return
    enter_cluster(parts)
    commands("scancel", f'echo "$SLURM_CLUSTERS $*" >{tmp_path}/cancelled')
    slurm = schedulers.of("slurm")
    slurm.cancel(["7", "8"])
    assert (tmp_path / "cancelled").read_text() == "annex -M annex 7 8\n"
    assert slurm.cancels == "scancel -M annex"


@pytest.mark.parametrize(
    ("asked", "in_file", "says"),
    [
        (["--reservation", "upgrade"], "", "jobs of partition default would not use it"),
        (["--reservation", "upgrade"], ', "--reservation=old"', "would not use it; it needs"),
        ([], ', "--reservation=upgrade"', None),
        ([], ', "--reservation=old"', "reservation old does not exist; there are upgrade"),
        ([], ', "--reservation=theirs"', "reservation theirs has Users=nobody, not "),
    ],
)
def test_a_reservation_that_jobs_cannot_use_is_refused(
    house, capsys, commands, asked, in_file, says
):
    change(house / SITE, '"scheduler": "local"', SLURM.format('batch"' + in_file + ', "--mem=0'))
    user = pwd.getpwuid(os.geteuid()).pw_name
    lines = f"ReservationName=upgrade Nodes=n1 Users={user} State=ACTIVE\\n"
    if "theirs" in in_file:
        lines += "ReservationName=theirs Nodes=n1 Users=nobody State=ACTIVE\\n"
    commands("sinfo", "echo batch")
    commands("scontrol", f'{QUEUES}\n[ "$2" = reservation ] && printf "{lines}"\nexit 0')
    arguments = ["run", "--tier", "quick", "-n", "tiny", *asked]
    if says is None:
        with pytest.raises(Started):
            cli.main(arguments)
        return
    assert cli.main(arguments) == 2
    assert says in capsys.readouterr().err
    assert not (house / "home" / "results").exists()


def test_a_controller_that_stops_answering_is_no_usage(house, capsys, commands):
    change(house / SITE, '"scheduler": "local"', SLURM.format('batch", "--reservation=r'))
    commands("sinfo", "echo batch")
    commands("scontrol", f"{QUEUES} || exit 1")
    assert cli.main(["run", "--tier", "quick", "-n", "tiny"]) == 3
    assert "nothing was run: Slurm is installed and does not answer" in capsys.readouterr().err


def test_the_exit_code_does_not_depend_on_a_reader(monkeypatch):
    """`bisection run | head -1`: the run goes on, and ends with its own exit code."""
    ended, (read, write) = [], os.pipe()
    os.set_blocking(read, False)

    def act(_):
        assert sys.stdout.write("first\n") == 6
        sys.stdout.flush()
        assert os.read(read, 99) == b"first\n"
        os.close(read)
        for _ in range(3):
            print("line\n" * 10000, flush=True)
        ended.append(True)
        return 3

    module = SimpleNamespace(__doc__="", add_arguments=lambda _: None, act=act)
    monkeypatch.setitem(sys.modules, "bisection.commands.history", module)
    with os.fdopen(write, "w") as stream, contextlib.redirect_stdout(stream):
        assert cli.main(["history"]) == 3
        print("more", flush=True)
    assert ended


def test_latest_stays_with_the_last_night_where_nothing_is_left(house, capsys, monkeypatch):
    """-x is ReFrame's own: that it leaves nothing is seen when ReFrame ends."""
    last = house / "home" / "results" / "2026-06-01T000000Z"
    last.mkdir(parents=True)
    monkeypatch.setattr(command, "watch", lambda *_: (0, ""))
    assert cli.main(["run", "--tier", "quick", "-x", "tiny"]) == 2
    assert "no check is left by -x tiny" in capsys.readouterr().err
    assert (last.parent / "latest").resolve() == last
    assert [path.name for path in last.parent.iterdir() if not path.is_symlink()] == [last.name]


@pytest.mark.parametrize(
    ("environs", "chosen"),
    [
        ('["system", "spack"]', "system"),
        ('["gnu", "spack"]', "gnu"),
        ('["gnu", "intel", "builtin", "spack"]', "gnu|intel"),
        ('["spack"]', "spack"),
    ],
)
def test_environments_of_the_site_are_the_default(house, environs, chosen):
    site = house / "site-configs" / "localhost.py"
    change(site, '["system", "spack"]', environs)
    added = "".join(f'{{"name": "{name}", "features": ["kernels"]}},' for name in ("gnu", "intel"))
    change(site, "configuration(\n", f"configuration(\n    environments=[{added}],\n")
    with pytest.raises(Started) as started:
        cli.main(["run", "--tier", "quick", "-n", "^tiny"])
    line = started.value.args[0]
    assert line[line.index("-p") + 1] == chosen


def test_site_file_elsewhere(house, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "lab.py"
    text = (house / "site-configs" / "localhost.py").read_text()
    head = 'import_module_from_file(str(Path(__file__).with_name("common.py")))'
    elsewhere.write_text(text.replace(head, '__import__("common")'))
    with pytest.raises(Started) as started:
        cli.main(["run", "--tier", "quick", "--system", f"{elsewhere}:default"])
    line = started.value.args[0]
    assert line[line.index("--system") + 1] == "lab:default"
