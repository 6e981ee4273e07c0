"""Buffers on devices that are none: answers, refusals, faults.

Usage: test_device.py PATTERNS UNIT_DEVICE KERNEL... [unittest arguments]
"""

import itertools
import json
import os
import re
import sys
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path

import kernel_run
import test_launches
from fake_device import FOLDER, ORDERS, launch
from kernel_run import Outcome, assert_refused, built, inapplicable, long, misfit

PATTERNS = UNIT = ""
KERNELS: "dict[str, str]" = {}  # of launches.txt, by name
# The runtimes: name of the library, version
RUNTIMES = {
    "cuda": ("libcudart.so.12", 12040),
    "hip": ("libamdhip64.so.6", 60000000),
    "hip5": ("libamdhip64.so.5", 50000000),
}
STAGED = "staged: nothing tells the target when to copy"
RANK = "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"


def unit(ranks: int, buffers: str = "device", most: int = 0, before: str = "", **options: str):
    """The unit test; `before` is what a shell of each rank does before it."""
    command = f'{before} exec {UNIT} {buffers} {most} "$@"'
    return launch("sh", ranks, "-c", command, "sh", **options)


def verified(
    test: unittest.TestCase,
    kernel: str,
    buffers: str,
    ranks: int,
    *arguments: str,
    **options: str,
) -> Outcome:
    """A launch that must verify, with nothing left to do on the devices of its ranks."""
    where = ("--buffers", buffers, *arguments)
    with test.subTest(kernel=kernel, where=where, ranks=ranks, options=options):
        out = launch(kernel, ranks, *where, **options)
        test.assertEqual(out.code, 0, out.stdout + out.stderr)
        test.assertEqual(misfit(out), "")
        test.assertEqual(out.result["parameters"]["buffers"], buffers)
        (devices,) = out.result["layout"]["devices"]
        test.assertEqual([rank["rank"] for rank in devices["ranks"]], list(range(ranks)))
        transforms = "transpose" in kernel and "--transpose-only" not in arguments
        test.assertEqual(bool(devices["ffts"]), transforms)
        for entry in out.result["results"]:
            names = {check["name"] for check in entry["verification"]["checks"]}
            test.assertEqual("work left on the device" in names, entry["applicable"])
            test.assertEqual("copies" in entry, entry["applicable"])
        return out
    raise unittest.SkipTest("see the case")


def commands() -> "Iterator[tuple[str, int, list[str], dict[str, str]]]":
    """Lines of launches.txt that begin with `device`: kernel, ranks, arguments, environment."""
    for name, lines in test_launches.launches("device ").items():
        for layout, *arguments in lines:
            ranks, _, threads = layout.partition("x")
            yield KERNELS[name], int(ranks), arguments, {"OMP_NUM_THREADS": threads or "1"}


class Unit(unittest.TestCase):
    """The functions by themselves."""

    def devices(self, out: Outcome) -> dict:
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        (devices,) = json.loads(out.stdout)["devices"]
        return devices

    def test_every_runtime_in_every_order(self):
        for runtime, (library, version) in RUNTIMES.items():
            for buffers in ("device", "staged"):
                for order in ORDERS if runtime == "cuda" else ORDERS[:1]:
                    with self.subTest(runtime=runtime, buffers=buffers, order=order):
                        out = unit(1, buffers, runtime=runtime, FAKE_ORDER=order)
                        devices = self.devices(out)
                        self.assertEqual(devices["library"], library)
                        self.assertEqual(devices["runtime"], version)

    def test_ranks_take_devices_in_turn(self):
        for ranks in (2, 3, 4):
            devices = self.devices(unit(ranks, most=2))
            self.assertEqual(devices["name"], "Fake device")
            self.assertEqual([rank["rank"] for rank in devices["ranks"]], list(range(ranks)))
            for rank in devices["ranks"]:
                number = 1 + rank["rank"] % 2
                self.assertEqual(rank["id"], f"0000:0{number}:00.0/{16 * f'0{number}'}")

    def test_each_rank_of_many_has_a_device(self):
        """17: hosts with as many devices are in use."""
        devices = self.devices(unit(17, most=1, FAKE_DEVICES="20"))
        self.assertEqual(len({rank["id"] for rank in devices["ranks"]}), 17)

    def test_nearest_devices(self):
        """Each rank takes the device at its CPU; the adapter is that below the same switch."""
        cpus = sorted(os.sched_getaffinity(0))[:2]
        if len(cpus) < 2:
            self.skipTest("one CPU")
        with tempfile.TemporaryDirectory() as root:
            for node, cpu in enumerate(cpus):
                switch = Path(root, f"sys/devices/pci0000:0{node}/0000:0{node}:01.0")
                for number, name in ((2 - node, "device"), (8 + node, "adapter")):
                    folder = switch / f"0000:0{number}:00.0"
                    folder.mkdir(parents=True)
                    (folder / "numa_node").write_text(f"{node}\n")
                    (folder / "local_cpulist").write_text(f"{cpu},4000-4001\n")
                    place = f"sys/bus/pci/devices/{folder.name}"
                    if name == "adapter":
                        place = f"sys/class/infiniband/mlx5_{node}/device"
                    Path(root, place).parent.mkdir(parents=True, exist_ok=True)
                    Path(root, place).symlink_to(folder)
            for ranks, listed in ((2, {}), (4, {}), (3, {}), (3, {"DEVICES": "1,0"})):
                cpu = f"$(({RANK} % 2 ? {cpus[1]} : {cpus[0]}))"
                bind = f"taskset -pc {cpu} $$ >/dev/null;"
                out = unit(ranks, before=bind, BX_SYS_ROOT=root, **listed)
                devices = self.devices(out)
                self.assertEqual(devices["clock"], 1.5e9)
                with self.subTest(ranks=ranks, listed=listed):
                    for rank in devices["ranks"]:
                        node = rank["rank"] % 2
                        self.assertEqual(rank["id"][:12], f"0000:0{2 - node}:00.0")
                        self.assertEqual((rank["numa"], rank["adapter"]), (node, f"mlx5_{node}"))

    def test_devices_as_they_are_listed(self):
        devices = self.devices(unit(4, DEVICES="0,0,1,1"))
        ids = [rank["id"][:12] for rank in devices["ranks"]]
        self.assertEqual(ids, ["0000:01:00.0"] * 2 + ["0000:02:00.0"] * 2)
        for order in ("2", "-1", "a", "", "0,", "0;1", "0,,1"):
            out = unit(1, DEVICES=order)
            allowed = "sees devices 0 to 1; numbers of these are allowed, such as 0,1"
            line = rf"^bisection-unit: --devices {order}: rank 0 on host \S+ {allowed}$"
            self.assertEqual(out.code, 2)
            self.assertRegex(out.stderr, re.compile(line, re.M))

    def test_ranks_that_see_other_devices_share_them_out(self):
        """Nobody takes the only device that a later rank sees, where that is a turn of its own."""
        devices = self.devices(unit(2, before=f"FAKE_FIRST=-{RANK}", most=1))
        self.assertEqual(len({rank["id"] for rank in devices["ranks"]}), 2)

    def test_each_rank_sees_its_own_device_alone(self):
        devices = self.devices(unit(2, before=f"FAKE_FIRST={RANK}", most=1, FAKE_DEVICES="1"))
        self.assertEqual(len({rank["id"] for rank in devices["ranks"]}), 2)

    def test_library_of_mpi_comes_first(self):
        devices = self.devices(unit(1, loaded="hip"))
        self.assertEqual(devices["library"], "libamdhip64.so.6")

    def test_staged_needs_no_aware_mpi(self):
        self.assertIsNone(self.devices(unit(1, "staged", aware=False))["aware"])

    def test_who_says_that_mpi_is_aware(self):
        devices = self.devices(unit(1, AWARE_SAYS="cray", MPICH_GPU_SUPPORT_ENABLED="1"))
        self.assertEqual(devices["aware"], "MPICH_GPU_SUPPORT_ENABLED is 1")
        if "allreduce-init" not in built(PATTERNS, "--largest", "8"):
            self.skipTest("this library is older than MPI 4")
        out = unit(1, AWARE_SAYS="kinds")
        self.assertEqual(self.devices(out)["aware"], "mpi_memory_alloc_kinds has cuda")
        self.assertEqual(unit(1, runtime="hip", AWARE_SAYS="kinds").code, 2)


class Patterns(unittest.TestCase):
    """The kernel, on buffers in each memory."""

    SMALL = ("--largest", "8192", "--repeats", "1", "--block", "2")

    def verified(self, buffers: str, ranks: int, *arguments: str, **options: str) -> Outcome:
        out = verified(self, PATTERNS, buffers, ranks, *self.SMALL, *arguments, **options)
        away = inapplicable(out)
        away.pop("node-to-node", "")
        one_sided = {} if buffers == "device" else dict.fromkeys(("put", "get"), STAGED)
        self.assertEqual(away, one_sided)
        return out

    def test_every_order_of_work(self):
        ranks = min(3, kernel_run.MOST_RANKS)
        for order in ORDERS:
            self.verified("device", ranks, FAKE_ORDER=order)
            self.verified("staged", ranks, FAKE_ORDER=order)

    def test_nodes_and_runtimes(self):
        for buffers in ("device", "staged"):
            self.verified(buffers, 2, "--ranks-per-node", "1", runtime="hip")
            self.verified(buffers, 4, "--ranks-per-node", "2", runtime="hip5", FAKE_ORDER="1")

    @long
    def test_all_of_them(self):
        runtimes = itertools.cycle(RUNTIMES)
        for buffers, order in itertools.product(("device", "staged"), ORDERS):
            for ranks, of_node in ((2, "1"), (2, "2"), (3, "3"), (3, "1"), (4, "2")):
                node = ("--ranks-per-node", of_node)
                self.verified(buffers, ranks, *node, runtime=next(runtimes), FAKE_ORDER=order)

    def test_no_cache_of_a_device_is_emptied(self):
        for buffers in ("device", "staged"):
            out = launch(PATTERNS, 2, "--cold", "--buffers", buffers, *self.SMALL)
            line = f"--cold: empties no cache of a device; choose --buffers host, not {buffers}\n"
            self.assertEqual((out.code, line in out.stderr), (2, True), out.stderr)

    def test_host_memory_needs_no_device(self):
        out = launch(PATTERNS, 2, *self.SMALL, runtime="none", aware=False)
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        self.assertNotIn("devices", out.result["layout"])
        names = {c["name"] for e in out.result["results"] for c in e["verification"]["checks"]}
        self.assertNotIn("work left on the device", names)

    def test_touch_by_a_library_that_lies(self):
        """Signals end the launch, as other crashes do."""
        one = ("--method", "alltoall", "--largest", "8")
        out = launch(PATTERNS, 1, "--buffers", "device", *self.SMALL, *one, AWARE_SAYS="lie")
        self.assertGreater(out.code, 4, out.stdout + out.stderr)
        touch = r"bisection-patterns: rank 0 on host \S+: the host touches memory of the device: "
        self.assertRegex(out.stderr, touch + r"byte \d+ of `(sent|received)`, in MPI_Alltoall\n")

    def test_refusals(self):
        for buffers, aware, line in (
            ("gpu", True, "--buffers gpu: unknown; choose from host, device, staged"),
            ("device", False, "--buffers device: MPI does not take addresses of a device: "),
        ):
            out = launch(PATTERNS, 2, "--buffers", buffers, *self.SMALL, aware=aware)
            assert_refused(self, out, 2, line)

    def test_overruled(self):
        small = (*self.SMALL, "--method", "alltoall", "--aware")
        out = launch(PATTERNS, 2, "--buffers", "device", *small, AWARE_SAYS="kinds", runtime="hip")
        self.assertNotEqual(out.code, 2, out.stdout + out.stderr)
        (devices,) = out.result["layout"]["devices"]
        self.assertRegex(devices["aware"], "^--aware, where MPIX_Query_hip_support.. is 0$")


class Launches(unittest.TestCase):
    """Lines of launches.txt that begin with `device`."""

    def test_orders(self):
        """Orders and runtimes in turn."""
        orders, runtimes = itertools.cycle(ORDERS), itertools.cycle(("cuda", "hip", "hip"))
        for kernel, ranks, arguments, how in commands():
            for buffers in ("device", "staged"):
                how |= {"runtime": next(runtimes), "FAKE_ORDER": next(orders)}
                verified(self, kernel, buffers, ranks, *arguments, **how)

    @long
    def test_orders_and_runtimes(self):
        for kernel, ranks, arguments, how in commands():
            cases = itertools.product(("device", "staged"), ORDERS, ("cuda", "hip"))
            for buffers, order, runtime in cases:
                how |= {"runtime": runtime, "FAKE_ORDER": order}
                verified(self, kernel, buffers, ranks, *arguments, **how)


class Mpi4(unittest.TestCase):
    """Methods of MPI 4, in builds that have it; each beside one that all builds have."""

    def inapplicable(self, kernel: str, buffers: str, *arguments: str, **how: str) -> dict:
        short = ("--repeats", "2", "--block", "2", "--baseline", "none")
        out = verified(self, kernel, buffers, 2, *arguments, *short, **how)
        if any(entry["lacks_library"] for entry in out.result["results"]):
            self.skipTest("no MPI 4")
        return inapplicable(out)

    def test_requests_that_are_made_once(self):
        """They have the buffers' addresses: MPI is given those of the device, or of its stage."""
        transpose = KERNELS["bisection-transpose"]
        grid = ("--transpose-only", "--grid", "12,10,9", "--bands", "2")
        for buffers, order in itertools.product(("device", "staged"), ORDERS[:3]):
            once = ("--method", "allreduce,allreduce-init", "--largest", "2048")
            away = self.inapplicable(PATTERNS, buffers, *once, FAKE_ORDER=order)
            self.assertEqual(away, {})
            once = ("--method", "alltoallv,alltoallv-init", *grid)
            self.assertEqual(self.inapplicable(transpose, buffers, *once, FAKE_ORDER=order), {})

    def test_threads_of_the_host_pack_parts(self):
        halo = KERNELS["bisection-halo"]
        for buffers in ("device", "staged"):
            away = self.inapplicable(halo, buffers, "--method", "isend,partitioned")
            self.assertEqual(away, {"partitioned": "the host's threads pack a part each"})


class Counted(unittest.TestCase):
    """The copies of a step, which tell what device memory costs and what staging adds."""

    def copied(self, buffers: str) -> dict:
        more = ("--case", "pchan-24", "--method", "isend", "--baseline", "none", "--repeats", "2")
        out = launch(KERNELS["bisection-halo"], 2, "--buffers", buffers, *more)
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        (entry,) = [entry for entry in out.result["results"] if entry["applicable"]]
        self.sent = entry["communication"]["p2p"]["bytes"]
        return entry.get("copies")

    def test_what_is_staged_is_what_is_sent(self):
        staged, device = self.copied("staged"), self.copied("device")
        for name in ("min", "mean", "max"):
            self.assertEqual(staged["to_host"][name], self.sent[name])
            self.assertEqual(staged["to_device"][name], self.sent[name])
            self.assertEqual(device["to_host"][name], 0)
            self.assertEqual(device["to_device"][name], 0)
        self.assertGreater(staged["seconds"]["min"], 0)
        self.assertEqual(device["seconds"]["max"], 0)
        # Packed, unpacked, and ghosts of one's own along the two other directions.
        self.assertGreater(device["moved"]["min"], 2 * self.sent["min"])
        self.assertEqual(staged["moved"], device["moved"])

    def test_host_memory_has_none(self):
        self.assertIsNone(self.copied("host"))


def copies(ranks: int, *arguments: str, **options: str) -> Outcome:
    return launch(KERNELS["bisection-device"], ranks, *arguments, **options)


class Copies(unittest.TestCase):
    """The kernel of copies: every byte, in every order, with one device and with several."""

    def test_every_copy_is_verified(self):
        orders = itertools.cycle(ORDERS)
        for runtime, ranks, devices in itertools.product(RUNTIMES, (1, 2, 3), ("1", "2", "3")):
            known = {"runtime": runtime, "FAKE_DEVICES": devices, "FAKE_ORDER": next(orders)}
            out = copies(ranks, "--bytes", "100000", "--repeats", "2", aware=False, **known)
            with self.subTest(ranks=ranks, **known):
                self.assertEqual(out.code, 0, out.stdout + out.stderr)
                alone = {"peer": "a rank sees one device alone, or all others refuse it"}
                alone = alone if devices == "1" else {}
                self.assertEqual(inapplicable(out), alone)
                self.assertEqual(misfit(out), "")
                listed = out.result["details"]["copies"]
                self.assertEqual([each["rank"] for each in listed], list(range(ranks)))
                for each in listed:
                    peers = {rate["peer"] for rate in each["rates"] if rate["method"] == "peer"}
                    self.assertEqual(len(peers), int(devices) - 1)
                    self.assertNotIn(each["id"], peers)
                    self.assertTrue(all(rate["rate"] > 0 for rate in each["rates"]))

    def test_who_is_reached_directly(self):
        """The fake runtime copies only between devices that were enabled, or are apart."""
        for peers, direct in ((None, True), ("open", True), ("apart", False)):
            for runtime in ("cuda", "hip"):
                how = {"FAKE_PEERS": peers} if peers else {}
                out = copies(2, "--method", "peer", "--bytes", "8192", runtime=runtime, **how)
                with self.subTest(peers=peers, runtime=runtime):
                    self.assertEqual(out.code, 0, out.stdout + out.stderr)
                    rates = [r for each in out.result["details"]["copies"] for r in each["rates"]]
                    self.assertEqual([rate["direct"] for rate in rates], [direct] * 2)

    def test_a_device_that_refuses_is_no_peer(self):
        """Of rank 1: it begins on the second device."""
        for runtime, devices in (("cuda", "3"), ("hip", "2")):
            how = {"runtime": runtime, "FAKE_DEVICES": devices, "FAKE_TAKEN": "0"}
            out = copies(2, "--bytes", "8192", "--repeats", "1", **how)
            with self.subTest(**how):
                self.assertEqual(out.code, 0, out.stdout + out.stderr)
                alone = "a rank sees one device alone, or all others refuse it"
                self.assertEqual(inapplicable(out), {} if devices == "3" else {"peer": alone})
                first, second = out.result["details"]["copies"]
                self.assertEqual(first["refused"], [])
                reason = "error 46, as asked for"
                self.assertEqual(second["refused"], [{"peer": first["id"], "reason": reason}])
                peers = {rate["peer"] for rate in second["rates"] if "peer" in rate}
                self.assertEqual(len(peers), int(devices) - 2)
                self.assertNotIn(first["id"], peers)

    def test_rate_is_that_of_the_slowest(self):
        out = copies(3, "--bytes", "100000", "--repeats", "3", aware=False)
        for entry in out.result["results"]:
            rates = [
                rate["rate"]
                for each in out.result["details"]["copies"]
                for rate in each["rates"]
                if rate["method"] == entry["method"]
            ]
            self.assertAlmostEqual(entry["metrics"]["rate"]["value"] / min(rates), 1)

    def test_refusals(self):
        out = copies(2, runtime="none")
        assert_refused(self, out, 2, "copies: rank 0 on host ")
        out = copies(3, "--ranks-per-device", "1")
        assert_refused(self, out, 2, "copies: 2 ranks of host ")
        out = copies(1, "--bytes", "1000000000")
        assert_refused(self, out, 2, "copies: needs ")


class Refusals(unittest.TestCase):
    """One line each, before anything is measured."""

    def refused(self, line: str, out: Outcome, code: int = 2) -> None:
        with self.subTest(line=line):
            self.assertEqual(out.code, code, out.stdout + out.stderr)
            (own,) = [text for text in out.stderr.splitlines() if text.startswith("bisection-")]
            self.assertRegex(own, line)

    def test_no_device(self):
        rank = r"bisection-unit: --buffers device: rank 0 on host \S+: "
        self.refused(
            rank + r"no runtime library is found: neither libcudart.so.11.0, .12, .13 nor "
            r"libamdhip64.so.5, .6, .7$",
            unit(2, runtime="none"),
        )
        hidden = {"FAKE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "7", "ROCR_VISIBLE_DEVICES": "7"}
        without = r"this host has no driver of a device: error \d+, as asked for$"
        invisible = r"no device is visible, (CUDA|ROCR)_VISIBLE_DEVICES is 7$"
        self.refused(rank + "libcudart.so.12: " + invisible, unit(2, **hidden))
        self.refused(rank + "libcudart.so.12: " + without, unit(2, FAKE_FAIL="driver"))
        reason = invisible if Path("/dev/kfd").exists() else without
        self.refused(rank + "libamdhip64.so.5: " + reason, unit(2, runtime="hip5", **hidden))
        self.refused(
            r"--buffers staged: rank 1 on host \S+: libcudart.so.12: no device is visible, "
            r"CUDA_VISIBLE_DEVICES is not set",
            unit(2, "staged", before=f"FAKE_DEVICES=$((1 - {RANK}))"),
        )

    def test_too_few_devices(self):
        self.refused(
            r"--buffers device: 2 ranks of host \S+ are on device 0000:01:00.0/\w+, more than "
            r"--ranks-per-device 1$",
            unit(3, most=1),
        )
        self.refused(
            r"ranks 0 and 1 of host \S+ share device 0000:01:00.0/\w+, while another has none$",
            unit(2, before=f"FAKE_DEVICES=$((2 - {RANK}))"),
        )
        self.refused(
            r"ranks 0 and 2 of host \S+ share device \S+, while another has fewer ranks$",
            unit(4, before=f"FAKE_FIRST=$(({RANK} / 3))", FAKE_DEVICES="1"),
        )

    def test_too_little_memory(self):
        """400,000 B for each rank, of whom two are on the first device."""
        out = unit(3, FAKE_FREE="799999")
        device = r"device 0000:01:00.0/\w+ of host \S+"
        line = rf"needs 0.000745058 GiB on {device}, which has 0.000745057 GiB free$"
        self.refused(line, out)
        self.assertEqual(unit(3, FAKE_FREE="800000").code, 0)
        self.assertEqual(unit(2, FAKE_FREE="400000").code, 0)

    def test_mpi_is_not_aware(self):
        line = r"--buffers device: MPI does not take addresses of a device: "
        asked = r"(it has no MPIX_Query_cuda_support\(\)|MPIX_Query_cuda_support\(\) is 0)$"
        self.refused(line + asked, unit(1, aware=False))
        self.refused(line + r"MPIX_Query_cuda_support\(\) is 0$", unit(2, AWARE_SAYS="no"))
        self.refused(
            line + r"MPIX_Query_hip_support\(\) is 0$", unit(1, runtime="hip", AWARE_SAYS="no")
        )
        ucx = "" if "libucp.so.0" in unit(1, LD_DEBUG="files").stderr else "ucx"
        if ucx:
            self.assertEqual(unit(1, UCX_TLS="self,sm").code, 0)
        for off in ("self,sm", "^cuda", "^cuda_copy,cuda_ipc"):
            says = f"UCX_TLS is {re.escape(off)}, without cuda$"
            self.refused(line + says, unit(1, loaded=ucx, UCX_TLS=off))
        for allowed in ("^ib", "self,sm,cuda_copy", "all"):
            self.assertEqual(unit(1, loaded=ucx, UCX_TLS=allowed).code, 0)
        self.assertEqual(unit(1, runtime="hip", loaded=ucx, UCX_TLS="^cuda").code, 0)
        first = "MVAPICH takes the first device before a kernel can choose; let each rank see one$"
        self.refused(line + first, unit(1, AWARE_SAYS="mvapich"))
        self.assertEqual(unit(1, AWARE_SAYS="mvapich", FAKE_DEVICES="1").code, 0)
        cray = line + "MPICH_GPU_SUPPORT_ENABLED is "
        self.refused(cray + "not set$", unit(1, AWARE_SAYS="cray"))
        self.refused(cray + "0$", unit(1, AWARE_SAYS="cray", MPICH_GPU_SUPPORT_ENABLED="0"))

    def test_what_transposes_need(self):
        kernel, small = KERNELS["bisection-transpose"], ("--grid", "6,5,4", "--transpose-only")
        for line, arguments, failing in (
            ("bx_move does not compile: error: as asked for$", small, "nvrtcCompileProgram"),
            ("bx_move does not compile: error 1$", small, "nvrtcCreateProgram"),
            ("without --published, whose copies the host makes$", (*small, "--published"), ""),
            (
                r"libcufft.so.11: PlanMany failed, of \d+ FFTs of 1 x 4: error 2, no memory$",
                small[:2],
                "cufftPlanMany",
            ),
            (
                r"libcufft.so.11: SetStream failed, of .*: error 1, invalid plan$",
                small[:2],
                "cufftSetStream",
            ),
        ):
            out = launch(kernel, 2, "--buffers", "device", *arguments, FAKE_FAIL=failing)
            self.refused("bisection-transpose: --buffers device: .*" + line, out)
        out = launch(kernel, 1, "--buffers", "staged", *small[:2], FAKE_FAIL="cufftExecZ2Z")
        self.refused("libcufft.so.11: ExecZ2Z failed: error 6, execution$", out, 3)

    def test_libraries_that_lack_something(self):
        fake, other = FOLDER / "cuda/libcudart.so.12", FOLDER / "libaware.so"
        names = ("libcudart.so.12", "libnvrtc.so.12", "libcuda.so.1", "libcufft.so.11")
        for name, file, line in (
            ("libnvrtc.so.12", None, "no compiler is found: libnvrtc.so.12 fits libcudart.*"),
            ("libnvrtc.so.12", other, "libnvrtc.so.12 has no function GetCUBIN"),
            ("libcuda.so.1", other, "libcuda.so.1 has no function LaunchKernel"),
            ("libcufft.so.11", None, "no FFT library is found: libcufft.so.11 fits libcudart.*"),
            ("libcufft.so.11", other, "libcufft.so.11 has no function GetVersion"),
        ):
            with tempfile.TemporaryDirectory() as folder:
                for library in names:
                    if (there := file if library == name else fake) is not None:
                        Path(folder, library).symlink_to(there)
                where = ("--grid", "6,5,4", "--buffers", "staged")
                out = launch(KERNELS["bisection-transpose"], 1, *where, runtime=folder)
                self.refused(rf"--buffers staged: rank 0 on host \S+: {line}$", out)
                if name == "libcufft.so.11":  # exchanges need none
                    only = (*where, "--transpose-only", "--repeats", "1")
                    out = launch(KERNELS["bisection-transpose"], 1, *only, runtime=folder)
                    self.assertEqual(out.code, 0, out.stdout + out.stderr)

    def test_calls_that_fail(self):
        line = r"bisection-unit: rank 0 on host \S+: libcudart.so.12: "
        out = unit(1, FAKE_FAIL="cudaMalloc")
        self.refused(line + "Malloc failed: error 2, out of memory$", out, 3)
        out = unit(1, FAKE_FAIL="cudaStreamSynchronize")
        self.refused(line + "StreamSynchronize failed: error 700, as asked for$", out, 3)
        out = unit(1, FAKE_FAIL="cudaDeviceGetPCIBusId")  # before a device is chosen
        self.refused(line + "DeviceGetPCIBusId failed: error 700, as asked for$", out, 3)


if __name__ == "__main__":
    PATTERNS, UNIT = sys.argv[1:3]
    KERNELS = {Path(word).name: word for word in sys.argv[3:] if "/" in word}
    kernel_run.main(*sys.argv[3 + len(KERNELS) :])
