"""What a site does about bad nodes: a command of its own, called after the verdict.

Each call is a line of the file of actions, by which no node is acted on twice for one cause, and no
more of them in a day than allowed. Nothing here changes a verdict.
"""

import json
import os
import re
import subprocess
import tempfile
import time
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bisection.core import paths
from bisection.core.commands import telling
from bisection.core.format import plural, some, utc
from bisection.core.reasons.launches import Blocked, Misplaced
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Exit
from bisection.report import exports
from bisection.report.report_data import Report

FILE = "actions.jsonl"
# Causes that are no node's own: the scheduler has taken the node away, or a launcher has placed
# ranks wrongly.
OTHERS = {Blocked.code, Misplaced.code}
DAY = 86400.0  # s
STOPPED = (124, 137, -9)  # exit codes of timeout(1): at its limit; it, too, is killed


@dataclass(frozen=True)
class Most:
    """How many nodes may be acted on in a day."""

    nodes: int
    percent: float  # of the nodes of the run's partitions; one node always may

    @classmethod
    def parsed(cls, text: str) -> "Most":
        """Of NODES[,PERCENT%] on the command line."""
        form = re.fullmatch(r"([1-9]\d*)(?:,(\d+(?:\.\d+)?)%)?", text)
        if not form or not 0 < float(form[2] or 100) <= 100:
            raise ArgumentTypeError(f"{text!r} is not NODES[,PERCENT%], such as 2,5%")
        return cls(int(form[1]), float(form[2] or 100))

    def of(self, nodes: int) -> int:
        """Of so many nodes; 0: their number is not known."""
        return min(self.nodes, max(int(nodes * self.percent / 100), 1)) if nodes else self.nodes


@dataclass(frozen=True)
class Action:
    """A call of the command; or, without one, a node on which launches are right again."""

    at: float  # Unix time
    node: str
    causes: Sequence[str] = ()  # codes of reasons
    why: str = ""
    session: str = ""
    command: str = ""
    code: int | None = None  # its exit code; None: it did not end in time


def read(file: Path) -> list[Action]:
    """The actions of a file, the oldest first, without broken lines, as a full disk leaves them."""
    actions = []
    for line in paths.text_of(file).splitlines():
        try:
            actions.append(Action(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return actions


def act(
    report: Report, command: str, most: Most | None, count: Callable[[], int], home: Path
) -> Iterator[str]:
    """Calls a site's command once per node that the report accuses; yields what it did.

    Args:
        report: of a run, written.
        command: of the site, by a shell. It gets BISECTION_NODE, BISECTION_CAUSE (codes,
            with commas), BISECTION_WHY (a line for the scheduler), BISECTION_VERDICT (as in
            `--help`: OK, FAILED, ...) and BISECTION_REPORT (a file) in its environment, and the
            same as JSON on its standard input.
        most: nodes of a day; None: nothing is called.
        count: returns the nodes of the run's partitions, 0 if they are not known; is called where
            a node is accused.
        home: folder of the file of actions.
    """
    bad, now = exports.bad_nodes(report), time.time()
    done = read(home / FILE)
    known = causes_of(done)
    today = {action.node for action in done if action.command and action.at > now - DAY}
    session = report.run.session if report.run else ""
    for node in known.keys() & right(report) - bad.keys():
        known.pop(node)
        note(home, Action(now, node, session=session))
    accused = {node: [pair for pair in whys if pair[0] not in OTHERS] for node, whys in bad.items()}
    accused = {node: whys for node, whys in accused.items() if whys}
    limit = most.of(count()) if most and accused else 0
    allowed = plural(limit, "node")
    if most and len(accused) > limit:
        yield (
            f"on suspect: not run: {plural(len(accused), 'node')} are accused, {allowed} a day may "
            f"be acted on; look for a cause that they share: {some(accused)}"
        )
        return
    for node, whys in accused.items():
        causes, line = {code for code, _ in whys}, exports.reason_line(whys)
        if causes <= known.get(node, set()):
            last = max(action.at for action in done if action.node == node and action.command)
            yield f"on suspect: not run for {node}: it was on {utc(last)}; {line}"
        elif most is None:
            yield f"on suspect: not run for {node}, without --act: {command}; {line}"
        elif node not in today and len(today) >= limit:
            most_a_day = f"--act allows {allowed} a day, of today are {some(today)}"
            yield f"on suspect: not run for {node}: {most_a_day}; {line}"
        else:
            today.add(node)
            values = {"node": node, "cause": ",".join(sorted(causes)), "why": line}
            values |= {"verdict": report.exit_code.name}
            values |= {"report": str(report.folder / "report.html") if report.folder else ""}
            code, end = called(command, values, whys)
            note(home, Action(now, node, sorted(causes), line, session, command, code))
            yield f"on suspect: {command} for {node}: {end}; {line}"


def causes_of(actions: Iterable[Action]) -> dict[str, set[str]]:
    """The nodes that were acted on, and for which causes, since launches on them were right."""
    known: dict[str, set[str]] = {}
    for action in actions:
        if action.command and action.code == 0:  # one that failed is called again
            known.setdefault(action.node, set()).update(action.causes)
        elif not action.command:
            known.pop(action.node, None)
    return known


def right(report: Report) -> set[str]:
    """The nodes with launches of a run in which all is right."""
    if report.run is None or report.exit_code != Exit.OK:
        return set()
    hosts = {host for case in report.run.judged for host in case.record.hosts}
    return hosts | {host.partition(".")[0] for host in hosts}


def note(home: Path, action: Action) -> None:
    with open(home / FILE, "a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(action)) + "\n")


def called(
    command: str, values: Mapping[str, str], whys: Sequence[tuple[str, str]]
) -> tuple[int | None, str]:
    """Calls the command; returns its exit code, and how it ended."""
    variables = {f"BISECTION_{name.upper()}": value for name, value in values.items()}
    evidence = [{"cause": code, "why": why} for code, why in whys]
    limited = ["timeout", "--kill-after=5", f"{LIMITS.action:g}", "sh", "-c", command]
    # Into a file, as what it leaves in the background would keep a pipe open.
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        done = subprocess.run(
            limited,
            cwd=paths.ROOT,
            env={**os.environ, **variables},
            input=json.dumps({**values, "evidence": evidence}) + "\n",
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )
        output.seek(0)
        words = telling(output.read())
    if done.returncode in STOPPED:
        return None, f"no end after {LIMITS.action:g} s: it was stopped"
    return done.returncode, f"exit {done.returncode}" + (f", {words}" if words else "")
