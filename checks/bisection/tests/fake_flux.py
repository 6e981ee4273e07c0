#!/usr/bin/env python3
"""Stands in for Flux: its command `flux`, and the module flux.job of its Python bindings.

It has one node, this host, in the queue `batch`, and a queue that is stopped. Jobs are folders of
FAKE_FLUX: what was asked for in `asked`, what `flux jobs` prints of it in `state`.
"""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

FOLDER = Path(os.environ["FAKE_FLUX"])
ANSWERS = {
    "uptime": " 20:01:02 run 3d,  owner flux,  depth 0,  size 1",
    "version": "commands:    \t\t0.66.0\nlibflux-core:\t\t0.66.0",
    "queue": "batch|enabled|started|3600.0|4\noff|enabled|stopped|inf|inf",
    "resource": f"batch,off|free|1|8|2|{platform.node()}\noff|down|2|16|0|n[1-2]",
}


class JobspecV1:
    """What a job asks for."""

    def __init__(self, command, **shape):
        self.command, self.asked = command, shape

    @classmethod
    def from_command(cls, command, **shape):
        return cls(command, **shape)

    @classmethod
    def from_nest_command(cls, command, **shape):
        return cls(command, nest=True, **shape)

    def setattr(self, name, value):
        self.asked[name] = value


class FluxExecutor:
    """Runs jobs on this host."""

    def submit(self, spec):
        return Future(spec)


class Future:
    """A job."""

    def __init__(self, spec):
        (FOLDER / "asked").write_text(json.dumps({**spec.asked, "duration": spec.duration}))
        with open(spec.stdout, "w") as out, open(spec.stderr, "w") as err:
            self.code = subprocess.call(spec.command, cwd=spec.cwd, stdout=out, stderr=err)
        (FOLDER / "state").write_text(f"INACTIVE|COMPLETED|{platform.node()}|\n")

    def jobid(self):
        return 7

    def done(self):
        return True

    def result(self, timeout):
        return self.code


def main():
    action = sys.argv[1]
    if action == "jobs":
        return print((FOLDER / "state").read_text(), end="")
    if action == "run":
        words = [word for word in sys.argv[2:] if not word.startswith("--")]
        return sys.exit(subprocess.call(words))
    return print(ANSWERS[action])


if __name__ == "__main__":
    main()
