"""A real kernel on two hosts whose /sys and /proc are made up: which adapters carried its messages.

The hosts are two UTS namespaces of this one, as mpirun sees them; messages go through loopback, and
made-up counters grow meanwhile. Skipped where `make test-kernels` built no kernel, without Open
MPI, and without root rights. How each kind of adapter is read: src/tests/unit_adapters.c.
"""

import os
import subprocess
import time

import pytest
from running import command

from bisection.core import paths
from bisection.core.commands import ask
from bisection.core.reasons import Code, clause
from bisection.kernels import adapters, results

KERNEL = paths.ROOT / ".bisection/build/network/bisection-patterns"
HOSTS = ("nodea", "nodeb")
AGENT = """host=$1
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
LAUNCH = ("mpirun", "--host", "nodea:2,nodeb:2", "-np", "4")
OPTIONS = "--method alltoall --smallest 1048576 --largest 1048576 --repeats 4 --block 4 --output"
TICK, STEP = 0.02, 1 << 30  # s, B
RAILS = ["mlx5_0", "mlx5_1"]

pytestmark = pytest.mark.skipif(
    not KERNEL.exists()
    or "Open MPI" not in ask("mpirun", "--version").text
    or not ask("unshare", "--uts", "hostname"),
    reason="needs the kernel, Open MPI, and namespaces",
)


def put(path, text):
    """A file that appears whole: the kernel may read it at any time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.parent.parent / "part"
    part.write_text(f"{text}\n")
    part.replace(path)


def describe(root, sent, down):
    """The files of a host: the bytes that `sent` has by name; rails of `down` have no link."""
    for name in RAILS:
        port = root / "sys/class/infiniband" / name / "ports/1"
        put(port / "link_layer", "InfiniBand")
        put(port / "state", "1: DOWN" if name in down else "4: ACTIVE")
        put(port / "rate", "200 Gb/sec (4X HDR)")
        put(port / "counters/port_xmit_data", f"{sent[name] / 4:.0f}")
    put(root / "sys/class/net/eth0/type", "1")
    put(root / "proc/net/dev", f"eth0: {'0 ' * 8}{sent['eth0']:.0f}{' 0' * 7}")


def launched(folder, busy, down):
    """The result of a launch on two hosts with two ranks each; `busy` are the devices that send."""
    sent, output = dict.fromkeys((*RAILS, "eth0"), 1e9), folder / "result.json"
    for name in HOSTS:
        describe(folder / name, sent, down)
    command(folder, "agent", AGENT.format(folder=folder))
    line = ["timeout", "120", *LAUNCH, KERNEL, *OPTIONS.split(), output]
    env = {**os.environ, **MPI, "OMPI_MCA_plm_rsh_agent": str(folder / "agent")}
    with subprocess.Popen(line, env=env) as running:
        while running.poll() is None:
            time.sleep(TICK)
            sent.update({name: sent[name] + STEP for name in busy})
            for name in HOSTS:
                describe(folder / name, sent, down)
    assert running.returncode == 0
    return results.load(output, "patterns")


@pytest.mark.parametrize(
    ("claimed", "busy", "down", "code", "says"),
    [
        (RAILS[:1], ["eth0"], (), Code.NETWORK_BYPASSED, "eth0"),
        (RAILS, RAILS, (), None, ""),
        (RAILS, RAILS[:1], RAILS[1:], Code.RAILS_IDLE, "mlx5_1 carried nothing on nodea, nodeb"),
    ],
)
def test_the_adapters_that_carried_a_launch(tmp_path, claimed, busy, down, code, says):
    for attempt in range(3):  # counters that stand still while the host's other work runs
        result = launched(tmp_path / str(attempt), busy, down)
        reason = adapters.unused(result, claimed)
        if bool(reason) == bool(code):
            break
    assert [host["host"] for host in result["adapters"]] == [*HOSTS]
    assert sorted(name for name, _ in adapters.carriers(result)) == sorted(busy)
    assert (reason and reason.code) == code
    assert code is None or says in clause(reason)
    # the fastest adapters that are up
    assert result["details"]["adapter_rate"] == (200e9 if down else 400e9) / 8
    states = {a["name"]: a["state"] for a in result["adapters"][0]["list"]}
    assert states["mlx5_1:1"] == ("down" if down else "active")
