import json
import os

from spack.package import *

from spack_repo.builtin.build_systems.generic import Package


class Bisection(Package):
    """Acceptance and regression tests for machines that run plane-wave, molecular-dynamics, mesh
    and quantum-chemistry codes: the suite, with its kernels."""

    # The sources are the clone that this repository is part of: a develop section names it.
    license("BSD-3-Clause")

    version("develop")

    variant("elpa", default=False, description="Measure ELPA's eigensolvers too")

    # The versions of Python packages decide verdicts: bootstrap.sh installs those of python.lock
    # from PyPI, PIP_INDEX_URL or BUNDLE, into an environment of the prefix.
    depends_on("python@3.10: +ssl +zlib", type=("build", "run"))
    depends_on("mpi", type="run")
    depends_on("bisection-kernels +elpa", when="+elpa", type="run")
    depends_on("bisection-kernels ~elpa", when="~elpa", type="run")

    def install(self, spec, prefix):
        share = prefix.share.bisection
        for name in ("checks", "reference", "site-configs", "spack-env", "src"):
            install_tree(name, share.join(name), ignore=lambda path: "__pycache__" in path)
        for name in ("CHANGELOG.md", "LICENSE", "README.md"):
            install(name, share)
        kernels = spec["bisection-kernels"]
        facts = {"prefix": str(kernels.prefix), "mpi_prefix": str(spec["mpi"].prefix)}
        facts["lock_hash"] = kernels.dag_hash()
        with open(share.join("installation.json"), "w", encoding="utf-8") as file:
            json.dump(facts, file)
        environ = {"BISECTION_HOME": str(prefix), "PYTHON": python.path}
        bootstrap = Executable(share.join("spack-env").join("bootstrap.sh"))
        bootstrap("--build", "site", extra_env=environ)
        remove_linked_tree(prefix.cache)
        for name in ("run.lock", "setup.lock"):
            os.remove(prefix.join(name))
