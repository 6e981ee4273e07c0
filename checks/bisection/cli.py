"""The command line: `bisection COMMAND`, a module of bisection.commands each."""

import argparse
import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from bisection.core import paths, releases
from bisection.core.parser import Parser, describe
from bisection.core.verdicts import MEANINGS, BisectionError, Exit, exit_codes

# Each module has `add_arguments(parser)` and `act(options)`, which gives the exit code. A module is
# loaded when its command is chosen.
COMMANDS = {
    "run": ("run", "run a tier of checks and judge this machine"),
    "verdict": ("verdict", "print the verdict of an earlier run"),
    "compare": ("compare", "compare two groups of stored sessions; plan nights and launches"),
    "history": ("history", "find the session since which a metric is worse"),
    "report": ("report", "write a report: HTML, Markdown, JUnit, Prometheus"),
    "sessions": ("sessions", "list stored sessions; tag, exclude or forget some"),
    "import": ("import_", "store sample files, and sessions that are not stored yet"),
    "references": ("references", "make references from stored sessions"),
    "site": ("site", "describe a cluster in a site file, and check that file"),
    "doctor": ("doctor", "examine sites, checks, references, locks and stored results"),
    "export": ("export", "write stored nights as CSV, JSON lines or Parquet"),
    "schema": ("schema", "print the JSON Schema of what --json prints, and of files"),
    "advise": ("advise", "recommend settings for users of a partition"),
}


@dataclass(frozen=True)
class Program:
    """A program with commands."""

    name: str
    description: str
    commands: Mapping[str, tuple[str, str]]  # name -> module of NAME.commands, help


BISECTION = Program("bisection", "Acceptance and regression tests of HPC systems.", COMMANDS)


class Version(argparse.Action):
    """Prints the release, the commit, and the versions of formats."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from bisection.kernels import results
        from bisection.runs import run_verdict
        from bisection.store import sample_file

        formats = {
            "sample file": sample_file.VERSION,
            "verdict.json": run_verdict.VERSION,
            "kernel result": results.VERSION,
        }
        print(f"{parser.prog} {releases.described()}")
        print("formats:", ", ".join(f"{name} {number}" for name, number in formats.items()))
        parser.exit()


def parser(chosen: str | None = None, program: Program = BISECTION) -> argparse.ArgumentParser:
    """The parser, with the arguments of the chosen command."""
    codes = exit_codes(dict.fromkeys(MEANINGS, ""))
    main = Parser(prog=program.name, description=program.description, epilog=codes)
    text = "print the release, the commit, and the versions of formats"
    main.add_argument("-V", "--version", action=Version, nargs=0, help=text)
    commands = main.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, text) in program.commands.items():
        command = commands.add_parser(name, help=text, allow_abbrev=name != "run")
        if name == chosen:
            loaded = importlib.import_module(f"{program.name}.commands.{module}")
            loaded.add_arguments(command)
            describe(command, loaded)
            command.set_defaults(act=loaded.act, parser=command)
    return main


class Output:
    """Standard output. Once nothing can be written to it any more, it goes nowhere: a command runs
    to its end. `lost` says why, but for a reader that has read enough, as `| head` has."""

    def __init__(self, stream: TextIO, lost: str = "") -> None:
        self._stream, self.lost = stream, lost

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextlib.contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            if error.errno not in (errno.EPIPE, errno.EIO):  # of a terminal that is gone
                self.lost = self.lost or str(error.strerror)

    def write(self, text: str) -> int:
        with self._kept():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._kept():
            self._stream.flush()


def open_streams() -> list[str]:
    """Opens the standard streams that are closed, so that no file gets their numbers; returns which
    they were."""
    closed = [name for name in ("stdin", "stdout", "stderr") if getattr(sys, name) is None]
    for name in closed:
        number, mode = ("stdin", "stdout", "stderr").index(name), "r" if name == "stdin" else "w"
        null = os.open(os.devnull, os.O_RDWR)
        if null != number:
            os.dup2(null, number)
            os.close(null)
        os.set_inheritable(number, True)
        setattr(sys, name, os.fdopen(number, mode))
    return closed


def main(arguments: Sequence[str] | None = None, program: Program = BISECTION) -> int:
    """Runs one command of a program, by default that of this process; returns the exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    closed = open_streams()
    output = Output(sys.stdout, "it is closed" if "stdout" in closed else "")
    name, fault = program.name, ""
    try:
        with contextlib.redirect_stdout(output):
            whole = parser(next(iter(arguments), None), program)
            options, rest = whole.parse_known_args(arguments)
            name = f"{program.name} {options.command}"
            if rest and options.command != "run":
                options.parser.error(f"unrecognized arguments: {' '.join(rest)}")
            options.rest = rest
            code = options.act(options)
    except BisectionError as error:
        fault, code = str(error), error.exit_code
    except OSError as error:  # of a file that the command line names, or of the home
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        where = error.filename2 or error.filename or paths.home()
        fault, code = f"{where}: {error.strerror}", Exit.NOT_MEASURED if full else Exit.USAGE
    except SystemExit as end:  # of the parser: help, or usage
        if end.code not in (None, Exit.OK):
            raise
        code = Exit.OK
    finally:
        output.flush()  # not at the interpreter's end, whose exit code for it is 120
    if not fault and output.lost:
        fault = f"standard output: {output.lost}"
    if fault:
        print(f"{name}: error: {fault}", file=sys.stderr)
    return code or (Exit.NOT_MEASURED if output.lost else code)
