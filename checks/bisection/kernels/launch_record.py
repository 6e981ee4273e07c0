"""launch.json: what a launch was, ran on and measured beside its methods.

The launch writes it (rfm/launch.py), and hands it to ReFrame for its report. The judge, the store
and verdict.json have it from there. A new fact is a field of LaunchRecord, set in `with_result`.
"""

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bisection.core.reasons import known_fields
from bisection.core.reasons.base import Reason, as_data
from bisection.core.reasons.launches import (
    Bounds,
    Disturbed,
    OutOfBounds,
    Starved,
    Stopped,
)
from bisection.core.reasons.machines import HostFault
from bisection.kernels import adapters, results

FILE = "launch.json"  # in the folder of the launch


def _places(method: str, names: Iterable[str]) -> list[str]:
    """Where metrics of a method were measured (results.at_point); of a sweep they end with a point:
    time_8B."""
    return [method, *(f"{method}_{name.rpartition('_')[2]}" for name in names)]


@dataclass(frozen=True)
class LaunchRecord:
    """The facts of one launch; what is not known has the default."""

    kernel: str = ""  # "" of a build
    geometry: str = ""  # 2x8x1: nodes, ranks per node, threads per rank
    work: str | None = None  # options that state what is computed; None: not recorded
    built_with: str = ""  # compiler, MPI library and libraries
    exit_code: int | None = None  # of the kernel
    hosts: tuple[str, ...] = ()
    # That its job held them, without the queue; of a test of several launches, of each.
    seconds: tuple[float, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)  # what may explain a change of its times
    disturbed: float = 0.0  # fraction of samples in which other processes took a core
    waited: float = 0.0  # fraction of the time of samples in which a thread had no core
    stopped: Stopped | Starved | None = None  # what stopped its processes; all is disturbed
    controls: Mapping[str, float] = field(default_factory=dict)  # "clock" (GHz); baselines (s)
    slowest: str = ""  # the host that the clock is of
    wrong: tuple[str, ...] = ()  # methods that gave a wrong answer
    # By method, of a sweep with its point (results.at_point): the skew of starts, in steps, where
    # it is not small; who was last, in words.
    skewed: Mapping[str, float] = field(default_factory=dict)
    last: Mapping[str, str] = field(default_factory=dict)
    # Faulty adapters, by the result; what libraries warned of; slow hosts, once they are judged.
    host_faults: tuple[HostFault, ...] = ()

    def with_result(
        self, result: results.Result, claimed: Sequence[str], notes: Iterable[HostFault] = ()
    ) -> "LaunchRecord":
        """Returns the record with what the kernel recorded, and with what libraries warned of;
        `claimed` are the network devices that the site file names for the partition."""
        build = result["build"]
        libraries = [f"{name} {version}" for name, version in build["libraries"].items()]
        controls, slowest = results.controls(result)
        stopped = results.stopped(result)
        return replace(
            self,
            built_with="; ".join([build["compiler"], build["mpi"], *libraries]),
            hosts=tuple(results.hosts(result)),
            facts={**self.facts, **results.facts(result)},
            disturbed=1.0 if stopped else results.disturbed(result),
            waited=results.waited(result),
            stopped=stopped,
            controls=controls,
            slowest=slowest,
            wrong=tuple(results.wrong_methods(result)),
            skewed=results.skews(result),
            last=results.last_ranks(result),
            host_faults=(*adapters.faults(result, claimed), *notes),
        )

    @property
    def lost_part(self) -> float:
        """The part that other processes disturbed: of the samples, or of their time."""
        return max(self.disturbed, self.waited)

    @property
    def lost(self) -> Reason:
        """What its measurement was lost to."""
        parts = round(self.disturbed, 4), round(self.waited, 4)
        return self.stopped or Disturbed(fraction=parts[0], waited=parts[1])

    def beyond(self, method: str, metrics: Sequence[Bounds]) -> OutOfBounds:
        """Why metrics of a method are beyond their limits: with who was last, and the skew."""
        names = [str(name) for name, *_ in metrics]
        last = next(
            filter(None, (self.last.get(place, "") for place in _places(method, names))), ""
        )
        return OutOfBounds(metrics=tuple(metrics), skew=self.skew(method, names), last=last)

    def skew(self, method: str, names: Iterable[str]) -> float:
        """The largest skew of starts behind these metrics of a method; 0 where it is small."""
        return round(max(self.skewed.get(place, 0.0) for place in _places(method, names)), 3)

    def write(self, folder: Path | str) -> None:
        """Writes launch.json into the folder of the launch; a full disk is a fault of its own."""
        with contextlib.suppress(OSError):
            Path(folder, FILE).write_text(json.dumps(as_data(self), indent=1) + "\n")

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> "LaunchRecord":
        """Returns the record that was stored as JSON, without unknown fields."""
        record = cls(**known_fields(cls, stored))
        known = tuple(fault for fault in record.host_faults if isinstance(fault, HostFault))
        stopped = record.stopped if isinstance(record.stopped, (Stopped, Starved)) else None
        return replace(record, host_faults=known, stopped=stopped)
