"""What runs inside ReFrame: `from bisection.rfm import KernelCheck, Launch`.

Loaded on use: other packages take the names of scheduler faults from here, and ReFrame is slow to
import.
"""

from typing import Any

__all__ = ["Build", "KernelCheck", "Launch", "fail", "references", "switches"]


def __getattr__(name: str) -> Any:
    if name == "KernelCheck":
        from bisection.rfm.check import KernelCheck

        return KernelCheck
    if name in ("Build", "Launch", "fail"):
        from bisection.rfm import launch

        return getattr(launch, name)
    raise AttributeError(name)
