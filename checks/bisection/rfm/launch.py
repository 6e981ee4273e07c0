"""One build an environment, one launch a geometry, one verdict a method.

    Build        fixture   the kernels, by CMake or by Spack, as the environment says
    Launch       fixture   runs one kernel once: every method, interleaved, at one case and layout
    KernelCheck  test      reads the launch's result file and judges one method of it

A check file names the kernel, its cases and methods and the metrics it asserts; all else is here.
Only ReFrame and the standard library are imported.
"""

import contextlib
import json
import os
import re
import shlex
import signal
import sys
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
import reframe.utility.typecheck as typ
from reframe.core.exceptions import SanityError

from bisection.core import paths
from bisection.kernels import layouts, results
from bisection.kernels.layouts import LAYOUTS, DoesNotFit
from bisection.kernels.results import ResultError
from bisection.rfm import scheduler_faults
from bisection.rfm.scheduler_faults import SLURM

# Environment variables that begin so change what MPI does.
TUNING = "OMPI_MCA|PMIX_MCA|PRTE_MCA|MPICH|MVAPICH|MV2|I_MPI|UCX|FI|HCOLL|PSM2|PSM3|CRAY_OFI"


class Build(rfm.RegressionTest):
    """The kernels, built once per environment; the run lists what was installed.

    An environment with the feature `spack` is provisioned by
    bisection.kernels.spack; any other is built by
    CMake with the compilers and libraries it finds. `-S Build.kernels=DIR` takes DIR/bin instead.
    """

    valid_systems = ["*"]
    valid_prog_environs = ["+kernels"]
    sourcesdir = None
    build_system = "CMake"
    build_locally = True
    build_time_limit = "2h"
    executable = "ls"  # a compile-only test has no job, and trap_job_errors (4.10.4) needs one
    local = True

    kernels = variable(str, value="")  # a folder with installed kernels
    lock = variable(str, value="", loggable=True)  # hash of the Spack lock
    software = variable(str, value="", loggable=True)  # of the packages alone, without paths
    prefix_dir = variable(str, value="")  # what was built is in prefix_dir/bin
    mpi_bin = variable(str, value="")  # where the mpirun of these kernels is, if not on PATH

    @run_before("compile")
    def choose_builder(self):
        # Beside the stage folder, which is emptied: what --reruns runs again is not built again.
        first = re.sub(r"_retry\d+$", "", self.stagedir)
        installed = f"{first}-installed"
        if first != self.stagedir and Path(installed).is_dir():
            self.kernels = installed
        if self.kernels:
            self.prefix_dir = os.path.abspath(self.kernels)
            self.build_system = "CustomBuild"
            self.build_system.commands = ["true"]
        elif "spack" in self.current_environ.features:
            system = self.current_environ.extras.get("spack_env", "auto")
            self.build_system = "CustomBuild"
            self.build_system.commands = [
                f"export PYTHONPATH={shlex.quote(str(paths.ROOT / 'checks'))}",
                f"{shlex.quote(sys.executable)} -m bisection.kernels.spack install "
                f"--system {system} --json >installation.json",
            ]
        else:
            self.prefix_dir = installed
            self.build_system.configuredir = str(paths.ROOT / "src")
            self.build_system.builddir = "build"
            self.build_system.config_opts = [
                "-DCMAKE_BUILD_TYPE=Release",
                "-DBX_TESTS=OFF",
                f"-DCMAKE_INSTALL_PREFIX={self.prefix_dir}",
            ]
            self.build_system.max_concurrency = os.cpu_count()
            self.postbuild_cmds = ["cmake --install build"]

    @run_before("run")
    def find_installed(self):
        facts = Path(self.stagedir, "installation.json")
        if facts.exists() and not self.is_dry_run():
            installation = json.loads(facts.read_text())
            self.prefix_dir = installation["prefix"]
            self.lock, self.software = installation["lock_hash"], installation["software_hash"]
            # the machine's own mpirun is on PATH; another MPI library's is its own
            if installation["mpi_prefix"] not in ("", "/usr"):
                self.mpi_bin = os.path.join(installation["mpi_prefix"], "bin")
        if not list(Path(self.prefix_dir, "bin").glob("bisection-*")) and not self.is_dry_run():
            raise SanityError(f"there is no bisection-* in {self.prefix_dir}/bin")
        self.executable_opts = [os.path.join(self.prefix_dir, "bin")]

    @sanity_function
    def installed(self):
        return sn.assert_found(r"^bisection-", self.stdout, msg="no kernel was installed")


class Launch(rfm.RunOnlyRegressionTest):
    """Runs one kernel once, all its methods interleaved, and keeps result.json in the stage folder.

    Passes if the kernel ran to its end, as it was placed to run. Whether each method's answer is
    right, and fast, is for the judges; a kernel's exit code 1 (wrong answer) is therefore accepted
    here if the result says which method was wrong.
    """

    valid_systems = ["*"]
    valid_prog_environs = ["+kernels"]
    time_limit = "15m"
    max_pending_time = "1d"  # an unplaceable job must not wait for ever
    keep_files = ["result.json"]

    build = fixture(Build, scope="environment")
    layout = parameter(list(LAYOUTS), loggable=True)
    case = parameter(loggable=True)

    kernel = variable(str)  # bisection-<kernel> is run
    # Beside --case, --method, --output and --label: of each case, and of all.
    effort = variable(typ.Dict[str, str], value={})
    options = variable(typ.List[str], value=[])
    exit_code = variable(int, type(None), value=None, loggable=True)
    geometry = variable(str, value="", loggable=True)
    built_with = variable(str, value="", loggable=True)  # what was built, with which libraries
    lock = variable(str, value="", loggable=True)
    software = variable(str, value="", loggable=True)
    wrong = variable(typ.List[str], value=[], loggable=True)  # methods that gave a wrong answer
    disturbed = variable(float, value=0.0, loggable=True)  # share of samples
    not_applicable = variable(str, value="", loggable=True)  # why there is nothing to measure
    # For the store: what the launch ran on and with, and the control's samples, compute alone.
    facts = variable(typ.Dict[str, str], value={}, loggable=True)
    hosts = variable(typ.List[str], value=[], loggable=True)
    controls = variable(typ.Dict[str, float], value={}, loggable=True)

    @run_after("setup")
    def lay_out(self):
        processor = self.current_partition.processor
        extras = self.current_partition.extras
        if not processor.num_cores:
            raise SanityError(
                f"the site file says nothing of the cores of {self.current_partition.fullname}"
            )
        try:
            shape = layouts.geometry(
                self.layout,
                processor.num_cores,
                int(extras.get("nodes", 1)),
                processor.topology,
            )
        except DoesNotFit as why:
            self.not_applicable = str(why)
            self.skip(self.not_applicable)
        self.shape, self.geometry = shape, str(shape)
        self.num_tasks = shape.ranks
        self.num_tasks_per_node = shape.ranks_per_node
        self.num_cpus_per_task = shape.threads
        self.use_multithreading = False
        self.env_vars = {
            "OMP_NUM_THREADS": shape.threads,
            "OMP_PLACES": "cores",
            "OMP_PROC_BIND": "close",
            **self.env_vars,
        }

    @run_before("run")
    def compose(self):
        self.job.launcher.options += layouts.bindings(
            self.current_partition.extras.get("binding", []), self.shape
        )
        if self._scheduler in SLURM:
            # After a node's death Slurm would queue the job again, and ReFrame wait for it.
            self.job.options += ["--no-requeue"]
        self.lock, self.software = self.build.lock, self.build.software
        labels = {
            "system": self.current_system.name,
            "partition": self.current_partition.name,
            "environ": self.current_environ.name,
            "layout": self.layout,
            "lock": self.lock,
            "software": self.software,
        }
        self.executable = os.path.join(self.build.prefix_dir, "bin", f"bisection-{self.kernel}")
        self.executable_opts = [
            f"--case {self.case}",
            *filter(None, [self.effort.get(self.case)]),
            *self.options,
            "--method all",
            "--output result.json",
            *(f"--label {key}={value}" for key, value in labels.items() if value),
            # A wrong answer is for the judges; anything else ends the job with the code.
            "|| code=$?",
        ]
        if self.build.mpi_bin:
            self.prerun_cmds.append(f"export PATH={shlex.quote(self.build.mpi_bin)}:$PATH")
        # What tunes MPI and is seen by the ranks alike.
        self.prerun_cmds.append(f"env | grep -E '^({TUNING})_' | sort >environment || true")
        self.prerun_cmds.append("code=0")
        self.postrun_cmds = ["echo $code >exit_code", "test $code -le 1 || exit $code"]

    @run_before("sanity")
    def read_exit_code(self):
        if self.is_dry_run():
            return
        try:
            self.exit_code = int(Path(self.stagedir, "exit_code").read_text())
        except (OSError, ValueError):
            self.exit_code = None
        words, ended = self._errors(), self.exit_code is not None
        fault = scheduler_faults.of_job(self.job, self._scheduler, words, ended)
        if not fault and self.exit_code not in (0, 2, 3):
            here = self.job.nodelist if self.is_local() else []
            fault = scheduler_faults.of_abort(words, self.stagedir, here)
        if fault:
            raise SanityError(fault)
        if not ended:
            raise SanityError(f"the job did not run to its end{self._last_words()}")
        if self.exit_code not in (0, 1):
            raise SanityError(f"{self.kernel} {_describe(self.exit_code)}{self._last_words()}")
        if self.job.exitcode is None:
            # Not every back-end knows it (`squeue`), and trap_job_errors takes that for a failure.
            self.job._exitcode = 0

    @sanity_function
    def ran_as_asked(self):
        result = read(self, self.stagedir)
        build = result["build"]
        self.built_with = "; ".join(
            [build["compiler"], build["mpi"]]
            + [f"{name} {version}" for name, version in build["libraries"].items()]
        )
        self.disturbed = results.disturbed(result)
        self.facts, self.hosts = results.facts(result), results.hosts(result)
        with contextlib.suppress(OSError):
            tuning = Path(self.stagedir, "environment").read_text().split("\n")
            self.facts["MPI environment"] = ", ".join(filter(None, tuning)) or "none"
        self.controls = results.controls(result)
        self.wrong = results.wrong_methods(result)
        if (self.exit_code == 1) != bool(self.wrong) or result["verified"] is bool(self.wrong):
            raise SanityError(
                f"{self.kernel} {_describe(self.exit_code)}, but its result says verified: "
                f"{result['verified']}, wrong: {', '.join(self.wrong) or 'none'}"
            )
        for name in self.wrong:
            if name in results.baselines(result):
                raise SanityError(f"the baseline {name} gave a wrong answer")
        placed = layouts.complaints(
            result["layout"], self.shape, self.current_partition.processor.topology.get("cores")
        )
        if placed:
            raise SanityError(f"INVALID placement: {'; '.join(placed)}")
        return True

    @property
    def _scheduler(self):
        return self.current_partition.scheduler.registered_name

    def _errors(self):
        try:
            return Path(self.stagedir, str(self.job.stderr)).read_text(errors="replace")
        except OSError:
            return ""

    def _last_words(self):
        """What the job said of itself on stderr: the kernel's own line, else the last one."""
        words = [line.strip() for line in self._errors().splitlines() if line.strip(" -*")]
        words = [line for line in words if "ORTE_ERROR_LOG" not in line]  # Open MPI, of itself
        own = [line for line in words if line.startswith(f"bisection-{self.kernel}:")]
        return f": {(own or words)[-1]}" if words else ""


def read(launch, folder):
    """The result of `launch` in `folder`; SanityError if it is not whole."""
    try:
        return results.load(os.path.join(folder, "result.json"), launch.kernel, launch.case)
    except ResultError as error:
        raise SanityError(str(error)) from None


def _describe(code):
    if code in (0, 1):
        return f"exited with {code} ({'verified' if code == 0 else 'wrong answer'})"
    if code in (2, 3):
        return f"exited with {code} ({'usage' if code == 2 else 'not enough resources'})"
    try:
        return f"was killed by {signal.Signals(code - 128).name} (exit {code})"
    except ValueError:
        return f"exited with {code}"
