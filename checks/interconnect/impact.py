"""The cost of other traffic for users' codes: the impact that the kernel congestion measured.

The impact is the time of an exchange under an aggressor over its time quiet. A cycle, with its own
deal of nodes, is the sample: intervals come from a bootstrap over cycles. The measure is that of
S. Chunduri et al., SC 2019.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bisection.analysis.resampling import estimate
from bisection.core.reasons.base import Reason, Text
from bisection.core.reasons.launches import Disturbed
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Grade
from bisection.kernels.local import Estimate
from bisection.kernels.results import disturbed

KERNEL = "congestion"
QUIET, AGAIN, ALONE = "quiet", "again", "alone"  # windows; the victim that there is none of

Windows = Mapping[str, Mapping[int, Mapping[str, Any]]]  # window -> cycle -> its numbers


@dataclass(frozen=True)
class Impact:
    """The impact of one aggressor on one victim; ratios are medians over cycles of loaded over
    quiet, with 95% intervals."""

    place: str  # apart | beside
    victim: str
    aggressor: str
    mean: Estimate
    p99: Estimate
    load: float | None  # of the aggressor: with the victim over alone; None: not measured alone
    withheld: Reason | None  # why it is not judged

    @property
    def grade(self) -> Grade | None:
        """None if withheld. What is above the limit of `look` is no-go only if its whole interval
        is above that of `go`; an interval that contains 1 is go."""
        if self.withheld:
            return None
        limits = ((self.mean, LIMITS.impact), (self.p99, LIMITS.impact_p99))
        if any(r.value > LIMITS.impact_look and r.low > limit for r, limit in limits):
            return Grade.NO_GO
        shown = any(r.value > limit and r.low > 1 for r, limit in limits)
        return Grade.LOOK if shown else Grade.GO

    @property
    def reason(self) -> Text | None:
        """Returns a finding against the network; None if it is good."""
        who = f"{self.victim} under {self.aggressor} ({self.place})"
        if self.withheld:
            return Text(f"{who} is not judged: {self.withheld}")
        if self.grade == Grade.GO:
            return None
        return Text(f"{who} takes {self.mean.factor} times as long, its p99 {self.p99.factor}")


def judge(result: Mapping[str, Any]) -> list[Impact]:
    """The impacts of a launch of the kernel congestion: one per victim and aggressor, in the order
    of the kernel; none where nothing was measured."""
    details = (result.get("details") or {}).get(KERNEL)
    if not details:
        return []
    victims: dict[str, dict[str, dict[int, Any]]] = defaultdict(lambda: defaultdict(dict))
    for window in details["windows"]:
        victims[window["victim"]][window["window"]][window["cycle"]] = window
    alone = victims.pop(ALONE, {})
    # Nodes that share cores disturb each other without a network.
    taken = disturbed(result)
    withheld = Disturbed(fraction=taken) if taken > LIMITS.disturbed_launch else None
    return [
        _impact((details["place"], victim, aggressor), windows, alone, withheld)
        for victim, windows in victims.items()
        for aggressor in windows
        if aggressor not in (QUIET, AGAIN)
    ]


def _impact(
    name: tuple[str, str, str], windows: Windows, alone: Windows, withheld: Reason | None
) -> Impact:
    """The impact of an aggressor; `name`: place, victim, aggressor."""
    aggressor = name[-1]
    loaded, free = windows[aggressor], alone.get(aggressor, {})
    loads = [loaded[c]["load"] / free[c]["load"] for c in loaded if c in free and free[c]["load"]]
    load = float(np.median(loads)) if loads else None
    means, tails = (_ratios(windows, aggressor, value) for value in ("mean", "p99"))
    quiet = estimate(_ratios(windows, AGAIN, "mean")).value
    if withheld:
        pass
    elif len(means) < LIMITS.impact_cycles:
        needed = f"{LIMITS.impact_cycles} are needed"
        withheld = Text(f"{len(means)} cycles were measured; {needed}")
    elif not 1 - LIMITS.impact_quiet <= quiet <= 1 + LIMITS.impact_quiet:
        slow = f"the second took {quiet:.2f} of the time of the first"
        withheld = Text(f"quiet twice, {slow}")
    elif load is None:
        withheld = Text("the aggressor was not measured alone")
    elif load < LIMITS.impact_load:
        withheld = Text(f"the aggressor moved {load:.0%} of its bytes alone")
    return Impact(*name, estimate(means), estimate(tails), load, withheld)


def _ratios(windows: Windows, loaded: str, name: str) -> np.ndarray:
    quiet = {cycle: window[name] for cycle, window in windows.get(QUIET, {}).items()}
    values = {cycle: window[name] for cycle, window in windows.get(loaded, {}).items()}
    return np.array([v / quiet[c] for c, v in values.items() if v and quiet.get(c)])
