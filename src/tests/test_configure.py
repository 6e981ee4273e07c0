"""What CMake makes of a site's libraries, MPIs and compilers' wrappers, most of it without a build.

Usage: test_configure.py [unittest arguments]
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from kernel_run import long, main, run

SOURCES = Path(__file__).parents[1]
LAUNCHERS = [f"-DCMAKE_{language}_COMPILER_LAUNCHER=ccache" for language in ("C", "Fortran")]
UNOPTIMISED = [f"-DCMAKE_{language}_FLAGS_RELEASE=-O0" for language in ("C", "Fortran")]
NO_BLAS = "-DCMAKE_DISABLE_FIND_PACKAGE_BLAS=ON"
NO_FFTW = "-DFFTW_OMP_LIBRARY=OFF"
# A BLAS of 8-byte integers, as far as it is asked.
LARGE_BLAS = """
double ddot_(const long *n, const double *x, const long *i, const double *y, const long *j)
{ double sum = 0; for (long k = 0; k < *n; k++) sum += x[k * *i] * y[k * *j]; return sum; }
void sgemm_(void) {}
void dgemm_(void) {}
void cheev_(void) {}
"""
# As Cray's: it links all that a program needs, and does not tell what.
WRAPPER = """#!/bin/sh
case " $* " in
    *" -show"*) exit 0 ;;
    *" -c "*|*" -E "*|*" -S "*|*" -v "*|*" --version "*) exec {compiler} {includes} "$@" ;;
esac
exec {compiler} {includes} "$@" -Wl,--no-as-needed -lscalapack-openmpi -lopenblas {links}
"""
WRAPPED = {"cc": ("mpicc.openmpi", "gcc"), "ftn": ("mpifort.openmpi", "gfortran")}


class Configured:
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def configure(self, *options: str, **environment: str) -> "tuple[int, str]":
        """The exit code and what is printed, in one line."""
        cache = LAUNCHERS if shutil.which("ccache") else []
        words = ["cmake", "-S", SOURCES, "-B", self.folder / "build", *cache, "-DBX_TESTS=OFF"]
        out = subprocess.run(
            [*words, *options],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return out.returncode, " ".join(out.stdout.split())

    def left_out(self) -> "dict[str, str]":
        lines = (self.folder / "build/left-out").read_text().splitlines()
        return dict(line.split(": ", 1) for line in lines)

    def build(self, *targets: str) -> None:
        words = ["cmake", "--build", self.folder / "build", "-j2", "--target", *targets]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)

    def right(self, kernel: str) -> None:
        """Launches a kernel, whose path in the build folder this is."""
        out = run(str(self.folder / "build" / kernel), 2, "--repeats", "1", "--block", "1")
        self.assertEqual(out.code, 0, out.stdout + out.stderr)


class Libraries(Configured, unittest.TestCase):
    def assert_left_out(self, expected: "set[str]", *options: str, **environment: str) -> None:
        code, text = self.configure(*options, **environment)
        self.assertEqual(code, 0, text)
        self.assertEqual(set(self.left_out()), expected, text)
        for name, reason in self.left_out().items():
            self.assertIn(f"{name}: left out, {reason}", text)

    def test_without_scalapack(self):
        self.assert_left_out({"eigen"}, "-DSCALAPACK_LIBRARY=OFF")

    def test_scalapack_of_a_prefix_comes_before_the_machines(self):
        """As Spack and modules name theirs, by another name than Debian's."""
        debian = next(Path("/usr/lib").glob("*/libscalapack-openmpi.so"), None)
        if not debian:
            self.skipTest("no ScaLAPACK of Debian")
        (self.folder / "lib").mkdir()
        library = self.folder / "lib/libscalapack.so"
        library.symlink_to(debian)
        code, text = self.configure(CMAKE_PREFIX_PATH=str(self.folder))
        self.assertEqual(code, 0, text)
        self.assertIn(f"ScaLAPACK: {library}", text)

    def test_without_blas(self):
        self.assert_left_out({"eigen", "npar"}, NO_BLAS)

    @long
    def test_without_fftw_and_elpa(self):
        nowhere = {"PKG_CONFIG_LIBDIR": "/nowhere", "PKG_CONFIG_PATH": ""}
        self.assert_left_out({"transpose", "npar", "md"}, NO_FFTW, **nowhere)

    @long
    def test_blas_with_integers_of_8_bytes(self):
        library = self.folder / "libblas64.so"
        words = ["cc", "-shared", "-fPIC", "-x", "c", "-o", library, "-"]
        subprocess.run(words, check=True, input=LARGE_BLAS, text=True)
        code, text = self.configure(f"-DBLAS_LIBRARIES={library}", f"-DLAPACK_LIBRARIES={library}")
        self.assertNotEqual(code, 0)
        self.assertIn(f"integers of 8 bytes, the kernels of 4: {library}", text)

    @long
    def test_what_needs_none_is_built_and_right(self):
        tests = ("-DBX_TESTS=ON", "-DBX_SMPIRUN=OFF")
        code, text = self.configure(NO_BLAS, NO_FFTW, *tests, *UNOPTIMISED)
        self.assertEqual(code, 0, text)
        self.build("launched")
        test = ["ctest", "--test-dir", self.folder / "build", "-j4", "--output-on-failure"]
        regex = "launches_as_run_.*(congestion|first|metadata|noise)"
        subprocess.run([*test, "-LE", "long", "-R", regex], check=True)
        self.right("network/bisection-patterns")
        for kernel in ("halo", "patches", "restart", "tasks"):
            self.right(f"{kernel}/bisection-{kernel}")


class Mpi(Configured, unittest.TestCase):
    @unittest.skipUnless(shutil.which("mpicc.mpich"), "one MPI library")
    @unittest.skipUnless(shutil.which("mpifort.openmpi"), "one MPI library")
    def test_c_of_one_and_fortran_of_another(self):
        code, text = self.configure(
            "-DMPI_C_COMPILER=mpicc.mpich", "-DMPI_Fortran_COMPILER=mpifort.openmpi"
        )
        self.assertEqual(code, 0, text)
        self.assertRegex(text, r"MPI: C has MPICH .*, Fortran Open MPI .*: Fortran calls C's")

    @unittest.skipUnless(shutil.which("mpicc.mpich"), "one MPI library")
    @long
    def test_libraries_of_another_are_not_taken(self):
        compilers = ("-DMPI_C_COMPILER=mpicc.mpich", "-DMPI_Fortran_COMPILER=mpifort.mpich")
        other = next(Path("/usr/lib").glob("*/libscalapack-openmpi.so"), None)
        if not other:
            self.skipTest("ScaLAPACK of one MPI library")
        code, text = self.configure(*compilers, f"-DSCALAPACK_LIBRARY={other}")
        self.assertEqual(code, 0, text)
        why = rf"ScaLAPACK; {other} is built for Open MPI .*, the kernels for MPICH"
        self.assertRegex(self.left_out()["eigen"], why)

    @long
    def test_a_cross_build_says_that_it_asks_nothing(self):
        _, text = self.configure(f"-DCMAKE_SYSTEM_NAME={os.uname().sysname}")
        self.assertIn("MPI: not asked whether", text)


@unittest.skipUnless(shutil.which("smpirun"), "SimGrid is not installed")
class Simulated(Configured, unittest.TestCase):
    def test_no_program_is_started_that_was_built(self):
        """Without their launcher, programs of SimGrid's MPI end by a signal."""
        smpi, trace = SOURCES.parent / "checks/workshop/smpi", self.folder / "trace"
        traced = ("--trace-expand", "--trace-format=json-v1", f"--trace-redirect={trace}")
        code, text = self.configure(f"-DBX_SIMULATED={smpi}", *traced)
        self.assertEqual(code, 0, text)
        commands = [json.loads(line) for line in trace.read_text().splitlines()]
        started = []
        for command in commands:
            name, words = command.get("cmd", "").lower(), command.get("args", [])
            self.assertNotEqual(name, "try_run", command)
            if name == "execute_process":
                behind = [at + 1 for at, word in enumerate(words) if word == "COMMAND"]
                started += [next(filter(None, words[at:])) for at in behind]
        self.assertGreater(len(started), 10)
        built = [program for program in started if program.startswith(f"{self.folder}/")]
        self.assertEqual(built, [])


@unittest.skipUnless(shutil.which("mpicc.openmpi"), "Debian's Open MPI is wrapped")
class Cray(Configured, unittest.TestCase):
    """Compilers that link everything by themselves."""

    def compilers(self) -> "list[str]":
        options = []
        (self.folder / "bin").mkdir()
        for language, name in (("C", "cc"), ("Fortran", "ftn")):
            wrapper, compiler = WRAPPED[name]
            says = [
                subprocess.check_output([wrapper, f"--showme:{what}"], text=True).strip()
                for what in ("compile", "link")
            ]
            script = self.folder / "bin" / name
            script.write_text(WRAPPER.format(compiler=compiler, includes=says[0], links=says[1]))
            script.chmod(0o755)
            options.append(f"-DCMAKE_{language}_COMPILER={script}")
        return options

    def configured(self) -> None:
        code, text = self.configure(*self.compilers(), *UNOPTIMISED)
        self.assertEqual(code, 0, text)
        self.assertEqual(self.left_out(), {}, text)
        for library in ("BLAS: implicitly linked", "ScaLAPACK: linked by the compilers"):
            self.assertIn(library, text)

    def test_it_is_configured(self):
        self.configured()

    @long
    def test_kernels_are_built_and_right(self):
        self.configured()
        self.build("bisection-patterns", "bisection-eigen")
        self.right("network/bisection-patterns")
        self.right("eigen/bisection-eigen")


if __name__ == "__main__":
    main(*sys.argv[1:])
