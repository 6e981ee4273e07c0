"""One verdict per method of a launch, and the references that apply to it.

ReFrame reads references and compares. Those that it lets pass in silence are rejected here.
"""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import reframe as rfm
import reframe.utility.sanity as sn
import reframe.utility.typecheck as typ
from reframe.core.builtins import parameter, run_after, run_before, sanity_function, variable
from reframe.core.exceptions import PerformanceError, ReferenceParseError

from bisection.core import reference_files
from bisection.core.format import some
from bisection.core.identity import is_ratio_to_itself
from bisection.core.reasons.base import Reason, Text
from bisection.core.reasons.launches import WrongAnswer
from bisection.core.units import KIND_OF_UNIT
from bisection.kernels import results
from bisection.kernels.layouts import ON_DEVICES
from bisection.kernels.results import ResultError
from bisection.rfm import internals, queue
from bisection.rfm.launch import Reporting, environments


class KernelCheck(rfm.RunOnlyRegressionTest, Reporting):
    """Judges one method of a launch: it ran, was verified, and each metric is within its bounds.

    A subclass gives `launch`, a fixture of a Launch, `method`, a parameter, and what to assert.
    """

    valid_systems = ["*"]
    valid_prog_environs = environments()
    executable = "true"
    local = True

    method = parameter(loggable=True)
    # What every method must report (at every point of a sweep), and which of it must have a
    # reference where the partition claims references of that kind.
    metrics = variable(typ.List[str], value=["time"])
    asserted = variable(typ.List[str])
    points = variable(typ.List[str], value=[])  # labels of the points of a sweep
    # Tier -> attribute -> values: a test is in the tier if each attribute has one of its values.
    # The tier `upgrade` has all tests.
    tiers = variable(typ.Dict[str, typ.Dict[str, typ.List[str]]], value={})
    # Methods that cannot run in some layout: they are reported as such; any other is a failure.
    inapplicable = variable(typ.Dict[str, typ.List[str]], value={})

    kernel = variable(str, value="", loggable=True)
    case = variable(str, value="", loggable=True)
    layout = variable(str, value="", loggable=True)
    spot = variable(int, value=-1, loggable=True)  # see Launch
    higher = variable(typ.List[str], value=[], loggable=True)  # metrics that are better so

    @run_after("init")
    def join_tiers(self) -> None:
        """Takes over the case and the layout of the launch; is tagged with the tiers it is in."""
        fixtures = type(self).get_variant_info(self.variant_num, recurse=True)["fixtures"]
        launch = fixtures["launch"]["params"]
        self.case, self.layout = launch["case"], launch["layout"]
        if queue.spots:
            self.spot = launch["spot"]
            least = type(self).fixture_space["launch"].cls.least_nodes
            self.valid_systems = [queue.spots[self.spot][0]] if queue.fits(self.spot, least) else []
        self.tags |= {"upgrade"}
        for tier, wanted in self.tiers.items():
            if all(getattr(self, name) in values for name, values in wanted.items()):
                self.tags |= {tier}

    @property
    def geometry(self) -> str:
        return self.launch.record.geometry

    @sanity_function
    def verified(self) -> bool:
        """True if the method ran and is right; keeps its metrics, {name: metric}, in `reported`."""
        try:
            entries = results.of_method(self.launch.result, self.method)
        except ResultError as error:
            self.fail_for(Text(str(error)))
        refused = "; ".join(sorted({entry["why"] for entry in entries if not entry["applicable"]}))
        lacks = any(entry["lacks_library"] for entry in entries)  # in any layout
        if refused and (lacks or self.layout in self.inapplicable.get(self.method, [])):
            self.skip_for(Text(refused))
        if refused:
            self.fail_for(Text(f"{self.method} did not run: {refused}"))
        for entry in entries:
            if checks := results.failed_checks(entry):
                point = results.point_label(entry.get("point"))
                self.fail_for(WrongAnswer(method=self.method, point=point, checks=tuple(checks)))
        self.reported = results.metrics(entries)
        wanted = dict.fromkeys(self._at_points([*self.metrics, *self._judged()]))
        self.require_metrics(name for name in wanted if name not in self.reported)
        faults = {name: results.unusable(metric) for name, metric in self.reported.items()}
        if bad := [f"{name} {fault}" for name, fault in faults.items() if fault]:
            self.fail_for(Text(f"metric of {self.method}: {'; '.join(bad)}"))
        return True

    def require_metrics(self, missing: Iterable[str]) -> None:
        """Fails the test if a metric is missing."""
        if names := [*missing]:
            self.fail_for(Text(f"metric missing from {self.method}: {some(names)}"))

    def _judged(self) -> list[str]:
        """The metrics asserted of this method; its ratio to itself could not fail."""
        return [name for name in self.asserted if not is_ratio_to_itself(name, self.method)]

    def _at_points(self, metrics: list[str]) -> list[str]:
        points = [f"_{point}" for point in self.points] or [""]
        return [f"{metric}{point}" for metric in metrics for point in points]

    @run_before("performance")
    def declare_metrics(self) -> None:
        """Hands the metrics to ReFrame, with their references."""
        if self.is_dry_run():
            return
        if not self.strict_check:
            self.fail_for(Text("strict_check is off: a slow method would pass"))
        self.perf_variables = {
            name: sn.make_performance_function(sn.defer(metric["value"]), metric["unit"])
            for name, metric in self.reported.items()
        }
        self.higher = [n for n, metric in self.reported.items() if metric["better"] == "higher"]
        if fault := self._take_references():
            self.fail_for(fault, PerformanceError)

    @run_after("performance")
    def require_references(self) -> None:
        """Fails if the partition claims references and there is none for what is asserted.

        A method that was added since is not judged, and a note says so.
        """
        # After the values are recorded: a site without references must see what it could write.
        claimed = self.current_partition.extras.get("references", [])
        if self.is_dry_run() or not claimed:
            return
        place, file = self.current_partition.fullname, self._reference_file
        if not os.path.exists(file):
            claim = f"{place} claims references of kind {some(claimed)}"
            self.fail_for(Text(f"{claim}, and there is no {file}"), PerformanceError)
        kinds = {name: KIND_OF_UNIT.get(m["unit"]) for name, m in self.reported.items()}
        wanted = [name for name in self._at_points(self._judged()) if kinds[name] in claimed]
        applying = references_of(self)
        missing = [name for name in wanted if name not in applying]
        if missing and self._is_of_new_method():
            self.add_remark(Text(reference_files.not_judged(self.method, place, file, missing)))
        elif missing:
            lacks = f"no reference on {place} in {file} for {some(missing)}"
            self.fail_for(Text(lacks), PerformanceError)

    def _take_references(self) -> Reason | None:
        """Takes the references of the system, if there are any. Returns why they cannot be used.

        By none of them may nothing, or anything, pass: each needs finite bounds on both sides, the
        lower one above zero (a failed measurement is often a zero), and a metric that was measured.
        """
        file = self._reference_file
        if os.path.exists(file):
            try:
                self.reference = {"$ref": file}
            except (ReferenceParseError, OSError, TypeError, ValueError, AttributeError) as error:
                return Text(f"cannot read references in {file}: {error}")
        wrong, where = [], f"on {self.current_partition.fullname} in {file}"
        for name, reference in references_of(self).items():
            if name not in self.reported:
                wrong.append(f"{name} has a reference {where}, but is no metric of this check")
            else:
                wrong += [f"{name}: {fault} {where}" for fault in reference_files.faults(reference)]
        return Text("; ".join(wrong)) if wrong else None

    @property
    def _reference_file(self) -> str:
        return str(reference_files.path(self.current_system.name))

    def _is_of_new_method(self) -> bool:
        """True if the test's place has references of other methods, and none of its own; or the
        check has none at all, and is one of bisection.rfm.buffers."""
        reference: Any = self.reference  # ReFrame makes an object of what it is set to
        index = list(reference.index or ())
        if not index:  # a site that gets devices has no references of these tests yet
            return self.layout in ON_DEVICES
        partition, case = self.current_partition, {}
        special = {
            "$system": self.current_system.name,
            "$partition": partition.fullname,
            "$environ": self.current_environ.name,
        }
        for name in index:
            owner, _, key = name.rpartition(".")
            source = partition.processor if owner == "$processor" else self
            case[name] = special.get(name) or getattr(source, key or name, None)
        others = [name for name in type(self).raw_params["method"].values if name != self.method]
        return reference_files.is_new_method({**reference.data, "$index": index}, case, others)


if queue.spots:  # each test is made once per launch: only those of the tier
    internals.make_only_kinds(lambda kind: queue.TIER in getattr(kind, "tiers", {}))


def references_of(test: Any) -> dict[str, Sequence[Any]]:
    """The references that apply to a test: metric -> (value, lower, upper), bounds as fractions."""
    try:
        applying = test.reference[test] if test.reference else {}
    except (KeyError, ValueError):
        return {}
    return {name: getattr(reference, "data", reference) for name, reference in applying.items()}
