"""The same tests with buffers in memory of devices, on partitions whose site file lists devices.

Where no partition of the system has any, there are no such tests. A kernel whose table has
BX_COMM_BUFFER_OPTIONS is added by a call of `on_devices` below its check.
"""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import reframe as rfm
from reframe.core.builtins import fixture, parameter
from reframe.core.meta import make_test
from reframe.core.runtime import runtime

from bisection.kernels.layouts import BUFFERS, ON_DEVICES, devices_of
from bisection.rfm.check import KernelCheck
from bisection.rfm.launch import SIMULATED, Launch


def on_devices(
    check: type[KernelCheck],
    launch: type[Launch],
    *,
    refused: Mapping[str, Iterable[str]] | None = None,
    metrics: Sequence[str] | None = None,
    asserted: Sequence[str] | None = None,
    tiers: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
    **launch_values: Any,
) -> None:
    """Adds tests CHECK_host, CHECK_staged and CHECK_device for each test of a check.

    Each has a layout of its own, with one rank per device. Those of the host are measured with
    these ranks, too: ratios are of like with like.

    Args:
        check, launch: the check, and the launch that is its fixture.
        refused: buffers -> methods that the kernel refuses with them, which are not applicable.
        metrics, asserted: in place of the check's, where the kernel lacks some on devices.
        tiers: in place of the check's.
        launch_values: what the launches have in place of those of `launch`.
    """
    for buffers, layout in zip(BUFFERS, ON_DEVICES, strict=True):
        places = _places(buffers)
        if not places:
            continue
        module, suffix = check.__module__, f"_{buffers}"
        values = {"layout": parameter([layout]), "buffers": buffers, **launch_values}
        own = make_test(launch.__name__ + suffix, (launch,), values, module=module)
        given = check.tiers if tiers is None else tiers
        changed = {"metrics": metrics, "asserted": asserted}
        away = [*check.inapplicable, *(refused or {}).get(buffers, ())]
        body = {
            "launch": fixture(own, scope="environment"),
            "valid_systems": places,
            "tiers": {tier: _without_layout(wanted) for tier, wanted in given.items()},
            "inapplicable": {method: [layout] for method in away},
            **{name: [*names] for name, names in changed.items() if names is not None},
            "__doc__": f"{inspect.getdoc(check)} ({buffers} memory)",
        }
        rfm.simple_test(make_test(check.__name__ + suffix, (check,), body, module=module))


def where_devices(check: type[KernelCheck]) -> type[KernelCheck]:
    """Decorates a check of devices alone: it is a test on partitions that have some."""
    places = _places()
    if places:
        check.valid_systems = places
        rfm.simple_test(check)
    return check


def _places(buffers: str = "") -> list[str]:
    """The partitions with devices that are measured with these buffers; "": with any."""
    return [
        partition.fullname
        for partition in runtime().system.partitions
        if devices_of(partition)
        and SIMULATED not in partition.features
        and buffers in ("", *partition.extras.get("buffers", BUFFERS))
    ]


def _without_layout(wanted: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {name: [*values] for name, values in wanted.items() if name != "layout"}
