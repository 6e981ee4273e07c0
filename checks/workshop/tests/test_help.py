"""The command line as a whole: each command, and each below it, prints its help."""

import argparse

import pytest

from bisection import cli
from workshop.cli import WORKSHOP


def leaves(parser, words):
    """The words of a command line of each command below a parser, and itself."""
    yield words
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                yield from leaves(child, [*words, name])


@pytest.mark.parametrize(
    ("program", "command"),
    [(program, name) for program in (cli.BISECTION, WORKSHOP) for name in program.commands],
)
def test_each_command_prints_its_help(program, command, capsys, monkeypatch):
    """No text breaks the formatting of argparse, or is wider than a terminal."""
    monkeypatch.setenv("COLUMNS", "80")
    parser = cli.parser(command, program)
    (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    for words in leaves(commands.choices[command], [command]):
        assert cli.main([*words, "--help"], program) == 0
        shown = capsys.readouterr().out
        assert shown.startswith(f"usage: {program.name} {' '.join(words)}")
        assert [line for line in shown.splitlines() if len(line) > 80] == []
