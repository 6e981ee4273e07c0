"""Small copies of the repository, with one check and one site."""

from reframe.core import backends
from running import CHECKS, SITES

from bisection.core import paths
from bisection.report.words import defect_line

# A check file that loads in a moment, of which the others are made.
CHECK = """
import reframe as rfm

@rfm.simple_test
class tiny(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["+kernels"]
    tags = {"quick"}
    executable = "true"

    @sanity_function
    def ran(self):
        return True
"""


def make_house(folder, patch):
    """A small house, which the doctor takes for its own."""
    for name in ("site-configs", "spack-env", "checks", "reference/systems"):
        (folder / name).mkdir(parents=True)
    for file in (*SITES.glob("common*.py"), SITES / "localhost.py"):  # and no site of this checkout
        text = file.read_text().replace('"references": ["ratio"]', '"references": []')
        (folder / "site-configs" / file.name).write_text(text)
    for file in (CHECKS.parent / "spack-env").iterdir():
        (folder / "spack-env" / file.name).symlink_to(file)
    (folder / "checks" / "tiny.py").write_text(CHECK)
    # Another test may have registered what the common.py of its house did.
    patch.delitem(backends._launchers, "smpirun", raising=False)
    patch.setattr(paths, "ROOT", folder)
    patch.chdir(folder)
    patch.setenv("BISECTION_HOME", str(folder / "home"))
    patch.delenv("RFM_REFERENCE_PREFIX", raising=False)
    return folder


def told(defects):
    """Defects as lines, in words."""
    return "\n".join(map(defect_line, defects))
