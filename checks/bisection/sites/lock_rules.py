"""Finds defects of Spack locks."""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from bisection.core import paths
from bisection.core.format import one_line, some
from bisection.kernels.spack import externals
from bisection.kernels.spack.externals import AUTO, render
from bisection.kernels.spack.install import State, lock_facts
from bisection.sites.site_files import Defect, Site, line_of

AGAIN = "`bisection run -p spack` rebuilds it"


def lock_findings(site: Site) -> Iterator[Defect]:
    """Yields defects and notes on the Spack environments that a site's kernels are built from.

    A lock is made when an environment is first built, so one that is not there is no defect.
    """
    base = paths.home() / "spack" / "environments"
    known = externals.systems()
    for environ, facts in site.environs.items():
        if "spack" not in facts["features"]:
            continue
        asked = facts["extras"].get("spack_env", AUTO)
        line = line_of(site.path, environ, "spack_env")
        if asked != AUTO and asked not in known:
            allowed = f"spack_env is {asked}: allowed are {some([*known, AUTO])}"
            yield Defect.of(site.path, line, f"environment {environ}: {allowed}")
            continue
        names = known if asked == AUTO else [asked]
        locks = {name: base / name / "spack.lock" for name in names}
        there = {name: lock for name, lock in locks.items() if lock.is_file()}
        for name, lock in there.items():
            yield from lock_defects(known[name], lock)
        if base.exists() and not there:
            text = f"nothing built yet for spack_env {asked} in {paths.shown(base)}"
            yield Defect.of(site.path, line, f"environment {environ}: {text}", is_note=True)


def lock_defects(file: Path, lock: Path) -> list[Defect]:
    """The defects of a spack.lock, which has the spack.yaml and state.json of its time beside it,
    by the file that it was made from."""
    try:
        facts = lock_facts(lock)
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        text = f"{type(error).__name__}: {one_line(error)}"
        return [Defect.of(lock, 1, f"is no lock of Spack ({text}); {AGAIN}")]
    known = State.load(lock.with_name("state.json")).installation.get("lock_hash")
    if known not in (None, facts["lock_hash"]):
        return [Defect.of(lock, 1, f"was changed since the kernels were built from it; {AGAIN}")]
    try:
        before = lock.with_name("spack.yaml").read_text().splitlines()
        now = render(file, externals.survey_externals(file).installed).splitlines()
    except (OSError, ValueError) as error:
        text = f"cannot be compared with {paths.shown(file)}: {one_line(error)}"
        return [Defect.of(lock, 1, text)]
    if before == now:
        return []
    pairs = zip_longest(before, now, fillvalue="")
    line, (old, new) = next((n, pair) for n, pair in enumerate(pairs, 1) if pair[0] != pair[1])
    made = f"{paths.shown(lock)} was made from {old.strip()!r}"
    return [Defect.of(file, line, f"{made}, which is now {new.strip()!r}; {AGAIN}")]
