"""The tutorial: its commands are run in order, and print what the page says.

Three things are put in place of what a test may not do: the clone is of this checkout's commit,
Python packages and kernels are those that this checkout has (of `make setup` no output is
compared), and the cluster's folder is the test's own.
"""

import doctest
import itertools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bisection.core import paths
from workshop.testbed import Cluster, unavailable

PAGE = paths.ROOT / "checks" / "docs" / "tutorial.md"
URL, BED, SETUP = "URL", "/tmp/bed", "make setup"  # as the page has them
END = "\x04 end"
RULES = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def steps(page):
    """The commands of a page's console blocks, each with the output below it."""
    blocks = re.findall(r"^```console\n(.*?)^```$", page, re.M | re.S)
    parts = re.split(r"^\$ ", "".join(blocks), flags=re.M)
    assert not parts[0], f"no command prints this: {parts[0]}"
    return [tuple(part.split("\n", 1)) for part in parts[1:]]


def same(wanted, printed):
    """By doctest's rules: ... is any text, a line may be broken elsewhere."""
    return doctest.OutputChecker().check_output(wanted, printed, RULES)


class Shell:
    """One bash, as a person has it: its folder and variables last from command to command."""

    def __init__(self, folder):
        kept = {n: v for n, v in os.environ.items() if not re.match("BISECTION|PYTHON|MAKE|MFL", n)}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self.bash = subprocess.Popen(["bash"], cwd=folder, env=kept, text=True, **pipes)

    def run(self, command):
        """What it prints."""
        line = f"{{ {command}\n}} </dev/null; code=$?; echo; echo '{END}'; (exit $code)\n"
        self.bash.stdin.write(line)
        self.bash.stdin.flush()
        printed = itertools.takewhile(lambda text: text != f"{END}\n", self.bash.stdout)
        return "".join(printed).removesuffix("\n")

    def close(self):
        self.bash.communicate()


def furnish(clone, kernels):
    """Has set-up find its packages, and a run its kernels, as if they had been made here before."""
    home, ours = clone / ".bisection", Path(sys.prefix)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home / "venv"], check=True)
    (packages,) = (home / "venv").glob("lib/python3*/site-packages")
    (there,) = ours.glob("lib/python3*/site-packages")
    (packages / "packages.pth").write_text(f"{there}\n")
    (home / "venv/bin/reframe").symlink_to(ours / "bin/reframe")
    shutil.copy(ours / "ready", home / "venv")
    kernels.mkdir(parents=True, exist_ok=True)
    (home / "kernels").symlink_to(kernels)


@pytest.mark.testbed
def test_every_command_of_the_tutorial_prints_what_the_page_says(tmp_path_factory):
    if why := unavailable():
        pytest.skip(why)
    # In one place every time: the kernels' builds are kept by the path of their sources.
    folder = paths.home() / "cache" / "tutorial"
    shutil.rmtree(folder / "bisection", ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    bed = tmp_path_factory.mktemp("bed")  # a short name: sockets are in it
    shell = Shell(folder)
    try:
        for command, wanted in steps(PAGE.read_text()):
            line = command.replace(URL, str(paths.ROOT)).replace(BED, str(bed))
            if command == SETUP:
                furnish(folder / "bisection", folder / "kernels")
            printed = shell.run(line).replace(str(bed), BED)
            if command != SETUP:
                assert same(wanted, printed), f"$ {command}\n{printed}\nis not\n{wanted}"
            else:
                assert not printed, printed  # silent, as it has nothing to do
    finally:
        shell.close()
        Cluster(bed).down()


SMALL = """
```console
$ cd /
$ pwd; false
/
$ echo $?
1
$ seq 3; echo in 12.5 s, on node3
1
...
in ... s, on node3
```
"""


@pytest.mark.parametrize(
    ("text", "other", "bad"),
    [
        ("", "", []),
        ("\nin ... s, on node3", "\nin ... s, on node4", ["seq"]),
        ("\nin ... s, on node3", "", []),  # the dots before it stand for it, too
        ("...\nin", "in", ["seq"]),
        ("on node3\n```", "on node3\nand more\n```", ["seq"]),
        ("\n1\n$ seq", "\n0\n$ seq", ["echo"]),
        ("false\n/", "false\n/tmp", ["pwd"]),
        ("$ cd /\n", "", ["pwd"]),
        ("; false", "", ["echo"]),
    ],
)
def test_a_changed_word_line_or_command_is_noticed(tmp_path, text, other, bad):
    shell = Shell(tmp_path)
    commands = steps(SMALL.replace(text, other, 1))
    wrong = [command for command, wanted in commands if not same(wanted, shell.run(command))]
    shell.close()
    assert [re.match(r"\w+", command)[0] for command in wrong] == bad
