"""Checks the age of a site's facts."""

from collections.abc import Collection
from datetime import datetime
from pathlib import Path

from bisection.core.commands import ask
from bisection.core.reasons import Code, Reason
from bisection.core.slurm import SLURM, configuration, record_of
from bisection.core.verdicts import BisectionError
from bisection.sites.cluster import facts


def outdated(site: Path, schedulers: Collection[str]) -> Reason | None:
    """Returns why the facts of a site may no longer hold: one of the nodes that they are of booted,
    or Slurm's configuration changed.

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
    partitions = known["partitions"].values()
    hosts = sorted({host for partition in partitions for host in partition.get("boot", {})})
    for event, since in (("boot", last_boot(hosts)), ("configuration", last_change())):
        if since > written:
            return Code.FACTS_OLD(system=site.stem, what=event, since=since)
    return None


def last_boot(hosts: Collection[str]) -> float:
    """When the last of some hosts booted, Unix time; 0 if that is not known.

    Of a large machine some node boots every day: only those count that the facts are of.
    """
    names = ",".join(host.partition(".")[0] for host in hosts)
    text = ask("scontrol", "show", "node", "--all", "-o", names).text if hosts else ""
    boots = (record_of(line).get("BootTime", "") for line in text.splitlines())
    return max((float(boot) for boot in boots if boot.isdigit()), default=0.0)


def last_change() -> float:
    """When Slurm's configuration was changed, Unix time; 0 if its file cannot be seen."""
    file = configuration(ask("scontrol", "show", "config").text).get("SLURM_CONF")
    try:
        return Path(file).stat().st_mtime if file else 0.0
    except OSError:
        return 0.0
