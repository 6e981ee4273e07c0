"""Launches on devices that are none: see fake_device.h, fake_runtime.c and aware_mpi.c."""

import os
from pathlib import Path

from kernel_run import Outcome, run

FOLDER = Path(os.environ.get("BX_FAKE_DEVICE", "."))
ORDERS = ("late", "early", "1", "2")  # of work on a device: each shows other faults


def launch(
    executable: str,
    ranks: int,
    *arguments: str,
    runtime: str = "cuda",
    aware: bool = True,
    loaded: str = "",
    **environment: str,
) -> Outcome:
    """With a fake runtime: cuda, hip, hip5, or none at all.

    `aware` makes MPI take its addresses; `loaded` is a runtime that MPI has loaded before.
    """
    preload = [str(FOLDER / "libaware.so")] if aware else []
    preload += [str(path) for path in (FOLDER / loaded).glob("lib*") if loaded]
    folders = [str(FOLDER / runtime), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    words = (f"LD_LIBRARY_PATH={':'.join(folders)}", f"LD_PRELOAD={':'.join(preload)}")
    return run("env", ranks, *words, executable, *arguments, **environment)
