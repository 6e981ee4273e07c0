"""The command line as a whole: each command, and each below it, prints its help."""

import pytest

from bisection import cli
from workshop.cli import WORKSHOP
from workshop.commands.docs import leaves


@pytest.mark.parametrize(
    ("program", "command"),
    [(program, name) for program in (cli.BISECTION, WORKSHOP) for name in program.commands],
)
def test_each_command_prints_its_help(program, command, capsys, monkeypatch):
    """No text breaks the formatting of argparse, or is wider than a terminal."""
    monkeypatch.setenv("COLUMNS", "80")
    parser = cli.parser(command, program)
    for words, _ in leaves(parser, []):
        if words[:1] != [command]:
            continue
        assert cli.main([*words, "--help"], program) == 0
        shown = capsys.readouterr().out
        assert shown.startswith(f"usage: {program.name} {' '.join(words)}")
        assert [line for line in shown.splitlines() if len(line) > 80] == []
