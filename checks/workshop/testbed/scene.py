"""A virtual cluster with a site, on which a run is disturbed, and what the run made of it."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bisection.core import paths
from bisection.core.reasons import MACHINE_FAULTS, OUTER_FAULTS
from workshop.testbed.blueprint import HEAD, Blueprint, Node, Partition
from workshop.testbed.cluster import Cluster
from workshop.testbed.hosts import Process, TestbedError, entered, until
from workshop.testbed.interrupts import interrupted
from workshop.testbed.site import Launching, installed, write_site

# Six nodes of one core, as many as tell a slow link from noise; and one of two, to share a core.
NODES = (*(Node(),) * 6, Node(2))
QUEUES = (
    Partition("duo", 1, 2, whole=True),  # where a launch on two nodes has node2
    Partition("quad", 1, 4, whole=True),
    Partition("six", 1, 6, whole=True),
    Partition("pair", 7, 7, whole=True),
)
LAUNCHINGS = (
    Launching("srun", queue="duo"),
    Launching("mpirun", "mpirun", queue="duo"),
    Launching("all", nodes=(2, 4, 8)),
    Launching("six", nodes=(6,), queue="six"),
    # Both ranks of the node on its first core.
    Launching("shared", nodes=(1,), queue="pair", choices={"binding": ["--cpu-bind=map_cpu:0"]}),
    Launching("nowhere", choices={"constraint": "unheard"}),
)
# One launch of a small kernel: a short one, and one that lasts until something ends it.
SHORT = ("-n", "^transpose%method=p2p%launch.layout=mpi%launch.case=cnt40")
SAMPLING = "TransposeLaunch.sampling=cnt40:--repeats {} --block 2 --warmup 0 --limit 1000000"
LONG = (*SHORT, "-S", SAMPLING.format(1000000))
# Pairs of nodes; nodes share CPUs, so that times vary: more samples of each pair.
PAIRS = ("--tier", "triage", "-n", "^pairs", "-S", "PairsLaunch.sampling=sampled:--samples 15")
NOISE = ("--tier", "triage", "-n", "^network_noise", "--retest", "8m")
LIMIT = 600.0  # s, for one run


@dataclass
class Ran:
    """A run that was disturbed."""

    exit_code: int
    after: float  # s, from the fault to its end; from its start where the fault was there before
    output: str
    reasons: list[str] = field(default_factory=list)  # as stored, of tests and of the run
    causes: list[str] = field(default_factory=list)  # the same in the words of the verdict
    named: str = ""  # nodecheck.txt
    verdict: str = ""  # its first line; "" if there is none


class Scene:
    """A cluster that is up, with a site file and kernels."""

    def __init__(self, folder: Path, accounting: bool) -> None:
        self.cluster = Cluster(folder / ("slurmdbd" if accounting else "squeue"))
        self.accounting = accounting
        self.kernels = self.foreign = folder
        self.site = folder
        self.running: subprocess.Popen[bytes] | None = None  # `bisection run`

    def build(self) -> None:
        """Starts the cluster.

        Raises:
            TestbedError: it cannot be built, or there are no kernels.
        """
        self.cluster.up(Blueprint(NODES, QUEUES, self.accounting))
        for name, build in (("kernels", "build"), ("foreign", "build-portable")):
            folder = installed(paths.home() / build, self.cluster.folder / name)
            if folder is None:
                targets = "make test-kernels test-portable"
                raise TestbedError(f"no kernels in {paths.home() / build}: `{targets}` builds them")
            setattr(self, name, folder)
        self.site = write_site(self.cluster, "vc", LAUNCHINGS)

    def run(
        self,
        partition: str,
        *arguments: str,
        during: Callable[[], None] | None = None,
        kernels: Path | None = None,
        home: Path | None = None,
    ) -> Ran:
        """`bisection run` on the login node.

        Args:
            partition: of the site.
            arguments: further ones.
            during: is called once the kernel runs on node2.
            kernels: in place of the usual ones.
            home: in place of the usual folder for results.

        Raises:
            TestbedError: the kernel does not start, or the run does not end in time.
        """
        home = home or self.cluster.folder / "home"
        line = [sys.executable, "-m", "bisection", "run", "--tier", "quick"]
        line += ["--system", f"{self.site}:{partition}", "--retest", "0", *arguments]
        line += ["-S", f"Build.kernels={kernels or self.kernels}"]
        variables = {"BISECTION_HOME": str(home), "PYTHONPATH": str(paths.ROOT / "checks")}
        output = self.cluster.folder / "output.txt"
        began = time.monotonic()
        with open(output, "w") as file:
            process = subprocess.Popen(
                self.cluster.command(line), stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                env={**self.cluster.environment(), **variables}, preexec_fn=_heed_interrupts,
            )  # fmt: skip
        self.running = process
        try:
            if during:
                self._await_kernel(process, output)
                began = time.monotonic()
                during()
            code = process.wait(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            raise TestbedError(f"the run did not end in {LIMIT:.0f} s") from None
        finally:
            if process.poll() is None:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=30)
                process.kill()
        ran = Ran(code, time.monotonic() - began, output.read_text(errors="replace"))
        try:
            _read_verdict(ran, home / "results" / "latest")
        except (OSError, ValueError):  # nothing could be written: what was printed is left
            _read_output(ran)
        return ran

    def kernels_on(self, node: str) -> list[Process]:
        """The kernel's processes on a node."""
        running = self.cluster.processes(node)
        return [p for p in running if Path("".join(p.command()[:1])).name.startswith("bisection-")]

    def _await_kernel(self, process: "subprocess.Popen[bytes]", output: Path) -> None:
        for _ in until(120, 0.2):
            if self.kernels_on("node2"):
                time.sleep(3)  # MPI starts up
                return
            if process.poll() is not None:
                break
        lines = output.read_text(errors="replace").strip().splitlines()
        raise TestbedError(f"no kernel on node2; the run's last lines: {' | '.join(lines[-20:])}")

    # ---- what is done to it ----

    def slurm(self, *words: str) -> None:
        """A command of Slurm on the login node.

        Raises:
            TestbedError: it fails.
        """
        done = subprocess.run(
            self.cluster.command(words), env=self.cluster.environment(),
            capture_output=True, text=True, timeout=30,
        )  # fmt: skip
        if done.returncode:
            raise TestbedError(f"{' '.join(words)}: {done.stderr.strip()}")

    def job(self) -> str:
        """The number of the job that runs."""
        return next((line.split()[0] for line in self.cluster.jobs() if " RUNNING " in line), "")

    def signal_rank(self, number: signal.Signals) -> None:
        """Sends a signal to the rank on node2."""
        for process in self.kernels_on("node2"):
            process.send(number)

    def interrupted(self, node: str) -> contextlib.AbstractContextManager[None]:
        """Within the block, interrupts slow all that a node runs and starts."""
        return interrupted(process.pid for process in self.cluster.processes(node))

    def interrupt(self) -> None:
        """Interrupts the run as a person does, by Ctrl-C."""
        if self.running:
            self.running.send_signal(signal.SIGINT)

    def mount(self, node: str, folder: Path, size: str = "1m") -> None:
        """Covers a folder with an empty one on a node; on the login node, for all nodes."""
        folder.mkdir(parents=True, exist_ok=True)
        enter = entered(self.cluster.hosts[node], ("mount",))
        line = ["mount", "-t", "tmpfs", "-o", f"size={size}", "bisection", str(folder)]
        subprocess.run([*enter, *line], check=True, capture_output=True)

    @contextlib.contextmanager
    def beside(self, *words: str, host: str = HEAD) -> Iterator[None]:
        """Runs a program on a host meanwhile."""

        def take_cpus() -> None:
            self.cluster.take_cpus(host)

        process = subprocess.Popen(
            self.cluster.command(words, host), env=self.cluster.environment(),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=take_cpus,
        )  # fmt: skip
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=30)

    # ---- afterwards ----

    def left(self) -> list[str]:
        """Jobs and kernels that are still there a minute after a run, for which it waits."""
        names = self.cluster.blueprint.names()
        left: list[str] = []
        for _ in until(60, 0.5):
            jobs = [f"job {line}" for line in self.cluster.jobs()]
            left = jobs + [f"{p.command()[0]} on {n}" for n in names for p in self.kernels_on(n)]
            if not left:
                break
        return left

    def mend(self) -> None:
        """Makes the cluster as it was; a new one if that does not help."""
        cluster = self.cluster
        try:
            for name in cluster.blueprint.names():
                cluster.start_node(name)
                cluster.mend(name)
                cluster.shape(name, None)
                cluster.lose(name, 0)
                cluster.delay(name, 0)
            for daemon in ("slurmctld", *(("slurmdbd",) if self.accounting else ())):
                cluster.resume(daemon)
            for name, host in cluster.hosts.items():
                for process in self.kernels_on(name):
                    process.send(signal.SIGKILL)
                self._unmount(host)
            cluster.output("scancel", "--full", "-u", "root")
            everywhere = f"nodename={','.join(cluster.blueprint.names())}"
            cluster.output("scontrol", "update", everywhere, "state=resume")
            cluster.wait_for_nodes(40)
        except (TestbedError, OSError, LookupError):
            self.build()

    def _unmount(self, host: Process) -> None:
        mounts = Path(f"/proc/{host.pid}/mounts").read_text().splitlines()
        for target in (line.split()[1] for line in mounts if line.startswith("bisection ")):
            # umount looks into /proc, which is that of the host's processes
            spaces = ("mount", "pid") if host != self.cluster.hosts[HEAD] else ("mount",)
            line = [*entered(host, spaces), "umount", "--lazy", target]
            done = subprocess.run(line, capture_output=True, text=True)
            if done.returncode:
                raise TestbedError(done.stderr.strip())


def _heed_interrupts() -> None:
    """Undoes that a shell has its jobs in the background ignore interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _read_verdict(ran: Ran, folder: Path) -> None:
    kept: dict[str, Any] = json.loads((folder / "verdict.json").read_text())
    ran.verdict = kept["verdict"]
    for case in kept["cases"]:
        if reason := case["reasons"].get("cause"):
            ran.reasons.append(json.dumps(reason))
            ran.causes.append(case["cause"])
    for name, reasons in kept["reasons"].items():
        ran.reasons += map(json.dumps, reasons)
        ran.causes += kept[name]
    with contextlib.suppress(OSError):
        ran.named = (folder / "nodecheck.txt").read_text()


def _read_output(ran: Ran) -> None:
    first = re.search(r"^(PASS|FAIL|NOT MEASURED|SLOWER THAN BEFORE): .*", ran.output, re.M)
    ran.verdict = first[0] if first else ""
    for kind in (*MACHINE_FAULTS, *OUTER_FAULTS):
        if cause := re.search(rf"\b{kind.code}: .*(\n {{8}}.*)*", ran.output):
            ran.reasons.append(kind.code)
            ran.causes.append(" ".join(cause[0].split()))


def shim(source: str, folder: Path) -> Path:
    """A library for LD_PRELOAD, by the machine's C compiler for MPI.

    Raises:
        TestbedError: it is not compiled.
    """
    library = folder / "fault.so"
    line = [os.environ.get("MPICC", "mpicc"), "-x", "c", "-shared", "-fPIC", "-pthread", "-"]
    done = subprocess.run(
        [*line, "-o", str(library)], input=source, capture_output=True, text=True, timeout=60
    )
    if done.returncode:
        raise TestbedError(f"mpicc: {done.stderr.strip()[-200:]}")
    return library
