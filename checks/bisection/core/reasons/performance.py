"""Results of comparisons with earlier sessions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bisection.core.format import amount, change, duration, number, plural, size_of, some, utc
from bisection.core.identity import IDENTITY
from bisection.core.reasons.base import Reason, Text

NAMED = 4  # checks that are named

# A fact that changed: what, before, after; and with the odds that it is the cause of an event.
Fact = tuple[str, str, str]
Candidate = tuple[str, str, str, float]
# A check, how many of its metrics changed, of how many, the one that changed most; the least, the
# median and the largest new cost over old. A drift has neither of the last two.
CheckChanged = tuple[str, int, int, str, tuple[float, ...]]


def nights(first: float, at: float, last: float) -> str:
    begin, day, end = (utc(time)[:10] for time in (first, at, last))
    return day if begin == end else f"{day} ({begin} to {end})"


def what_changed(checks: Sequence[CheckChanged]) -> str:
    """The metrics of each check that changed, and by how much."""
    texts = []
    for name, count, of, most, sizes in checks[:NAMED]:
        who = f"{'all' if count == of > 1 else f'{count} of'} {plural(of, 'metric')} of {name}"
        who = most if most and count == 1 else who
        texts.append(f"{who} by {_sizes(*sizes)}" if sizes else who)
    if rest := [count for _, count, *_ in checks[NAMED:]]:
        texts.append(f"{plural(sum(rest), 'metric')} of {plural(len(rest), 'more check')}")
    return "; ".join(texts)


def _sizes(*costs: float) -> str:
    """The median of changes of cost, with the least and the largest."""
    low, middle, high = (f"{x:.3g}" if costs[-1] >= 2 else f"{abs(x - 1):.0%}" for x in costs)
    text = middle if "%" in middle else f"a factor of {middle}"
    return text + (f" ({low} to {high})" if low != high else "")


def fact(what: str, before: str, after: str) -> str:
    return f"{what}: {before} -> {after}"


def changed_then(changes: Sequence[Fact], candidates: Sequence[Candidate]) -> str:
    """Returns what of the environment changed with an event, or may have, with its odds."""
    if changes:
        return f"changed then: {'; '.join(fact(*each) for each in changes)}"
    if candidates:
        return "perhaps " + " or ".join(f"{fact(*c[:3])} ({c[3]:.0%})" for c in candidates)
    return "nothing recorded changed then"


NOT_RETESTED = {
    "failed": "not retested: the run failed",
    "off": "not retested (--retest 0)",
    "unmeasured": "the retest did not measure it",
    "budget": "not retested: a launch takes {longest}, the budget is {budget} (--retest)",
}


def not_retested(why: str, seconds: float, budget: float) -> str:
    """Why outliers were not retested: `why` and `budget` of their reason, `seconds` of the longest
    launch."""
    return NOT_RETESTED[why].format(longest=duration(seconds), budget=duration(budget))


# ---- a run beside earlier sessions ----


@dataclass(frozen=True, kw_only=True)
class MetricMoved(Reason):
    """A metric beside those of earlier sessions."""

    system: str
    partition: str
    environ: str
    check: str
    case: str
    layout: str
    method: str
    metric: str
    unit: str
    before: float | None
    after: float | None
    factor: float  # how many times slower, also of a rate
    sessions: int  # earlier ones
    nodes: tuple[str, ...] = ()  # to which it is bound
    rerun: float | None = None  # the value in the retest

    @property
    def key(self) -> tuple[str, ...]:
        """The identity of the metric of the test: eight words."""
        return tuple(getattr(self, name) for name in (*IDENTITY, "metric"))

    @property
    def sides(self) -> str:
        """The metric of the test, before and after."""
        test = (self.check, self.case, self.layout, self.method, self.metric)
        before, after = (amount(side, self.unit) for side in (self.before, self.after))
        return f"{' '.join(filter(None, test))}: {before} -> {after}"

    def words(self) -> str:
        rerun = f", {amount(self.rerun, self.unit)} in the retest" if self.rerun else ""
        nodes = f", on {some(self.nodes, 3)} and not on others" if self.nodes else ""
        than = f"times slower than in all of {plural(self.sessions, 'earlier session')}"
        return f"{self.sides}{rerun}; {number(self.factor)} {than}{nodes}"


class Slower(MetricMoved):
    code = "SLOWER"


@dataclass(frozen=True, kw_only=True)
class Outlier(MetricMoved):
    code = "OUTLIER"
    why: str  # failed, off, budget or unmeasured
    seconds: float  # of its launch
    budget: float


@dataclass(frozen=True, kw_only=True)
class WorseSince(Reason):
    code = "WORSE_SINCE"
    session: str
    at: float  # Unix time
    first: float  # when it may have begun
    last: float
    where: str  # system:partition
    nights: int  # since it began
    raised: float  # Unix time of the session that first was an alarm
    is_new: bool  # that session is the newest
    worse: int  # metrics
    checks: tuple[CheckChanged, ...]
    changes: tuple[Fact, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    compare: str = ""  # command
    rerun: str = ""  # command
    accept: str = ""  # command

    def words(self) -> str:
        news = "new tonight: " if self.is_new else ""
        known = f", alarm since {utc(self.raised)[:10]}" if self.raised and not self.is_new else ""
        since = f"{nights(self.first, self.at, self.last)}, {plural(self.nights, 'night')}{known}"
        where = f"on {self.where}, session {self.session[:8]}"
        causes = changed_then(self.changes, self.candidates)
        return f"{news}worse since {since}, {where}: {what_changed(self.checks)}; {causes}"


@dataclass(frozen=True, kw_only=True)
class SlowNode(Reason):
    code = "SLOW_NODE"
    nodes: tuple[str, ...]  # one; or several that are not told apart, of which one is slow
    jobs: int
    ratio: float | None = None
    where: str = ""  # system:partition
    always: bool = True  # they ran together in all launches

    @property
    def longer(self) -> str:
        """How much longer jobs took on it."""
        more = f"{self.ratio - 1:.0%} longer" if self.ratio is not None else "longer"
        on = "them" if self.nodes[1:] else "it"
        return f"{plural(self.jobs, 'job')} on {on} took {more} than the others"

    def words(self) -> str:
        where = f" ({self.where})" if self.where else ""
        if not self.nodes[1:]:
            return f"node {self.nodes[0]}{where}: {self.longer}"
        apart = "always ran together" if self.always else "ran together too often to tell"
        return f"one of {some(self.nodes, 16)}{where}, which {apart}: {self.longer}"


@dataclass(frozen=True, kw_only=True)
class FactChanged(Reason):
    """A fact changed since the last session."""

    code = "CHANGED"
    what: str
    before: str
    after: str
    since: float  # Unix time

    def words(self) -> str:
        return fact(self.what, self.before, self.after)


# ---- a comparison ----


# Why metrics are inconclusive, as they are counted.
TOO_FEW, NOISE, TWO_STATES = "too few nights", "noise", "two states"
OTHERS_MOVE, SMALL = "unchanged metrics that move as much", "a change below the margin"


@dataclass(frozen=True)
class Inconclusive(Text):
    """Why the numbers of a metric give no verdict."""

    code = "INCONCLUSIVE"
    group: str = "other reasons"
    sigma: float = 0.0  # standard deviation of the logarithm between nights, if it is known


@dataclass(frozen=True, kw_only=True)
class TwoStates(Reason):
    code = "TWO_STATES"
    group: ClassVar[str] = TWO_STATES
    gap: float  # a ratio
    before: float  # fractions of nights in the slower state
    after: float

    def words(self) -> str:
        nights = f"{self.before:.0%} of nights before, {self.after:.0%} after"
        return f"two states, 1.0 and {self.gap:.2f}: in the slower one {nights}"


class AfterChange(Text):
    """Continues a sentence that begins with the change itself."""

    code = "AFTER_CHANGE"


@dataclass(frozen=True, kw_only=True)
class Unlike(Reason):
    code = "UNLIKE"
    what: str  # unit, geometry, direction or work
    values: tuple[str, ...]

    def words(self) -> str:
        return f"not to be compared, by its {self.what}: {some(self.values)}"


@dataclass(frozen=True, kw_only=True)
class JobsLost(Reason):
    code = "JOBS_LOST"
    failed: bool  # else they could not be used
    count: int
    of: int  # jobs after
    cause: Reason | None

    def words(self) -> str:
        how = "failed" if self.failed else "could not be used"
        return f"{self.count} of {self.of} jobs after {how}: {self.cause or 'no cause is known'}"


@dataclass(frozen=True, kw_only=True)
class SharedChange(Reason):
    """A change that many metrics share."""

    code = "SHARED"
    place: str  # system:partition
    ratio: float  # of times
    low: float
    high: float
    metrics: int
    of: int
    kernel: str = ""  # "": all
    controls: str = ""  # moved | still

    def words(self) -> str:
        count = f"all {self.of}" if self.metrics == self.of else f"{self.metrics} of {self.of}"
        ends = {"moved": ", and so are the cores alone", "still": "; the cores alone are as before"}
        who = f"{count} metrics{f' of {self.kernel}' if self.kernel else ''} on {self.place}"
        moved = change("s", "lower", self.ratio, self.low, self.high)
        return f"{who} are together {moved}{ends.get(self.controls, '')}"


@dataclass(frozen=True)
class Excluded(Reason):
    code = "EXCLUDED"
    sessions: tuple[str, ...]

    def words(self) -> str:
        return f"excluded sessions left out: {some(self.sessions)}"


@dataclass(frozen=True, kw_only=True)
class OtherReleases(Reason):
    code = "OTHER_RELEASES"
    releases: tuple[str, ...]  # of the sessions
    changes: int  # between them that may change verdicts

    def words(self) -> str:
        listed = f"CHANGELOG.md lists {plural(self.changes, 'change')} between them"
        return f"sessions of releases {some(self.releases)}: {listed} that may change verdicts"


@dataclass(frozen=True, kw_only=True)
class NetworkExplains(Reason):
    """What explains that a code got slower; points are fractions of its time."""

    code = "NETWORK_EXPLAINS"
    cause: str  # pattern | message | latency | bandwidth
    change: float
    method: str
    size: float
    points: float
    within: tuple[float, float]
    of: float

    def words(self) -> str:
        size, more = size_of(self.size), " (more than single messages)"
        of_size = {"message": f"single messages of {size}", "pattern": f"{self.method} at {size}"}
        name = of_size.get(self.cause, self.cause)
        low, high = (f"{100 * end:.0f}" for end in self.within)
        part = f"{100 * self.points:.0f}" + (f" [{low}, {high}]" if low != high else "")
        more = more if self.cause == "pattern" else ""
        return (
            f"{name} {100 * self.change:+.0f}%{more} explains {part} of {100 * self.of:.0f} points"
        )
