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
from typing import Any


def read(path: str) -> str:
    """The text of a file without surrounding blanks; "" if it cannot be read."""
    try:
        with open(path) as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def cpulist(text: str) -> "set[int]":
    """The CPUs of the kernel's list format, "0-3,8"."""
    cpus: "set[int]" = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return cpus


def masks(groups: "dict[Any, set[int]]") -> "list[str]":
    """Groups of CPUs as hexadecimal masks, in the order of their keys."""
    return [hex(sum(1 << cpu for cpu in groups[key])) for key in sorted(groups)]


def field(pattern: str, path: str) -> str:
    """The group of a pattern where it first matches in a file; "" if it does not."""
    match = re.search(pattern, read(path), re.M)
    return match.group(1).strip() if match else ""


def model() -> str:
    """The processor's model; where /proc/cpuinfo names none, as on servers of Arm, the implementer,
    part and variant of each kind of core, as src/common/cores.c has them."""
    name = field(r"^model name[ \t]*:(.*)$", "/proc/cpuinfo")
    if name:
        return name
    parts, of_cpu = [], {}
    for line in read("/proc/cpuinfo").splitlines():  # CPU by CPU, the part last
        key, _, value = line.partition(":")
        of_cpu[key.strip()] = value.strip()
        if key.strip() == "CPU part":
            names = ("implementer", "part", "variant")
            parts.append(", ".join(name + " " + of_cpu.get("CPU " + name, "") for name in names))
    return "; ".join(sorted(set(parts), key=parts.index))


def processor() -> "dict[str, Any]":
    """ReFrame's processor information of the CPUs that this process may use."""
    allowed = os.sched_getaffinity(0)
    cores: "dict[int, set[int]]" = {}
    sockets: "dict[Any, set[int]]" = {}
    caches: "dict[Any, set[int]]" = {}
    domains: "dict[Any, set[int]]" = {}
    for cpu in sorted(allowed):
        folder = f"/sys/devices/system/cpu/cpu{cpu}"
        siblings = cpulist(read(folder + "/topology/thread_siblings_list")) or {cpu}
        cores.setdefault(min(siblings), set()).add(cpu)
        package = read(folder + "/topology/physical_package_id")
        sockets.setdefault(int(package or 0), set()).add(cpu)
        for index in glob.glob(folder + "/cache/index*"):
            if read(index + "/level") == "3":
                shared = cpulist(read(index + "/shared_cpu_list")) & allowed | {cpu}
                caches[min(shared)] = shared
    for node in glob.glob("/sys/devices/system/node/node[0-9]*"):
        cpus = cpulist(read(node + "/cpulist")) & allowed
        if cpus:
            domains[int(re.sub(r".*node", "", node))] = cpus
    per_core = min(len(cpus) for cpus in cores.values())
    count = len(cores) * per_core
    return {
        "arch": os.uname().machine,
        "vendor": field(r"^(?:vendor_id|CPU implementer)[ \t]*:(.*)$", "/proc/cpuinfo"),
        "model": model(),
        "num_cpus": count,
        "num_cpus_per_core": per_core,
        "num_cpus_per_socket": -(-count // len(sockets)),
        "num_sockets": len(sockets),
        "topology": {
            "numa_nodes": masks(domains or {0: allowed}),
            "sockets": masks(sockets),
            "cores": masks(cores),
            "caches": [{"type": "L3", "cpusets": masks(caches)}],
        },
    }


def groups(controller: str) -> "list[str]":
    """The folders of this process's control groups with this controller, of versions 1 and 2, and
    of all groups above them: a job's limit may be that of a group above the process's own. A
    container sees its own group at the mount."""
    folders = []
    for line in read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        mount = "/sys/fs/cgroup" + ("/" + controller if controllers else "")
        if controllers and controller not in controllers.split(","):
            continue
        while path.strip("/"):
            folders.append(mount + path)
            path = os.path.dirname(path)
        folders.append(mount)
    return folders


def granted(whole: int) -> int:
    """Bytes that this process may use on this node: the least of its control groups and the node's
    memory, which is `whole`. The scheduler knows what it allocated to the job."""
    names = ("memory.max", "memory.limit_in_bytes")
    texts = [read(folder + "/" + name) for folder in groups("memory") for name in names]
    return min([whole, *(int(text) for text in texts if text.isdigit())])


def rate(text: str, unit: float = 1.0) -> float:
    """The number at the beginning of a text, in Gb/s; 0 for none, as of a device that is down."""
    match = re.match(r"\D{0,3}(\d+(\.\d+)?)", text)
    return float(match.group(1)) * unit if match and not text.startswith("-") else 0.0


def networks() -> "list[dict[str, Any]]":
    """Devices that could carry messages, the fastest first: name, kind, rate (Gb/s), state."""
    devices: "list[tuple[str, str, float, str]]" = []
    for port in glob.glob("/sys/class/infiniband/*/ports/*"):
        name, layer = port.split("/")[4], read(port + "/link_layer")
        kind = {"InfiniBand": "infiniband", "Ethernet": "roce"}.get(layer, layer.lower() or "rdma")
        driver = os.path.realpath(f"/sys/class/infiniband/{name}/device/driver")
        kind = {"hfi1": "omni-path", "efa": "efa"}.get(os.path.basename(driver), kind)
        state = read(port + "/state").split(": ")[-1].lower()
        devices.append((name, kind, rate(read(port + "/rate")), state))
    for folder in glob.glob("/sys/class/cxi/cxi[0-9]*"):
        speed = rate(read(folder + "/device/port/speed"))
        state = read(folder + "/device/port/link").lower()
        devices.append((os.path.basename(folder), "slingshot", speed, state or "unknown"))
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


def facts(paths: "list[str]") -> "dict[str, Any]":
    """All facts of this node."""
    memory = 1024 * int(field(r"^MemTotal:\s*(\d+)", "/proc/meminfo") or 0)
    boot = field(r"^btime (\d+)", "/proc/stat")
    governors = glob.glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
    return {
        "host": socket.gethostname(),
        "node": os.environ.get("SLURMD_NODENAME", ""),  # Slurm's name of it, which may differ
        "processor": processor(),
        "memory": memory,  # B
        "granted": granted(memory),  # B of it, to the job
        "networks": networks(),
        "governor": "/".join(sorted(set(map(read, governors)))),  # several with slashes between
        "smt": {"1": "on", "0": "off"}.get(read("/sys/devices/system/cpu/smt/active"), ""),
        "kernel": os.uname().release,
        "system": field(r'^PRETTY_NAME="?(.*?)"?$', "/etc/os-release"),
        "microcode": field(r"^microcode[ \t]*:(.*)$", "/proc/cpuinfo"),
        "boot": int(boot) if boot else None,  # Unix time
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
