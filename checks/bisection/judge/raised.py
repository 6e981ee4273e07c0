"""Since which night the alarms of a history are known."""

from collections.abc import Sequence
from functools import cache

from bisection.analysis.events import events_of
from bisection.analysis.histories import History
from bisection.analysis.model import Event
from bisection.analysis.night_tables import tables_of
from bisection.core.thresholds import LIMITS
from bisection.store.database import Session


def note_raised(
    events: Sequence[Event],
    series: Sequence[History],
    sessions: Sequence[Session],
    false_alarms: float = LIMITS.false_alarms,
) -> None:
    """Sets `raised` of the alarms among the events of these sessions, which are in order of time.

    An alarm is new if the sessions before the newest do not have it: neither all, nor the last
    ones, by which the run before was judged. Else the session that raised it is searched for by
    halves, in the histories that the runs then were judged by.
    """

    @cache
    def alarms(first: int, count: int) -> list[Event]:
        tables = tables_of([each.cut(first, count) for each in series], sessions[first:count])
        return [event for event in events_of(tables, false_alarms)[0] if event.alarm]

    def has(event: Event, count: int, most: int = LIMITS.history_sessions) -> bool:
        """True if the last sessions, `most`, of so many have this alarm."""
        return any(_is_same(other, event) for other in alarms(max(0, count - most), count))

    newest = len(sessions)
    for event in (event for event in events if event.alarm):
        low, high = newest - 1, newest  # sessions with which it is no alarm, and is one
        if has(event, newest - 1) or has(event, newest - 1, newest):
            low = newest - len(event.after)
            high = min(newest - 1, low + LIMITS.history_sessions)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if has(event, middle) else (middle, high)
        event.raised = sessions[high - 1].start


def _is_same(one: Event, other: Event) -> bool:
    """True if an event is one of another history too: of the same metrics, at the same time."""
    keys = ({point.key for point in event.worse} for event in (one, other))
    return bool(set.intersection(*keys)) and one.first <= other.last and other.first <= one.last
