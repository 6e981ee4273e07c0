"""What of the network explains a code, in English."""

from collections.abc import Mapping
from typing import Any

from bisection.core.format import size_of, some
from bisection.core.reasons import Code

Values = Mapping[str, Any]


def _change(v: Values) -> str:
    """latency +180%; alltoallv at 4 KiB +60%, single messages as before."""
    size = size_of(v["size"])
    of_size = {"message": f"single messages of {size}", "pattern": f"{v['method']} at {size}"}
    name = of_size.get(v["cause"], v["cause"])
    text = f"{name} {100 * v['change']:+.0f}%"
    return text + " (more than single messages)" * (v["cause"] == "pattern")


def _points(fraction: float) -> str:
    """Percentage points without their unit."""
    return f"{100 * fraction:.0f}"


def _explains(v: Values) -> str:
    low, high = _points(v["low"]), _points(v["high"])
    between = f" [{low}, {high}]" if low != high else ""
    return f"{_change(v)} explains {_points(v['points'])}{between} of {_points(v['of'])} points"


def _nothing(v: Values) -> str:
    names = some([f"{method} at {size_of(size)}" for method, size in v["patterns"]], 4)
    return (
        f"the network does not explain it: {names}, {v['fraction']:.0%} of the time, gives "
        f"{_points(max(0.0, v['points']))} of {_points(v['of'])} points"
    )


EXPLAIN = {Code.NETWORK_EXPLAINS: _explains, Code.NETWORK_EXPLAINS_NOTHING: _nothing}
