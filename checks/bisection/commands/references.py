"""`bisection references propose|check`: references made from stored sessions, and kept true."""

import difflib
import sys
from pathlib import Path

import yaml

from bisection.analysis.propose import LEAST, Proposal, stale, written
from bisection.core import paths
from bisection.core.arguments import above_two
from bisection.rfm import references
from bisection.sites import reference_file
from bisection.sites.site import load, site_names
from bisection.store.sample_file import StoreError
from bisection.store.selection import HELP, SelectionError, select
from bisection.store.sync import opened

DONE, OPEN, USAGE, TOO_FEW = 0, 1, 2, 3


def add_commands(commands):
    group = commands.add_parser(
        "references", help="make references from stored sessions, or look what became of them"
    )
    actions = group.add_subparsers(dest="action", required=True, metavar="ACTION")
    propose = actions.add_parser(
        "propose",
        help="references from stored sessions, shown as a change of the file",
        description="Makes references of what checks assert on the partitions of a system, shows "
        "how reference/systems/SYSTEM.yaml would change, and changes it with --write. Bounds are "
        "not made wider than they are without --widen. Exit code: 0 nothing is to be changed, or "
        "it was, 1 something is, 2 usage, 3 too few sessions.",
    )
    propose.add_argument(
        "--sessions", default="..", metavar="SESSIONS", help=f"{HELP}; default: all"
    )
    propose.add_argument(
        "--least", type=above_two, default=LEAST, metavar="N", help=f"sessions; default: {LEAST}"
    )
    propose.add_argument("--kinds", metavar="KINDS", help="ratio,time; default: what is claimed")
    propose.add_argument("--widen", action="store_true", help="also where bounds become wider")
    propose.add_argument("--write", action="store_true", help="change the file")
    propose.add_argument("-o", "--output", metavar="FILE", help="another file to change")
    propose.set_defaults(act=act_propose)
    check = actions.add_parser(
        "check",
        help="stale, unbounded, contradictory references, and those of nothing that exists",
        description="Exit code: 0 no fault, 1 faults, 2 usage.",
    )
    check.set_defaults(act=act_check)
    for action in (propose, check):
        action.add_argument("--system", default="generic", metavar="NAME", help="default: generic")


def act_propose(options):
    target = Path(options.output) if options.output else references.path(options.system)
    try:
        text, old = written(target)
        site = _site(options.system)
        with opened(paths.home()) as store:
            sessions = select(options.sessions, store)
            found = Proposal(store, sessions, site, options)
    except (OSError, SelectionError, StoreError, ValueError) as error:
        print(f"bisection references: error: {error}", file=sys.stderr)
        return USAGE
    if not found.entries:
        print("\n".join([*found.told(), "no reference to propose"]))
        return TOO_FEW
    tree = found.merged(old, options.widen)
    new = found.text(tree)
    diff = list(
        difflib.unified_diff(
            text.splitlines(), new.splitlines(), str(target), "proposed", lineterm=""
        )
    )
    print("\n".join([*diff, *found.told()]))
    if not diff:
        print(f"{target}: as proposed already")
        return OPEN if found.wider else DONE
    if options.write:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            paths.write_whole(target, new)
        except OSError as error:
            print(f"bisection references: error: {target}: {error.strerror}", file=sys.stderr)
            return USAGE
        print(f"{target}: written")
        return OPEN if found.wider else DONE
    print(f"not written: --write changes {target}")
    return OPEN


def _site(system):
    if system not in site_names():
        raise ValueError(f"--system {system}: site-configs/ has {', '.join(site_names())}")
    site = load([system])[system]
    if not site.cases:
        raise ValueError("; ".join(map(str, site.defects)) or f"no check runs on {system}")
    return site


def act_check(options):
    try:
        site = _site(options.system)
        file = references.path(options.system)
        if not file.exists():
            raise ValueError(f"there is no {file}")
        found = [str(defect) for defect in reference_file.examine_references(options.system)]
        if not found:
            with opened(paths.home()) as store:
                found = stale(store, site, file, yaml.safe_load(file.read_text(encoding="utf-8")))
    except (SelectionError, StoreError, ValueError) as error:
        print(f"bisection references: error: {error}", file=sys.stderr)
        return USAGE
    print("\n".join(found or [f"{paths.shown(file)}: nothing stale, open or contradictory"]))
    return OPEN if found else DONE
