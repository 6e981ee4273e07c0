"""Runs a scheduler's commands, and reads options of theirs."""

import os
import re
import shlex
import subprocess
from argparse import ArgumentParser
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

PATIENCE = 60  # s for a command to answer
# What a line has that says why a command failed, of the page that some print.
WORDS = r"not built|unable|cannot|can't|could not|invalid|denied|error|fail|option: |unrecognized|"
TELLING = re.compile(WORDS + "no such|not found", re.I)


@dataclass(frozen=True)
class Answer:
    """Output and end of a command."""

    command: str  # its first word
    code: int  # 124: no answer in time, 127: it is not installed
    text: str
    stderr: str

    def __bool__(self) -> bool:
        return self.code == 0

    @property
    def error(self) -> str:
        """Returns why it failed, in one line that names it; "" if it did not."""
        if self:
            return ""
        return last_error(self.command, self.stderr) or f"{self.command}: exit {self.code}"


def ask(
    *command: str, environ: Mapping[str, str] | None = None, patience: float | None = None
) -> Answer:
    """Runs a command that prints and ends within `patience` (s, by default a minute). `environ`: by
    default this one, with times of Slurm in Unix seconds."""
    if environ is None:
        environ = {**os.environ, "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=patience or PATIENCE,
            env=environ,
        )
    except subprocess.TimeoutExpired as error:
        return Answer(command[0], 124, "", str(error))
    except OSError as error:
        return Answer(command[0], 127, "", str(error))
    return Answer(command[0], done.returncode, done.stdout, done.stderr)


def last_error(command: str, stderr: str) -> str:
    """The last line of a command's error output, with its name before it; "" if it has none."""
    return "".join(f"{command}: {line}" for line in _lines(command, stderr)[-1:])


def all_errors(command: str, stderr: str) -> str:
    """All lines of a command's error output as one, each once, with its name before them; "" if it
    has none. A scheduler's last line rarely has what a site's own policy prints."""
    lines = dict.fromkeys(_lines(command, stderr))
    return f"{command}: {'; '.join(lines)}" if lines else ""


def telling(text: str) -> str:
    """The line of an output that says most of why a command failed; "" for none."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" -*=")]
    lines = [re.sub(r"^\[\S+:\d+\] ", "", line) for line in lines]  # Open MPI's host and process
    return next(filter(TELLING.search, lines), (lines or [""])[-1])


def _lines(command: str, stderr: str) -> list[str]:
    name = rf"^{re.escape(command)}: (error: )?"
    lines = (re.sub(name, "", line.strip()) for line in stderr.splitlines())
    return [line for line in lines if line]


def option_value(options: Iterable[str], *names: str) -> str:
    """The last value of an option with these names ("-p", "--partition") among those of a
    scheduler ("--partition=duo", "-p duo"); "" without it."""
    if not names:
        return ""
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(*names, dest="value", nargs="?", default="", const="")
    return parser.parse_known_args(shlex.split(" ".join(options)))[0].value
