"""The table of `workshop faults`."""

import shutil
import textwrap
from collections.abc import Sequence

from bisection.core.format import plural
from bisection.core.reasons.launches import KernelDied, KernelsStale, Misplaced, ReframeText
from bisection.core.verdicts import Exit
from workshop.testbed.faults import Fault, Outcome

WORDS = {
    KernelDied.code: "killed",
    Misplaced.code: "INVALID",
    KernelsStale.code: "refused",
    ReframeText.code: "stopped by",
}


def wanted(fault: Fault) -> str:
    """The wanted outcome of a fault."""
    if fault.code is None:
        return "survived" if fault.exit_code == Exit.OK else f"exit {fault.exit_code:d}"
    code = WORDS.get(fault.code, fault.code)
    return " ".join([code, *(word for word in fault.names if len(word) > 1)])


def listing(faults: Sequence[Fault]) -> list[str]:
    """Each fault with the wanted outcome, and what happens."""
    names, outcomes = _width(faults), max(len(wanted(fault)) for fault in faults)
    return [f"{f.name:{names}}  {wanted(f):{outcomes}}  {f.text}" for f in faults]


def heading(faults: Sequence[Fault]) -> str:
    """The names of the columns."""
    return f"       {'fault':{_width(faults)}}  back-end     time  what the run reports"


def as_line(outcome: Outcome, faults: Sequence[Fault]) -> list[str]:
    """A row of the table: whether it is as wanted, and the run's own words."""
    state = "WRONG" if outcome.wrong else "ok"
    begin = f"{state:5}  {outcome.fault.name:{_width(faults)}}  {outcome.backend:8}"
    begin += f"  {outcome.seconds:5.0f} s  "
    width = max(shutil.get_terminal_size((100, 24)).columns, 80)
    text = " ".join((outcome.cause or "nothing").split())
    lines = textwrap.wrap(text, width - len(begin))[:3] or [""]
    lines += [f"wanted {wanted(outcome.fault)}: {why}" for why in outcome.wrong]
    return [begin + lines[0], *(" " * len(begin) + line for line in lines[1:])]


def ending(outcomes: Sequence[Outcome], took: str) -> str:
    """The last line."""
    wrong = sum(bool(outcome.wrong) for outcome in outcomes)
    verdict = f"FAIL: {wrong} of" if wrong else "PASS:"
    words = "not as wanted" if wrong else "as wanted"
    return f"{verdict} {plural(len(outcomes), 'fault')} {words}, in {took}"


def _width(faults: Sequence[Fault]) -> int:
    return max(len(fault.name) for fault in faults)
