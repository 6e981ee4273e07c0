"""Commands of a scheduler: what they printed, why they failed, which options they have."""

import pytest

from bisection.core.commands import all_errors, ask, last_error, option_value


@pytest.mark.parametrize(
    ("command", "code", "error"),
    [
        (("sh", "-c", "echo remark >&2"), 0, ""),
        (("sh", "-c", "echo 'sh: error: no such job' >&2; exit 3"), 3, "sh: no such job"),
        (("false",), 1, "false: exit 1"),
        (("no-such-command",), 127, "no-such-command: [Errno 2] No such file or directory"),
    ],
)
def test_a_failure_is_one_line_that_names_the_command(command, code, error):
    answer = ask(*command)
    assert (answer.code, bool(answer)) == (code, code == 0)
    assert answer.error.startswith(error)
    assert bool(answer.error) == bool(error)


def test_all_lines_of_an_error_are_one_line_each_of_them_once():
    text = "sbatch: error: name your project\n\nsbatch: error: see `x`\nsbatch: error: see `x`\n"
    assert last_error("sbatch", text) == "sbatch: see `x`"
    assert all_errors("sbatch", text) == "sbatch: name your project; see `x`"
    assert all_errors("sbatch", "\n") == ""


def test_a_command_that_does_not_end_is_given_up(monkeypatch):
    monkeypatch.setattr("bisection.core.commands.PATIENCE", 0.2)
    answer = ask("sleep", "60")
    assert answer.code == 124
    assert answer.error.startswith("sleep: ")


PARTITIONS = [["--partition=duo", "-N 2"], ["-p long", "-p duo"], ["-pduo -N 2"], ["-A a -p duo"]]


@pytest.mark.parametrize(
    ("options", "value"),
    [
        *((options, "duo") for options in PARTITIONS),
        *((options, "") for options in ([], ["--part=duo"], ["-N 2 -p"], ["-p --exclusive"])),
    ],
)
def test_the_last_value_of_an_option_counts(options, value):
    assert option_value(options, "-p", "--partition") == value
    assert option_value(options) == ""
