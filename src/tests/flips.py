"""Launches of kernels in which one bit of what a call has received is wrong: flip_received.c."""

import re

from kernel_run import Outcome, run

FLIP = re.compile(
    r"^flip (?P<method>\S+), step \d+ of \d+, call \d+ of \d+, (?P<routine>.+), "
    r"number \d+ of \d+, (?P<before>\S+) -> (?P<after>\S+)$",
    re.M,
)
PHASE = r"^flipped {}, phase (?P<phase>\d+), laps (?P<laps>[\d ]+), ends (?P<ends>[\d ]+)$"


def flips_of(out: Outcome) -> "list[dict[str, str]]":
    """The flips of a launch, a method each."""
    flips = [match.groupdict() for match in FLIP.finditer(out.stderr)]
    for flip in flips:
        if phase := re.search(PHASE.format(re.escape(flip["method"])), out.stderr, re.M):
            flip.update(phase.groupdict())
    return flips


def launch(
    kernel: str, ranks: int, order: str, *arguments: str, **environment: str
) -> "tuple[list[dict[str, str]], set[str], Outcome]":
    """The flips of one launch, the methods whose answer was wrong, and the outcome.

    Of a launch that crashed or waited for ever, the last flip, without a phase.  Raises
    RuntimeError where nothing was flipped in it, or where a method is wrong without a flip.
    """
    out = run(kernel, ranks, *arguments, BX_FLIP=order, **environment)
    flips = flips_of(out)
    if out.result is None or out.result["status"] != "complete":
        if not flips:
            raise RuntimeError(f"no result: {out.stdout}{out.stderr}")
        flips[-1].pop("phase", None)
        return flips[-1:], {flips[-1]["method"]}, out
    wrong = {
        entry["method"]
        for entry in out.result["results"]
        if entry["applicable"] and not entry["verification"]["passed"]
    }
    if false := wrong - {flip["method"] for flip in flips}:
        raise RuntimeError(f"wrong without a flip: {false}")
    return flips, wrong, out
