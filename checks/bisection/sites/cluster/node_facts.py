"""Writes what this node is as FOLDER/HOST.json: a program of one process per node, for a trial job.

    node_facts.py FOLDER [PATH ...]

It prints one short line, FACTS and JSON: the host, and the error where FOLDER cannot be written,
which is then not the folder that the submitting host has. Of each PATH it records whether this node
sees it. Any Python from 3.6 on runs it, with the standard library alone, and it is handed to the
nodes as text: a node need not see this file. What cannot be read is "" or null.

Sources: Documentation/ABI of the Linux kernel (sysfs-devices-system-cpu, sysfs-class-infiniband,
sysfs-class-net), and the driver of HPE Slingshot (cxi).
"""

import glob
import json
import os
import re
import socket
import sys


def read(path: str) -> str:
    """The text of a file without surrounding blanks; "" if it cannot be read."""
    try:
        with open(path) as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def cpulist(text: str) -> set:
    """The CPUs of the kernel's list format, "0-3,8"."""
    cpus = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return cpus


def masks(groups: list) -> list:
    """Groups of CPUs as hexadecimal masks."""
    return [hex(sum(1 << cpu for cpu in group)) for group in groups]


def processor() -> dict:
    """ReFrame's processor information of the CPUs that this process may use."""
    allowed = os.sched_getaffinity(0)
    cores, sockets, caches = {}, {}, {}
    for cpu in sorted(allowed):
        folder = f"/sys/devices/system/cpu/cpu{cpu}"
        siblings = cpulist(read(folder + "/topology/thread_siblings_list")) or {cpu}
        cores.setdefault(min(siblings), set()).add(cpu)
        package = read(folder + "/topology/physical_package_id")
        sockets.setdefault(int(package or 0), set()).add(cpu)
        for index in glob.glob(folder + "/cache/index*"):
            if read(index + "/type") in ("Data", "Unified"):
                kind = ("L" + read(index + "/level"), read(index + "/size"))
                shared = cpulist(read(index + "/shared_cpu_list")) & allowed
                caches.setdefault(kind, {})[min(shared | {cpu})] = shared | {cpu}
    domains = {}
    for node in glob.glob("/sys/devices/system/node/node[0-9]*"):
        cpus = cpulist(read(node + "/cpulist")) & allowed
        if cpus:
            domains[int(re.sub(r".*node", "", node))] = cpus
    domains = domains or {0: allowed}
    per_core = min(len(cpus) for cpus in cores.values())
    count = len(cores) * per_core
    return {
        "arch": os.uname().machine,
        "vendor": cpuinfo("vendor_id", "CPU implementer"),
        "model": cpuinfo("model name", "CPU part"),
        "num_cpus": count,
        "num_cpus_per_core": per_core,
        "num_cpus_per_socket": -(-count // len(sockets)),
        "num_sockets": len(sockets),
        "topology": {
            "numa_nodes": masks([domains[key] for key in sorted(domains)]),
            "sockets": masks([sockets[key] for key in sorted(sockets)]),
            "cores": masks([cores[key] for key in sorted(cores)]),
            "caches": [
                {
                    "type": level,
                    "size": int(re.sub(r"\D", "", size) or 0) * 1024,
                    "num_cpus": max(map(len, groups.values())),
                    "cpusets": masks([groups[key] for key in sorted(groups)]),
                }
                for (level, size), groups in sorted(caches.items())
            ],
        },
    }


def cpuinfo(*keys: str) -> str:
    """The first value in /proc/cpuinfo of the first key that is there."""
    for key in keys:
        match = re.search(rf"^{key}\s*:[ \t]*(.*)$", read("/proc/cpuinfo"), re.M)
        if match:
            return match.group(1).strip()
    return ""


def memory() -> int:
    """Bytes of this node."""
    lines = matching("MemTotal", "/proc/meminfo")
    return int(re.sub(r"\D", "", lines[0])) * 1024 if lines else 0


def granted(whole: int, environ: dict) -> int:
    """Bytes that this process's job may use on this node: the least of its control groups, Slurm's
    allocation and the node's memory.

    Args:
        whole: bytes of the node.
        environ: the environment. Slurm gives MiB; SLURM_MEM_PER_NODE=0 is all of the node.
    """
    files = ["/sys/fs/cgroup/memory.max"]
    for line in read("/proc/self/cgroup").splitlines():
        path = line.split(":", 2)[2]
        while path.strip("/"):  # a job's limit may be that of a group above the process's own
            files.append(f"/sys/fs/cgroup{path}/memory.max")
            files.append(f"/sys/fs/cgroup/memory{path}/memory.limit_in_bytes")
            path = os.path.dirname(path)
    limits = [int(text) for text in map(read, files) if text.isdigit()]
    # "4,2(x3)" of unlike nodes
    cpus = map(int, re.findall(r"(?:^|,)(\d+)", environ.get("SLURM_JOB_CPUS_PER_NODE", "")))
    limits.append(int(environ.get("SLURM_MEM_PER_NODE", 0)) << 20)
    limits.append((int(environ.get("SLURM_MEM_PER_CPU", 0)) << 20) * min(cpus, default=0))
    return min([whole, *filter(None, limits)])


def matching(start: str, path: str) -> list:
    """The lines of a file that begin with `start`."""
    return [line for line in read(path).splitlines() if line.startswith(start)]


def rate(text: str, unit: float = 1.0) -> float:
    """The number at the beginning of a text, in Gb/s; 0 for none, as of a device that is down."""
    match = re.match(r"\D{0,3}(\d+(\.\d+)?)", text)
    return float(match.group(1)) * unit if match and not text.startswith("-") else 0.0


def networks() -> list:
    """Devices that could carry messages, the fastest first: name, kind, rate (Gb/s), state."""
    devices = []
    for port in glob.glob("/sys/class/infiniband/*/ports/*"):
        name, layer = port.split("/")[4], read(port + "/link_layer")
        kind = {"InfiniBand": "infiniband", "Ethernet": "roce"}.get(layer, layer.lower() or "rdma")
        driver = os.path.realpath(f"/sys/class/infiniband/{name}/device/driver")
        kind = {"hfi1": "omni-path", "efa": "efa"}.get(os.path.basename(driver), kind)
        state = read(port + "/state").split(": ")[-1].lower()
        devices.append((name, kind, rate(read(port + "/rate")), state))
    for folder in glob.glob("/sys/class/cxi/cxi[0-9]*"):
        speed = read(folder + "/device/port/speed")
        state = read(folder + "/device/port/link").lower()
        devices.append((os.path.basename(folder), "slingshot", rate(speed), state or "unknown"))
    for folder in glob.glob("/sys/class/net/*"):
        name, kind = os.path.basename(folder), read(folder + "/type")
        if name != "lo" and kind in ("1", "32"):  # ARPHRD_ETHER, ARPHRD_INFINIBAND
            kind = "ipoib" if kind == "32" else "ethernet"
            speed, state = rate(read(folder + "/speed"), 1e-3), read(folder + "/operstate")
            devices.append((name, kind, speed, state))
    return [
        {"name": name, "kind": kind, "rate": speed, "state": state}
        for name, kind, speed, state in sorted(devices, key=lambda device: (-device[2], device))
    ]


def governors() -> str:
    """The frequency governors of all CPUs, "performance" or several with slashes between."""
    files = glob.glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
    return "/".join(sorted(set(map(read, files))))


def facts(paths: list) -> dict:
    """All facts of this node."""
    whole = memory()
    boot = [line.split()[1] for line in matching("btime", "/proc/stat")]
    release = re.search(r'^PRETTY_NAME="?(.*?)"?$', read("/etc/os-release"), re.M)
    return {
        "host": socket.gethostname(),
        "node": os.environ.get("SLURMD_NODENAME", ""),  # Slurm's name of it, which may differ
        "processor": processor(),
        "memory": whole,  # B
        "granted": granted(whole, dict(os.environ)),  # B of it, to the job
        "networks": networks(),
        "governor": governors(),
        "smt": {"1": "on", "0": "off"}.get(read("/sys/devices/system/cpu/smt/active"), ""),
        "kernel": os.uname().release,
        "system": release.group(1) if release else "",
        "microcode": cpuinfo("microcode"),
        "boot": int(boot[0]) if boot else None,  # Unix time
        "python": sys.executable,
        "sees": {path: os.path.exists(path) for path in paths},
    }


def main() -> None:
    """Writes the facts into the folder that is the first argument."""
    folder, node = sys.argv[1], facts(sys.argv[2:])
    path = os.path.join(folder, node["host"] + ".json")
    answer = {"host": node["host"]}
    try:
        with open(path, "w") as file:
            json.dump(node, file)
    except OSError as error:
        answer["error"] = error.strerror or str(error)
    sys.stdout.write("FACTS " + json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
