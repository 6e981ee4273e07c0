from spack.package import *

from spack_repo.builtin.build_systems.cmake import CMakePackage


class BisectionKernels(CMakePackage):
    """Communication kernels of plane-wave and molecular-dynamics codes, as measured by the
    Bisection acceptance and regression suite."""

    # There is nothing to download: the sources are the src/ folder beside this repository, which
    # every environment under spack-env/ names in its develop section.
    license("BSD-3-Clause")

    version("develop")

    variant("elpa", default=False, description="Measure ELPA's eigensolvers too")

    depends_on("c", type="build")
    depends_on("fortran", type="build")
    depends_on("cmake@3.20:", type="build")
    depends_on("gmake", type="build")
    depends_on("pkgconfig", type="build")

    depends_on("mpi")
    depends_on("fftw@3 +openmp precision=double")
    depends_on("blas")
    depends_on("lapack")
    depends_on("scalapack")
    # Without the variant, CMake takes an ELPA of the system where pkg-config finds one.
    depends_on("elpa +mpi", when="+elpa")

    def cmake_args(self):
        return [
            self.define("BX_TESTS", False),
            self.define("BX_MARCH", ""),  # Spack's compiler wrapper sets the target
        ]
