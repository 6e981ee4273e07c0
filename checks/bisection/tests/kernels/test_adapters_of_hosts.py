"""A real kernel on two hosts whose /sys and /proc are made up: which adapters carried its messages.

The hosts are two UTS namespaces of this one, as mpirun sees them; messages go through loopback, and
made-up counters grow meanwhile. Skipped where `make test-kernels` built no kernel, without Open
MPI, and without root rights.
"""

import os
import shutil
import subprocess
import threading

import pytest

from bisection.core import paths
from bisection.core.reasons import Code, clause
from bisection.kernels import adapters, results

KERNEL = paths.ROOT / ".bisection/build/network/bisection-patterns"
HOSTS = ("nodea", "nodeb")
AGENT = """#!/bin/sh
host=$1
shift
exec unshare --uts sh -c "hostname $host; export BX_SYS_ROOT='{folder}'/$host; $*"
"""
MPI = {
    "OMPI_MCA_btl": "tcp,self",
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl_tcp_if_include": "lo",
    "OMPI_MCA_oob_tcp_if_include": "lo",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}
ONE = "--method alltoall --smallest 1048576 --largest 1048576 --repeats 4 --block 4"
OPTIONS = [*ONE.split(), "--output"]
TICK, STEP = 0.02, 1 << 30  # s, B
INFINIBAND, SLINGSHOT = "sys/class/infiniband/{}/ports/1", "sys/class/cxi/{}/device"
RAILS = ["mlx5_0", "mlx5_1"]


def missing():
    """Why nothing can be launched on two hosts; None if it can."""
    if not KERNEL.exists():
        return "the kernel is not built"
    if not shutil.which("mpirun") or "Open MPI" not in answer("mpirun", "--version"):
        return "mpirun is not of Open MPI"
    return None if answer("unshare", "--uts", "hostname") else "no namespaces without root rights"


def answer(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


pytestmark = pytest.mark.skipif(bool(reason := missing()), reason=str(reason))


class Host:
    """The files of one host; `busy` are the devices that send, `down` those without a link."""

    def __init__(self, root, busy, down=()):
        self.root, self.busy, self.sent = root, busy, dict.fromkeys((*RAILS, "cxi0"), 1e9)
        self.ethernet = dict.fromkeys(("eth0", "hsn0"), 1e9)
        for name in RAILS:
            port = INFINIBAND.format(name)
            self.put(f"{port}/link_layer", "InfiniBand")
            self.put(f"{port}/state", "1: DOWN" if name in down else "4: ACTIVE")
            self.put(f"{port}/rate", "200 Gb/sec (4X HDR)")
        self.put(f"{SLINGSHOT.format('cxi0')}/port/speed", "BS_200G")
        for name in self.ethernet:
            self.put(f"sys/class/net/{name}/type", "1")
        self.put("sys/class/net/hsn0/device/cxi/cxi0/dev", "")
        self.grow()

    def put(self, name, text):
        """A file that appears whole: the kernel may read it at any time."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.parent.parent / "part"
        part.write_text(f"{text}\n")
        part.replace(path)

    def grow(self):
        for counts in (self.sent, self.ethernet):
            for name in set(counts).intersection(self.busy):
                counts[name] += STEP
        for name in RAILS:
            port = INFINIBAND.format(name)
            self.put(f"{port}/counters/port_xmit_data", f"{self.sent[name] / 4:.0f}")
        telemetry = f"{SLINGSHOT.format('cxi0')}/telemetry/hni_sts_tx_ok_octets"
        self.put(telemetry, f"{self.sent['cxi0']:.0f}@1.5")
        lines = [
            f"{name}: 0 0 0 0 0 0 0 0 {count:.0f} 0 0 0 0 0 0 0"
            for name, count in self.ethernet.items()
        ]
        self.put("proc/net/dev", "\n".join(lines))


def launched(folder, busy, down=()):
    """The result of a launch on two hosts with two ranks each."""
    hosts = [Host(folder / name, busy, down) for name in HOSTS]  # makes the folder
    agent, output = folder / "agent", folder / "result.json"
    agent.write_text(AGENT.format(folder=folder))
    agent.chmod(0o755)
    end = threading.Event()

    def live():
        while not end.wait(TICK):
            for host in hosts:
                host.grow()

    growing = threading.Thread(target=live)
    growing.start()
    try:
        done = subprocess.run(
            ["mpirun", "--host", "nodea:2,nodeb:2", "-np", "4", KERNEL, *OPTIONS, output],
            env={**os.environ, **MPI, "OMPI_MCA_plm_rsh_agent": str(agent)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        end.set()
        growing.join()
    assert done.returncode == 0, done.stdout + done.stderr
    return results.load(output, "patterns")


@pytest.mark.parametrize(
    ("claimed", "busy", "down", "says"),
    [
        (["mlx5_0"], ["eth0"], (), "eth0"),
        (["cxi0"], ["cxi0"], (), None),
        (["cxi0"], ["cxi0", "hsn0"], (), "hsn0"),  # TCP over the fast adapter, which counts it too
        (["eth0"], ["eth0"], (), None),
        (RAILS, RAILS, (), None),
        (RAILS, RAILS[:1], RAILS[1:], "mlx5_1 carried nothing on nodea, nodeb"),
    ],
)
def test_the_adapters_that_carried_a_launch(tmp_path, claimed, busy, down, says):
    for attempt in range(3):  # counters that stand still while the host's other work runs
        result = launched(tmp_path / str(attempt), busy, down)
        reason = adapters.unused(result, claimed)
        if bool(reason) == bool(says):
            break
    assert [host["host"] for host in result["adapters"]] == [*HOSTS]
    assert sorted(name for name, _ in adapters.carriers(result)) == sorted(busy)
    code = Code.RAILS_IDLE if claimed == RAILS else Code.NETWORK_BYPASSED
    assert (reason and reason.code) == (says and code)
    assert says is None or says in clause(reason)
    # the fastest adapters that are up
    assert result["details"]["adapter_rate"] == (200e9 if down else 400e9) / 8
    states = {a["name"]: a["state"] for a in result["adapters"][0]["list"]}
    assert states["mlx5_1:1"] == ("down" if down else "active")
