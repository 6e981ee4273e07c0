"""The command line as a whole: each command, and each below it, prints its help."""

import argparse

import pytest

from bisection import cli


def leaves(parser, words):
    """The words of a command line of each command below a parser, and itself."""
    yield words
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                yield from leaves(child, [*words, name])


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_each_command_prints_its_help(command, capsys):
    """No text breaks the formatting of argparse."""
    parser = cli.parser(command)
    (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    for words in leaves(commands.choices[command], [command]):
        with pytest.raises(SystemExit) as stopped:
            cli.main([*words, "--help"])
        shown = capsys.readouterr().out
        assert (stopped.value.code, shown.startswith(f"usage: bisection {' '.join(words)}")) == (
            0,
            True,
        ), shown
