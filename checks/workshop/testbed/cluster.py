"""The virtual cluster: built, used, disturbed, taken down."""

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bisection.core import launchers
from bisection.core.format import plural
from bisection.core.paths import text_of, write_whole
from workshop.testbed import hosts
from workshop.testbed.blueprint import CLUSTER, HEAD, Blueprint, Node, Partition, address
from workshop.testbed.hosts import PATIENCE, Process, TestbedError, until

WIRE = Path(__file__).with_name("wire.py")
PROGRAMS = ("slurmctld", "slurmd", "srun", "munged", "ip", "tc", "nsenter", "unshare")
OF_ACCOUNTING = ("slurmdbd", "mariadbd", "mariadb-install-db")
DAEMONS = ("slurmctld", "slurmdbd", "mariadbd", "munged")  # of the login node
LIFETIME = 4 * 3600.0  # s, after which a cluster that was forgotten ends itself
SOCKET = "spool/{}/stepd.slurm.pmix.999.99"  # of a step; at most 107 characters


def unavailable(accounting: bool = False) -> str | None:
    """Returns why no cluster can be built on this machine; None if one can.

    Args:
        accounting: whether it has an accounting database.
    """
    if os.geteuid() != 0:
        return "a virtual cluster needs root"
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    wanted = PROGRAMS + (OF_ACCOUNTING if accounting else ())
    missing = [program for program in wanted if not shutil.which(program, path=path)]
    if missing:
        return f"a virtual cluster needs {', '.join(missing)}"
    spaces = [f"--{space}" for space in (*hosts.SHARED, "pid")]
    line = ["unshare", *spaces, "--fork", "ip", "link", "add", "br0", "type", "bridge"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode:
        return f"no namespaces: {done.stderr.strip() or f'unshare exits with {done.returncode}'}"
    try:
        hosts.cpuset_root()
    except TestbedError as error:
        return str(error)
    return None


class Cluster:
    """A cluster below one folder. Clusters of different folders do not see each other."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder).resolve()
        digest = hashlib.sha256(str(self.folder).encode()).hexdigest()[:8]
        self.prefix = f"bisection-{digest}-"  # of its control groups
        self.blueprint = Blueprint()
        self.lifetime = LIFETIME
        self.hosts: dict[str, Process] = {}
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            self._read()

    # ---- up and down ----

    def up(self, blueprint: Blueprint, lifetime: float = LIFETIME) -> None:
        """Builds the cluster, once what an earlier one left in the folder is gone.

        Args:
            blueprint: its nodes, partitions and accounting.
            lifetime: s after which it ends itself.

        Raises:
            TestbedError: it cannot be built here, or is not ready in time.
        """
        faults = blueprint.faults(len(os.sched_getaffinity(0)))
        sockets = [str(self.folder / SOCKET.format(name)) for name in blueprint.names()]
        if (more := max(map(len, sockets)) - 107) > 0:
            text = f"its path is too long for the sockets in it, by {plural(more, 'character')}"
            faults.append(f"{self.folder}: {text}")
        if re.search(r"\s", str(self.folder)):
            text = "a blank, which the configuration files of Slurm and MariaDB do not take"
            faults.append(f"{str(self.folder)!r}: {text}")
        if faults or (faults := list(filter(None, [unavailable(blueprint.accounting)]))):
            raise TestbedError("; ".join(faults))
        self.down()
        self.blueprint, self.lifetime = blueprint, lifetime
        for part in ("db", "log", "munge", "spool", "state", "tmp"):
            shutil.rmtree(self.folder / part, ignore_errors=True)
            (self.folder / part).mkdir(parents=True)
        try:
            self._write_files()
            self._start_head()
            for name in blueprint.names():
                self.start_node(name)
            self.wait_for_nodes()
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """Ends everything of the cluster at once; logs stay. Without a cluster it does nothing."""
        for host in [*reversed(self.hosts.values())]:
            hosts.end(host)
        self.hosts = {}
        (self.folder / "cluster.json").unlink(missing_ok=True)
        hosts.end_cpusets(self.prefix)

    @property
    def running(self) -> bool:
        """True if it is up."""
        return HEAD in self.hosts and self.hosts[HEAD].alive

    def wait_for_nodes(self, seconds: float = 30.0, states: Sequence[str] = ("idle",)) -> None:
        """Waits until all nodes are in one of these states of Slurm.

        Raises:
            TestbedError: they are not in time; the text has their states.
        """
        text = ""
        for _ in until(seconds, 0.1):
            asks = ["sinfo", "-h", "-N", "-o", "%N %t"]
            others = [[*asks, "-M", name] for name in self.blueprint.clusters if name != CLUSTER]
            text = "".join(self.output(*words) for words in (asks, *others))
            rows = dict(line.split() for line in text.splitlines() if line.count(" ") == 1)
            if len(rows) == len(self.blueprint.nodes) and set(rows.values()) <= set(states):
                return
        states_now = ", ".join(text.splitlines()) or "slurmctld does not answer"
        text = f"not ready after {seconds:.0f} s: {states_now}; logs: {self.folder}/log"
        raise TestbedError(text)

    def _write_files(self) -> None:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
        for name in self.blueprint.names():
            (self.folder / "spool" / name).mkdir()
            (self.folder / "tmp" / name).mkdir()
        key = self.folder / "munge" / "key"
        key.touch(0o600)
        key.write_bytes(os.urandom(128))
        (self.folder / "munge").chmod(0o755)
        write_whole(self.folder / "hosts", self.blueprint.hosts())
        for cluster in self.blueprint.clusters:
            (self.folder / "state" / cluster).mkdir()
            text = self.blueprint.slurm_conf(self.folder, memory, cluster)
            write_whole(self.slurm_conf_of(cluster), text)
        # A cluster in a container has no systemd to ask for its control groups.
        write_whole(self.folder / "cgroup.conf", "IgnoreSystemd=yes\n")
        write_whole(self.folder / "gres.conf", self.blueprint.gres_conf())
        for file in self.blueprint.policies:
            shutil.copy(file, self.folder)
        dbd = self.folder / "slurmdbd.conf"
        write_whole(dbd, self.blueprint.slurmdbd_conf(self.folder))
        dbd.chmod(0o600)
        self._write()

    def _start_head(self) -> None:
        def connect(head: Process) -> None:
            # Mounts below the folder are seen by all nodes, as those of a file server.
            enter = [*hosts.entered(head, ("mount",)), "mount"]
            _run([*enter, "--bind", str(self.folder), str(self.folder)])
            _run([*enter, "--make-shared", str(self.folder)])
            self._ip(head, "link add br0 type bridge", "link set br0 up")
            self._ip(head, f"addr add {address(0)}/24 dev br0")

        munge = self.folder / "munge"
        files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "seed-file": "seed"}
        munged = ["munged", "--foreground", "--force", "--num-threads=2"]
        munged += [f"--{option}={munge / name}" for option, name in files.items()]
        munged += [f"--log-file={self.folder / 'log' / 'munged.log'}"]
        self.hosts[HEAD] = hosts.start(HEAD, self.folder, self.lifetime, munged, connect=connect)
        self._write()
        self._await("munged", lambda: (munge / "socket").exists())
        if self.blueprint.accounting:
            self._start_database()
        for name in self.blueprint.clusters:
            conf = str(self.slurm_conf_of(name))
            self._daemon(["slurmctld", "-D", "-c", "-f", conf], {"SLURM_CONF": conf})
            asks = ["env", f"SLURM_CONF={conf}", "scontrol", "ping"]
            self._await("slurmctld", lambda asks=asks: "is UP" in self.output(*asks))

    def _start_database(self) -> None:
        data, socket = self.folder / "db", self.folder / "db" / "socket"
        install = ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--user=root"]
        _run([*install, "--skip-test-db", "--auth-root-authentication-method=normal"], 60)
        self._daemon(
            [
                *("mariadbd", "--no-defaults", "--user=root", f"--datadir={data}"),
                *(f"--socket={socket}", f"--pid-file={data}/pid", "--skip-networking"),
                *("--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M"),
                "--innodb-lock-wait-timeout=900",
            ]
        )
        self._await("mariadbd", socket.exists)
        conf = str(self.folder / "slurmdbd.conf")
        self._daemon(["slurmdbd", "-D"], {"SLURM_CONF": conf, "MYSQL_UNIX_PORT": str(socket)})
        add = ["sacctmgr", "-i", "-n", "add"]
        clusters = ",".join(self.blueprint.clusters)
        ready = re.compile("Adding|already exists")  # where a slow answer came too late
        self._await("slurmdbd", lambda: ready.search(self.output(*add, "cluster", clusters)))
        accounts = ",".join(self.blueprint.accounts)
        self.output(*add, "account", accounts, f"Cluster={clusters}", "Description=test")
        default = f"DefaultAccount={self.blueprint.accounts[0]}"
        self.output(*add, "user", "root", f"Account={accounts}", default)

    def _daemon(self, command: Sequence[str], variables: Mapping[str, str] | None = None) -> None:
        """Starts a daemon on the login node, as a child of no process of ours."""
        log = self.folder / "log" / f"{Path(command[0]).name}.log"
        line = f"setsid {shlex.join(command)} </dev/null >>{shlex.quote(str(log))} 2>&1 &"
        enter = hosts.entered(self.hosts[HEAD], (*hosts.SHARED, "pid"))
        _run([*enter, "sh", "-c", line], variables=self.environment() | dict(variables or {}))

    def _await(self, daemon: str, ready: Any) -> None:
        for _ in until(PATIENCE, 0.1):
            if ready():
                return
        log = self.folder / "log" / f"{daemon}.log"
        last = (text_of(log).splitlines() or ["no output"])[-1]
        raise TestbedError(f"{daemon} is not ready after {PATIENCE:.0f} s: {last}; see {log}")

    # ---- nodes ----

    def start_node(self, name: str) -> None:
        """Switches a node on; Slurm takes it back once its slurmd has registered."""
        number = self._number(name)
        if name in self.hosts and self.hosts[name].alive:
            return
        cpus = self.blueprint.cpus_of(number, sorted(os.sched_getaffinity(0)))
        group = hosts.make_cpuset(f"{self.prefix}{name}", cpus)
        head = self.hosts[HEAD]

        def connect(node: Process) -> None:
            port = f"port{number}"
            self._ip(head, f"link add {port} type veth peer name eth0 netns {node.pid}")
            self._ip(head, f"link set {port} master br0 up")
            self._ip(node, f"addr add {address(number)}/24 dev eth0", "link set eth0 up")
            if threads > 1:
                self._show_threads(node, cpus, threads)
            if own != self.slurm_conf:  # a node of another cluster has another file of that name
                enter = hosts.entered(node, ("mount",))
                _run([*enter, "mount", "--bind", str(own), str(self.slurm_conf)])

        own = self.slurm_conf_of(self.blueprint.cluster_of(number))

        threads = self.blueprint.nodes[number - 1].threads
        synthetic = f"HWLOC_SYNTHETIC={topology(cpus, threads)}"
        slurmd = ["env", synthetic, "slurmd", "-D", "-N", name, "-f", str(self.slurm_conf)]
        apart = not self.blueprint.shared_memory
        self.hosts[name] = hosts.start(
            name, self.folder, self.lifetime, slurmd, group, head, apart, connect
        )
        self._write()

    def _show_threads(self, node: Process, cpus: Sequence[int], threads: int) -> None:
        """Has a node see its CPUs as threads of cores, where the kernel describes them."""
        system = Path("/sys/devices/system/cpu")
        texts = {system / "smt" / "active": "1"}
        for first in range(0, len(cpus), threads):
            core = cpus[first : first + threads]
            listed, mask = ",".join(map(str, core)), f"{sum(1 << cpu for cpu in core):x}"
            for folder in (system / f"cpu{cpu}" / "topology" for cpu in core):
                for name in ("thread_siblings", "core_cpus"):
                    texts |= {folder / name: mask, folder / f"{name}_list": listed}
        for number, (shown, text) in enumerate(texts.items()):
            if shown.exists():
                file = write_whole(self.folder / "spool" / f"{node.pid}.{number}", f"{text}\n")
                enter = hosts.entered(node, ("mount",))
                _run([*enter, "mount", "--bind", str(file), str(shown)])

    def kill_node(self, name: str) -> None:
        """Cuts a node's power: its processes end at once, its link is gone."""
        self._number(name)
        hosts.end(self.hosts[name])

    def cut(self, name: str) -> None:
        """Pulls a node's cable."""
        self._ip(self.hosts[HEAD], f"link set port{self._number(name)} down")

    def mend(self, name: str) -> None:
        """Plugs a node's cable in."""
        self._ip(self.hosts[HEAD], f"link set port{self._number(name)} up")

    def shape(self, name: str, rate: str | None) -> None:
        """Limits a node's link in both directions.

        Args:
            name: of the node.
            rate: as tc takes it, such as 100mbit; None for no limit.
        """
        number = self._number(name)
        for host, device in ((self.hosts[name], "eth0"), (self.hosts[HEAD], f"port{number}")):
            qdisc = ["tc", "qdisc", "replace" if rate else "del", "dev", device, "root"]
            # A queue of 20 ms overflows: TCP then sent 0.7% of its segments again.
            limit = ["tbf", "rate", rate, "burst", "64kb", "latency", "100ms"] if rate else []
            done = _run([*hosts.entered(host, ("net",)), *qdisc, *limit], check=bool(rate))
            if done.returncode and "handle of zero" not in done.stderr:
                raise TestbedError(f"tc: {done.stderr.strip()}")

    def lose(self, name: str, fraction: float) -> None:
        """Has a node's link drop packets at random, in both directions.

        Args:
            name: of the node.
            fraction: of the packets; 0 for none.
        """
        number = self._number(name)
        # Classic BPF on what arrives: a random number of 32 bit, at least the threshold: pass (0);
        # else drop (2).
        threshold = min(round(fraction * 2**32), 2**32 - 1)
        code = f"4,32 0 0 4294963256,53 0 1 {threshold},6 0 0 0,6 0 0 2"
        rule = ["filter", "add", "dev", "", "ingress", "bpf", "direct-action", "bytecode", code]
        for host, device in ((self.hosts[name], "eth0"), (self.hosts[HEAD], f"port{number}")):
            rule[3] = device
            tc = [*hosts.entered(host, ("net",)), "tc"]
            _run([*tc, "qdisc", "del", "dev", device, "ingress"], check=False)
            if fraction:
                _run([*tc, "qdisc", "add", "dev", device, "ingress"])
                _run([*tc, *rule])

    def delay(self, name: str, seconds: float) -> None:
        """Has a node's link hold each packet for a time, in both directions.

        Args:
            name: of the node.
            seconds: how long; 0 for no delay.
        """
        port, head = f"port{self._number(name)}", self.hosts[HEAD]
        for process in self.processes(HEAD):
            if process.command()[-3:-1] == [str(WIRE), port]:
                process.send(signal.SIGKILL)
                self._await("wire", lambda old=process: not old.alive)
        self._ip(head, f"link set {port} master br0")
        if seconds:
            self._daemon([sys.executable, "-I", "-S", str(WIRE), port, str(seconds)])
            shown = [*hosts.entered(head, ("net",)), "ip", "-o", "link", "show", port]
            self._await("wire", lambda: " master " not in _run(shown).stdout)

    def processes(self, name: str) -> list[Process]:
        """Returns the processes on a host now; empty if it is dead."""
        return hosts.processes(self.hosts[name]) if name in self.hosts else []

    # ---- the login node ----

    def pause(self, daemon: str) -> None:
        """Stops a daemon of the login node, which then answers nobody; resume() goes on."""
        self._signal(daemon, signal.SIGSTOP)

    def resume(self, daemon: str) -> None:
        """Lets a daemon go on that pause() has stopped."""
        self._signal(daemon, signal.SIGCONT)

    def command(self, words: Sequence[str], host: str = HEAD) -> list[str]:
        """The command line that runs `words` on a host, in the present directory.

        Raises:
            TestbedError: the cluster, or the host, is not up.
        """
        if not self.running:
            raise TestbedError(f"no cluster is up in {self.folder}")
        if host != HEAD:
            self._number(host)
        if not (host in self.hosts and self.hosts[host].alive):
            raise TestbedError(f"{host} is dead")
        spaces = hosts.SHARED if host == HEAD else (*hosts.SHARED, "pid")
        return [*hosts.entered(self.hosts[host], spaces), f"--wd={os.getcwd()}", *words]

    def take_cpus(self, host: str) -> None:
        """Gives this process, and what it starts, the CPUs of a node; the login node has all."""
        if host != HEAD:
            hosts.enter_group(hosts.cpuset_root() / f"{self.prefix}{host}")

    def environment(self) -> dict[str, str]:
        """Environment variables of commands on it: Slurm's file, and Open MPI for root and for
        more ranks than CPUs."""
        path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
        kept = {n: v for n, v in os.environ.items() if not n.startswith(("SLURM_", "OMPI_", "PMI"))}
        return kept | {
            "PATH": path,
            "SLURM_CONF": str(self.slurm_conf),
            **launchers.AS_ROOT,
            "OMPI_MCA_mpi_yield_when_idle": "1",
            # By other fences of Slurm 22.05 a rank can leave MPI_Init before others take messages:
            # 26 of 180 starts of 8 ranks crashed in btl/tcp, 0 of 240 by this one.
            "SLURM_PMIX_FENCE": "ring",
        }

    def output(self, *words: str, seconds: float = PATIENCE) -> str:
        """Output of a command on the login node; "" if it fails or does not end in time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return _run(self.command(words), seconds, self.environment(), check=False).stdout
        return ""

    def jobs(self) -> list[str]:
        """The jobs in the queue, each as `NUMBER STATE NAME`."""
        return self.output("squeue", "-h", "-o", "%i %T %j").splitlines()

    # ---- below ----

    @property
    def slurm_conf(self) -> Path:
        """Slurm's configuration."""
        return self.slurm_conf_of(CLUSTER)

    def slurm_conf_of(self, cluster: str) -> Path:
        """Slurm's configuration of the cluster of a name."""
        return self.folder / ("slurm.conf" if cluster == CLUSTER else f"{cluster}.conf")

    def _number(self, name: str) -> int:
        names = self.blueprint.names()
        if name not in names:
            raise TestbedError(f"{name}: no node; there are {', '.join(names)}")
        return names.index(name) + 1

    def _signal(self, daemon: str, number: signal.Signals) -> None:
        running = [
            p for p in self.processes(HEAD) if Path(next(iter(p.command()), "")).name == daemon
        ]
        if daemon not in DAEMONS or not running:
            raise TestbedError(f"{daemon}: does not run; a login node has {', '.join(DAEMONS)}")
        for process in running:
            process.send(number)

    @staticmethod
    def _ip(host: Process, *lines: str) -> None:
        for line in lines:
            _run([*hosts.entered(host, ("net",)), "ip", *line.split()])

    def _write(self) -> None:
        kept = {
            "blueprint": dataclasses.asdict(self.blueprint),
            "lifetime": self.lifetime,
            "hosts": {name: dataclasses.astuple(host) for name, host in self.hosts.items()},
        }
        write_whole(self.folder / "cluster.json", json.dumps(kept, indent=1))

    def _read(self) -> None:
        kept = json.loads((self.folder / "cluster.json").read_text())
        parts = kept["blueprint"]
        parts["nodes"] = [Node(**n | {"features": tuple(n["features"])}) for n in parts["nodes"]]
        parts["partitions"] = [Partition(**partition) for partition in parts["partitions"]]
        lists = {name: tuple(part) for name, part in parts.items() if isinstance(part, list)}
        self.blueprint = Blueprint(**parts | lists)
        self.lifetime = kept["lifetime"]
        self.hosts = {name: Process(*numbers) for name, numbers in kept["hosts"].items()}


def topology(cpus: Sequence[int], threads: int = 1) -> str:
    """A node as hwloc describes it to slurmd, which by itself would bind to this machine's CPU 0.

    slurmd takes its cores in ascending order, and only CPUs whose numbers are below their count.
    Therefore made-up ones follow the node's own; Slurm's configuration does not count them.
    """
    cores = -(-(cpus[-1] + 1) // threads)
    made_up = range(cpus[-1] + 1, cpus[-1] + 1 + cores * threads - len(cpus))
    indexes = ",".join(map(str, [*cpus, *made_up]))
    return f"pack:1 core:{cores} pu:{threads}(indexes={indexes})"


@contextlib.contextmanager
def cluster(folder: Path | str, blueprint: Blueprint) -> Iterator[Cluster]:
    """A cluster that is up within the block, and down after it."""
    built = Cluster(folder)
    built.up(blueprint)
    try:
        yield built
    finally:
        built.down()


def _run(
    line: Sequence[str],
    seconds: float = PATIENCE,
    variables: Mapping[str, str] | None = None,
    check: bool = True,
) -> "subprocess.CompletedProcess[str]":
    """Runs a command; TestbedError if it fails."""
    done = subprocess.run(
        line, capture_output=True, text=True, timeout=seconds, env=variables, errors="replace"
    )
    if check and done.returncode:
        words = [word for word in line if not word.startswith("-")]
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise TestbedError(f"{' '.join(words[:6])}: {lines[-1] if lines else done.returncode}")
    return done
