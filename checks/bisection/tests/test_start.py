"""How a program starts and ends: interrupts, standard streams that are closed or full, its help."""

import os
import select
import shlex
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from running import CHECKS, start

from bisection.start import start as start_program

BISECTION = f"exec {shlex.quote(sys.executable)} -m bisection"


def act_as(monkeypatch, act):
    """Has `bisection history` do this."""
    module = SimpleNamespace(__doc__="", add_arguments=lambda _: None, act=act)
    monkeypatch.setitem(sys.modules, "bisection.commands.history", module)
    monkeypatch.setattr(sys, "argv", ["bisection", "history"])


def while_a_class_is_made(_):
    class Name:
        def __set_name__(self, owner, name):
            raise KeyboardInterrupt

    type("Class", (), {"member": Name()})  # a RuntimeError, before Python 3.12


def in_another_place(_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("act", [while_a_class_is_made, in_another_place])
def test_an_interrupt_is_one_line(monkeypatch, capsys, act):
    act_as(monkeypatch, act)
    with pytest.raises(SystemExit) as end:
        start_program("bisection")
    printed = capsys.readouterr()
    assert (end.value.code, printed.out, printed.err) == (130, "", "bisection: interrupted\n")


def test_another_error_is_a_traceback(monkeypatch):
    act_as(monkeypatch, lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        start_program("bisection")


@pytest.mark.parametrize(
    ("words", "end", "code", "line"),
    [
        ("run --system {}", os.kill, 130, "bisection: interrupted"),
        ("run --system {}", os.killpg, 130, "bisection: interrupted"),
        ("doctor --system {}", os.killpg, 130, "bisection: interrupted"),
        ("site check {}", os.killpg, 3, "bisection site: error: interrupted: its jobs are"),
    ],
)
def test_an_interrupt_while_a_site_loads(home, words, end, code, line):
    """Of the program alone, and of all processes, as from a terminal."""
    os.mkfifo(home / "pipe")
    pipe, file = os.open(home / "pipe", os.O_RDWR), home / "lab.py"
    told = f"import os\n\nos.write(os.open({str(home / 'pipe')!r}, os.O_WRONLY), b'.')"
    file.write_text(f"{told}\nimport time\n\ntime.sleep(600)\nsite_configuration = {{}}\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "bisection", *words.format(file).split()],
        env={**os.environ, "PYTHONPATH": str(CHECKS)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert select.select([pipe], [], [], 300)[0]  # it loads
        end(process.pid, signal.SIGINT)
        out, errors = process.communicate(timeout=300)
    finally:
        process.kill()
        os.close(pipe)
    assert (process.returncode, out, errors.count("\n")) == (code, "", 1), errors
    assert errors.startswith(line)
    assert not (home / "results").exists()


WHY = {">&-": "it is closed", ">/dev/full": "No space left on device"}


@pytest.mark.parametrize("stream", WHY)
@pytest.mark.parametrize("words", ["sessions", "sessions list --json", "--help", "doctor --help"])
def test_output_that_cannot_be_written_is_named(tmp_path, words, stream):
    code, text = start(["sh", "-c", f"{BISECTION} {words} {stream}"], tmp_path)
    name = "bisection" + (f" {words.split()[0]}" if words == "sessions" else "")
    assert (code, text.count("\n")) == (3, 1), text
    assert text.endswith(f"error: standard output: {WHY[stream]}\n")
    assert text.startswith(name)


@pytest.mark.parametrize("stream", WHY)
def test_its_own_fault_comes_before_that_of_its_output(tmp_path, stream):
    code, text = start(["sh", "-c", f"{BISECTION} history {stream}"], tmp_path)
    assert (code, text.count("\n")) == (2, 1), text
    assert "no session is stored" in text


CHILD = """
import subprocess, sys
from bisection.cli import open_streams
open_streams()
file = open(sys.argv[1], "w")
subprocess.run(["sh", "-c", "echo out; echo err >&2; cat"])
print("printed", flush=True)
sys.exit(file.fileno() < 3)
"""


@pytest.mark.parametrize(
    ("streams", "words"),
    [
        ("", "err out printed"),
        ("<&-", "err out printed"),
        ("2>&-", "out printed"),
        ("<&- 2>&-", "out printed"),
        (">&-", "err"),
        ("<&- >&- 2>&-", ""),
    ],
)
def test_no_file_gets_the_number_of_a_closed_stream(tmp_path, streams, words):
    """What a child process prints would be written into it."""
    file = tmp_path / "file"
    program = shlex.join([sys.executable, "-c", CHILD, str(file)])
    code, text = start(["sh", "-c", f"exec </dev/null; exec {program} {streams}"], tmp_path)
    assert (code, file.read_text(), sorted(text.split())) == (0, "", words.split())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("", "bisection: error: the following arguments are required: COMMAND; `bisection --help`"),
        ("runn", "argument COMMAND: invalid choice: 'runn'"),
        ("run -n", "argument -n/--name: expected one argument"),
        ("sessions --last", "unrecognized arguments: --last"),
        ("advise npar --measure 99999999999", "'99999999999' is not a whole number above 1, at mo"),
        ("advise md --measure 1e3", "'1e3' is not a whole number above 1, at most "),
        (f"site new lab --nodes {'9' * 6000}", "9… is not a whole number above 0, at most 1000000"),
        ("references propose --least 9999999999", "'9999999999' is not a whole number above 2"),
        (f"compare latest latest~{'9' * 6000}", f"'latest~{'9' * 73}': no session is stored"),
        (f"compare earlier:{'9' * 6000} latest", "'latest': no session is stored"),
    ],
)  # fmt: skip
def test_errors_of_the_command_line_are_one_line(home, command_line, words, says):
    code, out, errors = command_line(*words.split())
    assert (code, out, errors.count("\n")) == (2, "", 1)
    assert says in errors
