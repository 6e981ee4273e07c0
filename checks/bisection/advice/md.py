"""How many ranks per node and threads per rank for molecular dynamics.

Each launch beside the best on as many cores, and what figures 4 to 9 of Chorley and Walker
(2010) show: bytes, communication, barriers, collectives, point-to-point; and the loops of figures
10 and 11.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bisection.advice.sources import Launched, Trial, circumstances
from bisection.kernels import results
from bisection.kernels.local import Estimate
from bisection.kernels.results import Result

SHARES = (
    "p2p",
    "collective",
    "barrier",
    "communication",
    "fork_join",
    "two_body_forces",
    "metal_ld_compute",
    "tersoff_forces",
)


@dataclass
class LayoutRun(Launched):
    """One launch, in seconds, bytes and messages per time step."""

    time: Estimate  # with quartiles
    rate: float  # atom-steps/s
    bytes_per_rank: float
    bytes: float
    messages: float
    seconds: dict[str, float]  # of SHARES, mean over ranks

    @property
    def layout(self) -> str:
        """Ranks x threads."""
        return f"{self.ranks}x{self.threads}"


def layout_run(result: Result) -> LayoutRun | None:
    """The LayoutRun of a result, of its packed method; None if that was not measured."""
    packed = results.of_method(result, "packed")[0]
    if not packed["applicable"] or results.failed_checks(packed):
        return None
    metrics = packed["metrics"]
    values = {name: metric["value"] for name, metric in metrics.items()}
    return LayoutRun(
        **circumstances(result),
        time=Estimate(*(metrics["time"][part] for part in ("value", "low", "high"))),
        rate=values["atom_steps"],
        **{name: values[name] for name in ("bytes_per_rank", "bytes", "messages")},
        seconds={name: values[f"{name}_share"] * values["time"] for name in SHARES},
    )


def trials(cores: int) -> Iterator[Trial]:
    """Every split of so many cores into ranks and threads."""
    for threads in range(1, cores + 1):
        if cores % threads == 0:
            yield cores // threads, threads, "packed"


def best_alike(runs: Sequence[LayoutRun], run: LayoutRun) -> LayoutRun:
    """The fastest of the same case on as many cores of the same place, whatever its threads."""
    alike = [
        other
        for other in runs
        if (other.case, other.cores, other.hosts, other.where)
        == (run.case, run.cores, run.hosts, run.where)
    ]
    return min(alike, key=lambda other: other.time.value)


def layout_times(runs: Sequence[LayoutRun]) -> dict[tuple[str, str], dict[int, dict[str, float]]]:
    """Returns what can be compared: several layouts on as many cores, one of them with one rank per
    core.

    Returns:
        (case, place) -> cores -> layout -> seconds, as `sources.crossover` takes it.
    """
    times: dict[tuple[str, str], dict[int, dict[str, float]]] = {}
    for run in runs:
        by_layout = times.setdefault((run.case, run.where), {}).setdefault(run.cores, {})
        by_layout["mpi" if run.threads == 1 else run.layout] = run.time.value
    return {
        key: {cores: by for cores, by in by_cores.items() if len(by) > 1 and "mpi" in by}
        for key, by_cores in times.items()
    }
