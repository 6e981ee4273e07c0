"""Whether the facts of a site are older than what they are of."""

import re
from collections.abc import Collection
from datetime import datetime
from pathlib import Path

from bisection.core.reasons import Code, Reason
from bisection.core.verdicts import BisectionError
from bisection.rfm.scheduler_faults import SLURM, ask
from bisection.sites.cluster import facts, slurm


def outdated(site: Path, schedulers: Collection[str]) -> Reason | None:
    """Why the facts of a site may no longer hold: a node booted, or Slurm's configuration changed.

    Args:
        site: the site file.
        schedulers: ReFrame's names of those of its partitions.

    Returns:
        None if they are newer, or there are none, or Slurm does not say.
    """
    if not set(SLURM) & set(schedulers) or not facts.file_of(site).exists():
        return None
    try:
        known = facts.read(facts.file_of(site))
        written = datetime.fromisoformat(known["written"].replace("Z", "+00:00")).timestamp()
    except (BisectionError, KeyError, ValueError):  # which the site file itself reports
        return None
    queues = {partition.get("queue") for partition in known["partitions"].values()}
    for what, since in (("boot", last_boot(queues)), ("configuration", last_change())):
        if since > written:
            return Reason.of(Code.FACTS_OLD, system=site.stem, what=what, since=since)
    return None


def last_boot(queues: Collection[str | None]) -> float:
    """When the last node of some queues booted, Unix time; 0 if that is not known."""
    text, _ = ask("scontrol", "show", "node", "-o")  # which prints Unix times
    boots = [0.0]
    for record in map(slurm.record, text.splitlines()):
        boot = record.get("BootTime", "")
        if boot.isdigit() and queues & set(record.get("Partitions", "").split(",")):
            boots.append(float(boot))
    return max(boots)


def last_change() -> float:
    """When Slurm's configuration was changed, Unix time; 0 if its file cannot be seen."""
    text, _ = ask("scontrol", "show", "config")
    file = re.search(r"^SLURM_CONF\s*= (\S+)", text, re.M)
    try:
        return Path(file[1]).stat().st_mtime if file else 0.0
    except OSError:
        return 0.0
