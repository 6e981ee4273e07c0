"""Finds defects of Spack locks."""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from bisection.core import paths
from bisection.core.format import one_line
from bisection.core.reasons import Code
from bisection.kernels.spack import externals
from bisection.kernels.spack.externals import AUTO, render
from bisection.kernels.spack.install import State, lock_facts
from bisection.sites.site import Defect, Site, line_of


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
        where = {"environ": environ, "value": asked}
        if asked != AUTO and asked not in known:
            reason = Code.SPACK_ENV_UNKNOWN(**where, known=[*known, AUTO])
            yield Defect.of(site.path, line, reason)
            continue
        names = known if asked == AUTO else [asked]
        locks = {name: base / name / "spack.lock" for name in names}
        there = {name: lock for name, lock in locks.items() if lock.is_file()}
        for name, lock in there.items():
            yield from lock_defects(known[name], lock)
        if base.exists() and not there:
            reason = Code.SPACK_NOT_BUILT(**where, folder=paths.shown(base))
            yield Defect.of(site.path, line, reason)


def lock_defects(file: Path, lock: Path) -> list[Defect]:
    """The defects of a Spack lock.

    Args:
        file: the spack.yaml that the lock was made from.
        lock: the spack.lock, beside the spack.yaml and state.json of its time.
    """
    try:
        facts = lock_facts(lock)
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        text = f"{type(error).__name__}: {one_line(error)}"
        return [Defect.of(lock, 1, Code.LOCK_UNREADABLE(error=text))]
    known = State.load(lock.with_name("state.json")).installation.get("lock_hash")
    if known not in (None, facts["lock_hash"]):
        return [Defect.of(lock, 1, Code.LOCK_CHANGED())]
    try:
        before = lock.with_name("spack.yaml").read_text().splitlines()
        now = render(file, externals.survey_externals(file).installed).splitlines()
    except (OSError, ValueError) as error:
        reason = Code.LOCK_NOT_COMPARED(file=paths.shown(file), error=one_line(error))
        return [Defect.of(lock, 1, reason)]
    if before == now:
        return []
    pairs = zip_longest(before, now, fillvalue="")
    line, (old, new) = next((n, pair) for n, pair in enumerate(pairs, 1) if pair[0] != pair[1])
    reason = Code.LOCK_OLD(lock=paths.shown(lock), old=old.strip(), new=new.strip())
    return [Defect.of(file, line, reason)]
