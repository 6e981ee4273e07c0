"""Since which night the alarms of a history are known."""

from collections.abc import Sequence

from bisection.analysis.events import events_of, tables_of
from bisection.analysis.histories import History
from bisection.analysis.model import Event
from bisection.core.thresholds import LIMITS
from bisection.store.database import Session


def note_raised(
    events: Sequence[Event],
    series: Sequence[History],
    sessions: Sequence[Session],
    false_alarms: float = LIMITS.false_alarms,
) -> None:
    """Sets `raised` of the alarms among the events of these sessions, which are in order of time.

    An alarm is new if the history without the newest session does not have it. Else the session
    that raised it is searched for by halves, as if it stood since then.
    """
    known: dict[int, list[Event]] = {}

    def has(count: int, event: Event) -> bool:
        """True if the history of the first sessions has this alarm."""
        if count not in known:
            earlier = [history.until(count) for history in series]
            tables = tables_of([each for each in earlier if len(each.values)], sessions[:count])
            known[count] = events_of(tables, false_alarms)[0]
        return any(other.alarm and _is_same(other, event) for other in known[count])

    last = len(sessions)
    for event in (event for event in events if event.alarm):
        low, high = last - len(event.after), last  # sessions with which it is no alarm, and is one
        if not has(last - 1, event):
            low = last - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if has(middle, event) else (middle, high)
        event.raised = sessions[high - 1].start


def _is_same(one: Event, other: Event) -> bool:
    """True if two histories of the same metrics have the same event: where and when it began."""
    place = one.system, one.partition, one.environ
    when = one.first <= other.last and other.first <= one.last
    points = {point.key for point in one.worse} & {point.key for point in other.worse}
    return when and place == (other.system, other.partition, other.environ) and bool(points)
