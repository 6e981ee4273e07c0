"""What of a network explains a slower code."""

from dataclasses import dataclass

from bisection.core.format import size_of
from bisection.core.reasons.base import Reason


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
