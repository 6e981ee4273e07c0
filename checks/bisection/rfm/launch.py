"""One build per environment, one launch per geometry.

    Build        fixture   the kernels, by CMake or by Spack, as the environment says
    Launch       fixture   runs one kernel once: every method, interleaved, at one case and layout
    KernelCheck  test      judges one method of a launch (check.py)

A check file names the kernel, its cases and methods and the metrics it asserts; all else is here.
Only ReFrame and the standard library are imported.
"""

import inspect
import json
import os
import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import reframe as rfm
import reframe.utility.sanity as sn
import reframe.utility.typecheck as typ
from reframe.core.builtins import (
    fixture,
    loggable,
    parameter,
    run_after,
    run_before,
    sanity_function,
    variable,
)
from reframe.core.exceptions import SanityError
from reframe.core.runtime import runtime

from bisection.core import paths
from bisection.core.identity import Geometry
from bisection.core.reasons import OUTER_FAULTS, read_reason
from bisection.core.reasons.base import Reason, Text, as_data
from bisection.core.reasons.launches import (
    Blocked,
    Infrastructure,
    KernelsKept,
    KernelsStale,
    LeftOut,
    Misplaced,
    NodeFail,
    Remarks,
    exited,
)
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import KernelExit
from bisection.kernels import (
    adapters,
    build_folder,
    digests,
    launch_faults,
    launch_record,
    layouts,
    results,
)
from bisection.kernels.launch_faults import Ended
from bisection.kernels.launch_record import LaunchRecord
from bisection.kernels.layouts import LAYOUTS, DoesNotFit
from bisection.kernels.results import ResultError
from bisection.rfm import internals, queue
from bisection.schedulers.scheduler import hosts_of
from bisection.schedulers.slurm import NODELIST

internals.give_back_temporary_folder()
internals.start_scripts_below_blanks()
internals.hasten()
internals.take_over_slurm(queue.submit, queue.free_blocked, queue.overdue)
internals.submit_within(queue.allowed)
internals.limit_posts(LIMITS.notify)
if "dependency=singleton" in sys.argv:  # launches run one at a time, however many are queued
    internals.queue_at_once(1000)
if queue.spots:
    # One at a time is for launches that share nodes.
    internals.queue_at_once(queue.at_once, above=1)

# Environment variables that begin so change what MPI does.
TUNING = (
    "OMPI_MCA|PMIX_MCA|PRTE_MCA|MPICH|MPIR_CVAR|MVAPICH|MVP|MV2|I_MPI|UCX|FI|HCOLL|PSM2|PSM3|"
    "CRAY_OFI"
)
# Those that begin so change what devices do, but paths: of software, or of a job's own folder.
DEVICES = "CUDA|NVIDIA|ROCR|HIP|HSA|GPU|ZE"
SECRETS = "KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL"
NO_PATHS = f"^({DEVICES})_[^=]*=([^=]*:)?/|^NVIDIA_REQUIRE_|^[^=]*({SECRETS})[^=]*="
# Which devices a job has differs from job to job: the record has their number.
COUNT = (
    r"awk -F, '/^[^=]*(_VISIBLE_DEVICES|_DEVICE_ORDINAL|ZE_AFFINITY_MASK)=[^a-z]/ "
    r"""{ n = /=(-1|NoDevFiles)/ ? 0 : NF; sub(/=.*/, "=" n " of them") } 1'"""
)
# In a job script: records what is so named, and the modules that are loaded.
RECORD = (
    f"env | grep -E '^(({TUNING}|{DEVICES})_|LOADEDMODULES=)' | grep -vE '{NO_PATHS}' "
    f"| {COUNT} | sort >environment || true"
)
# The feature of partitions that SimGrid simulates.
SIMULATED = "simulated"
# Facts of a build by Spack -> their names in what it returns.
SPACK_FACTS = {
    "lock": "lock_hash",
    "software": "software_hash",
    "Spack": "spack_commit",
    "Spack packages": "packages_commit",
}


class Reporting(rfm.RegressionTestPlugin):
    """The reports of a test: its description, and reasons as JSON."""

    reason = variable(str, value="", loggable=True)  # why it failed
    remark = variable(str, value="", loggable=True)  # what a person should know though it passed
    not_applicable = variable(str, value="", loggable=True)  # why there is nothing to measure

    @run_after("init")
    def describe(self) -> None:
        """Describes it in ReFrame's lists by the first line of its docstring, or of its base's."""
        self.descr = (inspect.getdoc(type(self)) or "").partition("\n")[0]

    def fail_for(self, reason: Reason, error: type[Exception] = SanityError) -> NoReturn:
        """Ends the test for a reason. The run's verdict has it from ReFrame's report; `error` is
        its kind there."""
        self.reason = reason.dumps()
        raise error(str(reason))

    def add_remark(self, remark: Reason) -> None:
        if earlier := read_reason(self.remark):
            known = earlier.remarks if isinstance(earlier, Remarks) else (earlier,)
            remark = Remarks((*known, remark))
        self.remark = remark.dumps()

    def skip_for(self, reason: Reason) -> None:
        self.not_applicable = reason.dumps()
        self.skip(str(reason))


def recorded(folder: str) -> dict[str, str]:
    """The facts that RECORD left in the folder of a job; empty if the job did not come to it."""
    try:
        lines = Path(folder, "environment").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    modules = [line.partition("=")[2] for line in lines if line.startswith("LOADEDMODULES=")]
    tuning = [line for line in lines if not line.startswith("LOADEDMODULES=")]
    lists = {"modules": ":".join(modules).split(":"), "MPI environment": tuning}
    return {name: ", ".join(filter(None, items)) or "none" for name, items in lists.items()}


def environments() -> list[str]:
    """The `valid_prog_environs` of all checks: the environments with the feature `kernels`.

    Those that Spack provisions, which may take an hour, must be named by ReFrame's -p.
    """
    named = runtime().get_option("general/0/valid_env_names")
    return ["+kernels -spack"] if named == [".*"] else ["+kernels"]  # .* is ReFrame's default


def within_queue(limit: float, partition: Any) -> float:
    """A time limit (s), no longer than the partition's queue allows (extras.max_time)."""
    return min(limit, partition.extras.get("max_time", limit))


class Build(rfm.RegressionTest, Reporting):
    """The kernels, built or kept.

    They are built once per environment; the run lists what was installed. CMake builds them with
    the compilers and libraries that it finds, unless an equal build is in the environment's folder
    (bisection.kernels.build_folder). For an environment with the feature `spack`,
    bisection.kernels.spack installs them. A suite that is a package has kernels of its own, for
    environments without modules and CMake options. `-S Build.kernels=DIR` takes DIR/bin instead.
    Kernels that were built from other sources than this checkout's are refused; `-S
    Build.stale=yes` (`bisection run --stale`) accepts them, with a remark.
    """

    valid_systems = ["*"]
    valid_prog_environs = environments()
    sourcesdir = None
    build_system: Any = "CMake"  # ReFrame makes an object of it, and seconds of times
    build_locally = True  # but choose_host
    build_time_limit: Any = "2h"
    max_pending_time: Any = "1d"  # an unplaceable job must not wait for ever
    executable = "ls"  # a compile-only test has no job, and trap_job_errors (4.10.4) needs one
    local = True

    kernels = variable(str, value="")  # a folder with installed kernels
    stale = variable(bool, value=False)  # kernels of other sources are accepted
    built_from = variable(typ.Dict[str, str], value={})
    prefix_dir = variable(str, value="")  # what was built is in prefix_dir/bin
    left_out = variable(typ.Dict[str, str], value={})  # kernels that lack a library, and which
    mpi_bin = variable(str, value="")  # where the mpirun of these kernels is, if not on PATH

    @run_after("setup")
    def choose_host(self) -> None:
        """On a node of the partition, whose processor the compilers then optimise for.

        Here, where the site file names that processor (extras.march), and where Spack needs this
        host's network and knows the processor from its own files.
        """
        partition = self.current_partition
        if self._ready_made() or "march" in partition.extras or partition.scheduler.is_local:
            return
        internals.build_on_node(self, queue.until_deadline(self.max_pending_time))
        self.build_time_limit = within_queue(self.build_time_limit, partition)
        # Cores: Slurm may count one CPU per core where the hardware has two threads of each.
        cores = self.build_job.num_cpus_per_task = partition.processor.num_cores
        queue.ask(self.build_job, Geometry(1, 1, cores), self.build_time_limit)

    def _ready_made(self) -> str:
        """The command that gets kernels from elsewhere; "" where CMake builds them here."""
        environ, partition = self.current_environ, self.current_partition
        if self.kernels:
            return "true"
        if "spack" in environ.features:
            system = environ.extras.get("spack_env", "auto")
            return f"{{python}}.spack install --system {system} >installation.json"
        own = environ.modules or partition.local_env.modules or environ.extras.get("cmake")
        if paths.INSTALLATION.exists() and not own:
            return f"cp {shlex.quote(str(paths.INSTALLATION))} installation.json"
        return ""

    @run_before("compile")
    def choose_builder(self) -> None:
        """CMake, Spack, or nothing where installed kernels are given.

        The build script names the build's folder: all that the build does must stand in it.
        """
        if late := queue.late():
            self.fail_for(late)
        self.prebuild_cmds += [RECORD]
        path = f"PYTHONPATH={shlex.quote(str(paths.ROOT / 'checks'))}"
        python = f"{path} {shlex.quote(sys.executable)} -m bisection.kernels"
        if command := self._ready_made():
            self.prefix_dir = os.path.abspath(self.kernels) if self.kernels else ""
            self.build_system = "CustomBuild"
            self.build_system.commands = [command.format(python=python)]
        else:
            find = f"{python}.build_folder find rfm_build.sh >installation.json"
            self.prebuild_cmds += [f"if {find}; then exit; fi"]
            # ReFrame writes it into a shell script as it is.
            self.build_system.configuredir = shlex.quote(str(paths.ROOT / "src"))
            self.build_system.builddir = "build"
            self.build_system.config_opts = ["-DCMAKE_BUILD_TYPE=Release", "-DBX_TESTS=OFF"]
            self.build_system.config_opts += self.current_environ.extras.get("cmake", [])
            if march := self.current_partition.extras.get("march"):
                self.build_system.config_opts.append(f"-DBX_MARCH={march}")
            self.build_system.max_concurrency = self.build_job.num_cpus_per_task or os.cpu_count()
            keep = f"{python}.build_folder keep rfm_build.sh >installation.json"
            self.postbuild_cmds += [keep]

    @run_after("compile")
    def run_here(self) -> None:
        self.local = True

    @loggable  # type: ignore[prop-decorator]  # as ReFrame wants it
    @property
    def facts(self) -> dict[str, str]:
        """Spack's lock and commits, and the modules; of a build that failed, what it came to."""
        known = self.built_from or not self.stagedir  # a log of all may ask before the set-up
        return self.built_from if known else self._read_facts()

    def _installation(self) -> dict[str, Any]:
        try:
            return json.loads(Path(self.stagedir, "installation.json").read_text())
        except (OSError, ValueError):
            return {}

    def _read_facts(self) -> dict[str, str]:
        installation = self._installation()
        texts = {name: installation.get(key, "") for name, key in SPACK_FACTS.items()}
        facts = {**texts, "modules": recorded(self.stagedir).get("modules", "")}
        return {name: text for name, text in facts.items() if text}

    @run_before("run")
    def find_installed(self) -> None:
        """Finds the kernels. Fails if there are none, or if one was built from other sources than
        the checkout's, unless `stale`."""
        self.built_from = self._read_facts()
        if installation := self._installation():
            self.prefix_dir = installation["prefix"]
            if installation.get("kept"):
                self.add_remark(KernelsKept(built=installation["built"]))
            # the machine's own mpirun is on PATH; another MPI library's is its own
            if installation.get("mpi_prefix", "") not in ("", "/usr"):
                self.mpi_bin = os.path.join(installation["mpi_prefix"], "bin")
        folder = os.path.join(self.prefix_dir, "bin")
        self.executable_opts = [shlex.quote(folder)]
        if self.is_dry_run():
            return
        self.left_out = build_folder.left_out(Path(folder))
        if self.left_out:
            self.add_remark(LeftOut(tuple(self.left_out.values())))
        kernels = sorted(Path(folder).glob("bisection-*"))
        if not kernels:
            fault = launch_faults.of_job(self.build_job, Ended())
            if isinstance(fault, Blocked):
                fault = queue.late() or fault
            self.fail_for(fault or Text(f"no bisection-* in {folder}"))
        wanted, built = digests.of_checkout(), map(digests.built_into, kernels)
        pairs = zip(kernels, built, strict=True)
        kernel, other = next((pair for pair in pairs if pair[1] != wanted), (None, ""))
        if kernel:
            reason = KernelsStale(kernel=str(kernel), built=other[:12], checkout=wanted[:12])
            if not self.stale:
                self.fail_for(reason)
            self.add_remark(replace(reason, accepted=True))

    @sanity_function
    def installed(self) -> Any:
        """Checks that there are kernels (deferred, as ReFrame wants it)."""
        return sn.assert_found(r"^bisection-", self.stdout)


class Launch(rfm.RunOnlyRegressionTest, Reporting):
    """Runs one kernel once, all its methods interleaved, and keeps its result.

    Passes if the kernel ran to its end, as it was placed to run. Whether each method's answer is
    right, and fast, is for the judges; a kernel's exit code 1 (wrong answer) is therefore accepted
    here if the result says which method was wrong.
    """

    valid_systems = ["*"]
    valid_prog_environs = environments()
    time_limit: Any = "15m"  # seconds, once ReFrame has it
    max_pending_time: Any = "1d"  # an unplaceable job must not wait for ever
    keep_files = ["result.json", launch_record.FILE]
    env_vars: Any

    build = fixture(Build, scope="environment")
    layout = parameter(list(LAYOUTS), loggable=True)
    case = parameter(loggable=True)

    kernel = variable(str)  # bisection-<kernel> is run
    kernel_case = variable(str)  # its own case: `case`, but of a launch that sets another one
    least_nodes = variable(int, value=1)  # fewer have nothing to measure
    least_ranks = variable(int, value=1)  # per node, likewise
    cores_needed = variable(typ.Dict[str, int], value={})  # by case; minutes on fewer
    # Options beside --case, --method, --output and --label, per case: what is computed, which the
    # store keeps with every number, as other work is another test; how often it is sampled.
    work = variable(typ.Dict[str, str], value={}, loggable=True)
    sampling = variable(typ.Dict[str, str], value={})
    usual_sampling = variable(str, value="--repeats 6 --block 2 --warmup 0")  # of other cases
    methods = variable(typ.Dict[str, str], value={})  # those to measure, where not all
    buffers = variable(str, value="host", loggable=True)  # host, or of bisection.rfm.buffers
    # Further options, for all cases.
    options = variable(typ.List[str], value=[])
    # Its number in a campaign over every node, of which each has nodes of its own.
    spot: Any = (
        parameter([*queue.spots], loggable=True)
        if queue.spots
        else variable(int, value=-1, loggable=True)
    )
    # On a simulated partition: whether the kernel charges what it computes there, and options.
    simulates = variable(bool, value=True)
    simulated_options = variable(typ.List[str], value=[])

    @run_after("init")
    def begin_record(self) -> None:
        self.kernel_case = self.case
        self.record = LaunchRecord(self.kernel)

    @loggable  # type: ignore[prop-decorator]  # as ReFrame wants it
    @property
    def launch_record(self) -> dict[str, Any]:
        return as_data(self.record)

    @run_after("setup")
    def lay_out(self) -> None:
        """Ranks and threads of the layout on this partition; skips a layout that does not fit."""
        processor = self.current_partition.processor
        extras = self.current_partition.extras
        if not processor.num_cores:
            lacks = "the site file does not give the cores of"
            self.fail_for(Text(f"{lacks} {self.current_partition.fullname}"))
        if self._is_simulated and not self.simulates:
            self.skip_for(Text(f"bisection-{self.kernel} is not simulated"))
        try:
            nodes, cores = int(extras.get("nodes", 1)), processor.num_cores
            nodes = len(queue.spots[self.spot][1]) if queue.spots else nodes
            devices = layouts.devices_of(self.current_partition)
            shape = layouts.geometry(self.layout, cores, nodes, processor.topology, devices)
        except DoesNotFit as error:
            self.skip_for(Text(str(error)))
        for unit, needed, there in (
            ("nodes", self.least_nodes, shape.nodes),
            ("ranks per node", self.least_ranks, shape.ranks_per_node),
            ("cores", self.cores_needed.get(self.case, 1), shape.cores),
        ):
            if there < needed:
                self.skip_for(Text(f"needs {needed} {unit}, a launch here has {there}"))
        self.place(shape, shape.ranks)

    def place(self, shape: Geometry, ranks: int) -> None:
        """Asks for ranks and threads of a geometry, whose last node may have fewer ranks."""
        self.time_limit = within_queue(self.time_limit, self.current_partition)
        self.shape = shape
        self._note(geometry=str(shape), work=self.work.get(self.case, ""))
        self.num_tasks = ranks
        self.num_tasks_per_node = shape.ranks_per_node
        self.num_cpus_per_task = shape.threads
        self.use_multithreading = False
        self.env_vars = {
            "OMP_NUM_THREADS": shape.threads,
            "OMP_PLACES": "cores",
            "OMP_PROC_BIND": "close",
            # To srun: a rank that dies ends the others, which would wait for the time limit.
            "SLURM_KILL_BAD_EXIT": 1,
            **self.env_vars,
        }

    @run_before("run")
    def compose(self) -> None:
        """The job script: the kernel's command line, and what is recorded around it."""
        if late := queue.late():
            self.fail_for(late)
        if self.kernel in self.build.left_out:
            self.skip_for(LeftOut((self.build.left_out[self.kernel],)))
        extras = self.current_partition.extras | self.current_environ.extras
        self.job.launcher.options += layouts.bindings(extras.get("binding", []), self.shape)
        self.max_pending_time = queue.until_deadline(self.max_pending_time)
        queue.ask(self.job, self.shape, self.time_limit)
        if queue.spots:
            self.job.options.append(f"{NODELIST}{','.join(queue.spots[self.spot][1])}")
        self.job.options += queue.nodelist(self.current_partition.fullname, self.unique_name)
        cores = str(extras.get("granted") or self.current_partition.processor.num_cores)
        facts = {**self.build.facts, "cores": cores}
        self._note(facts=facts)  # also of a launch that does not start
        labels = {
            "system": self.current_system.name,
            "partition": self.current_partition.name,
            "environ": self.current_environ.name,
            "layout": self.layout,
            **{name.lower().replace(" ", "_"): facts.get(name) for name in SPACK_FACTS},
        }
        executable = os.path.join(self.build.prefix_dir, "bin", f"bisection-{self.kernel}")
        self.executable = shlex.quote(executable)
        sampling = [self.sampling.get(self.case, self.usual_sampling)]
        if self._is_simulated:  # its clock is exact
            sampling = ["--repeats 1 --block 1 --warmup 0", *self.simulated_options]
        self.executable_opts = [
            f"--case {self.kernel_case}",
            *filter(None, [self.work.get(self.case)]),
            *sampling,
            *self.options,
            *self._buffer_options(extras),
            f"--method {self.methods.get(self.case, 'all')}",
            f"--expect-ranks {self.num_tasks}",
            "--output result.json",
            *(f"--label {key}={value}" for key, value in labels.items() if value),
            # A wrong answer is for the judges; anything else ends the job with the code.
            "|| code=$?",
        ]
        if self.build.mpi_bin:
            self.prerun_cmds.append(f"export PATH={shlex.quote(self.build.mpi_bin)}:$PATH")
        if self.current_partition.scheduler.is_local:
            # The script waits for a launcher that is told to end, and so clears shared memory and
            # its folder: ReFrame kills what is left as soon as the script has ended.
            self.prerun_cmds.append("trap : TERM")
        self.prerun_cmds += [RECORD, "code=0"]  # here, where it is what the ranks see
        self.postrun_cmds = ["echo $code >exit_code", "test $code -le 1 || exit $code"]

    @run_before("sanity")
    def read_exit_code(self) -> None:
        """Fails if the launch was stopped, or the kernel ended otherwise than with an answer."""
        if self.is_dry_run():
            return
        exit_code = self._read("exit_code").strip()
        is_local = self.current_partition.scheduler.is_local
        self.ended = Ended(
            kernel=self.kernel,
            folder=self.stagedir,
            exit_code=int(exit_code) if exit_code else None,
            errors=self._read(self.job.stderr),
            output=self._read(self.job.stdout),
            hosts=hosts_of(self.job.nodelist),
            nodes=self.shape.nodes,
            cpus=len(os.sched_getaffinity(0)) if is_local else None,
        )
        ended_with, fault = launch_faults.of_launch(self.job, self.ended)
        facts = {**self.record.facts, **recorded(self.stagedir)}
        self._note(exit_code=ended_with, facts=facts, seconds=(self._seconds_held(),))
        self.record.write(self.stagedir)  # also of a launch that fails
        if isinstance(fault, Blocked):
            self.fail_for(queue.late() or fault)
        fault = fault and (self._full_disk() or fault)
        if fault:
            places = launch_faults.places_of(self.stagedir)
            self._note(hosts=tuple(sorted({place.host for place in places})))
            # Misplaced ranks explain a launch that did not end as it should.
            by_ranks = places and not isinstance(fault, (NodeFail, *OUTER_FAULTS))
            if by_ranks and (wrong := self._misplaced(places)):
                self.fail_for(Misplaced(seats=tuple(wrong), fault=fault))
            self.fail_for(fault)
        internals.accept_exit(self.job)

    @sanity_function
    def ran_as_asked(self) -> bool:
        """True if the result is whole and the ranks ran where they should; keeps it in `result`."""
        try:
            self.result = result = results.load(self.ended.result, self.kernel, self.kernel_case)
        except ResultError as error:
            line = launch_faults.last_line(self.ended.errors, self.kernel, any_line=True)
            self.fail_for(self._full_disk() or Text(str(error), line=line))
        if late := results.late(result):
            self.add_remark(Text(late))
        claimed = self.current_partition.extras.get("network", [])
        notes = launch_faults.notes_of(self.ended, results.hosts(result))
        record = self.record = self.record.with_result(result, claimed, notes)
        record.write(self.stagedir)
        wrong_exit = record.exit_code == KernelExit.WRONG_ANSWER
        if wrong_exit != bool(record.wrong) or result["verified"] is bool(record.wrong):
            methods = f"wrong: {', '.join(record.wrong) or 'none'}"
            says = f"its result has verified: {result['verified']}, {methods}"
            self.fail_for(Text(f"{self.kernel} {exited(record.exit_code)}, but {says}"))
        baselines = {entry["method"] for entry in result["results"] if entry["baseline"]}
        for name in sorted(baselines.intersection(record.wrong)):
            self.fail_for(Text(f"the baseline {name} gave a wrong answer"))
        if wrong := self._misplaced(layouts.places(result["layout"])):
            self.fail_for(Misplaced(seats=tuple(wrong)))
        if unused := adapters.unused(result, claimed):
            self.fail_for(Text(unused))
        return True

    def _buffer_options(self, extras: Mapping[str, Any]) -> list[str]:
        """Of launches on devices: what memory, and which device a rank has."""
        if self.layout not in layouts.ON_DEVICES:
            return []
        buffers = [] if self.buffers == "host" else [f"--buffers {self.buffers}"]
        order = extras.get("device_order")
        return [*buffers, *([f"--devices {order}"] if order else [])]

    def _seconds_held(self) -> float:
        """Seconds from the first line of the job script to the last, by the files that these leave:
        ReFrame's own have the queue in them. Of a job that was stopped, to now; 0 without a job."""
        began, ended = (Path(self.stagedir, name) for name in ("environment", "exit_code"))
        if not began.exists():
            return 0.0
        end = ended.stat().st_mtime if ended.exists() else time.time()
        return max(end - began.stat().st_mtime, 0.0)

    def _note(self, **facts: Any) -> None:
        self.record = replace(self.record, **facts)

    def _misplaced(self, places: list[layouts.Place]) -> list[Reason]:
        topology = self.current_partition.processor.topology or {}  # a site file need not give it
        return layouts.misplaced(places, self.shape, topology.get("cores"))

    def _full_disk(self) -> Reason | None:
        """The fault if nothing can be written to the stage folder, else None."""
        said = paths.unwritable(self.stagedir)
        return Infrastructure(why=said) if said else None

    @property
    def _is_simulated(self) -> bool:
        return SIMULATED in self.current_partition.features

    def _read(self, name: Any) -> str:
        return paths.text_of(Path(self.stagedir, str(name)))
