"""Clauses of a trial job, and of what `site check` finds."""

from collections.abc import Callable, Mapping
from typing import Any

from bisection.core.format import plural
from bisection.core.reasons import Code

Values = Mapping[str, Any]


def _worlds(v: Values) -> str:
    worlds = f"{plural(v['worlds'], 'MPI world')} of {plural(v['size'], 'rank')}"
    return f"{v['launcher']} started {worlds} instead of one of {v['asked']}"


SITE: dict[Code, str | Callable[[Values], str]] = {
    Code.OUTPUT_UNSEEN: "job {job} left no output in {path}{nodes:?, it ran on *}",
    Code.PROBE_NOT_BUILT: "no MPI program could be built{last:?: *}",
    Code.NO_WORLD: "{launcher} started no MPI program{limit!l:? in *}{last:?: *}",
    Code.WORLDS: _worlds,
}
