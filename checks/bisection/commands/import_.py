"""Stores sessions from files, and rebuilds a damaged store.

Files are sample files (JSON lines; checks/bisection/store/sample.schema.json), report files of
ReFrame and results folders; a copy of each is kept. Without FILE, it imports all sessions of
results folders, copies and ReFrame's database that are not in the store. Stored sessions do not
change; forgotten ones (`bisection sessions forget`) stay forgotten. A damaged store is moved aside
and rebuilt.
Exit code: 0 stored, 2 a file cannot be read and nothing of it is stored, 3 something was damaged.
"""

import argparse
import sys

from bisection.core import paths
from bisection.core.format import plural, some
from bisection.core.verdicts import Exit
from bisection.store.database import Store
from bisection.store.sample_file import StoreError
from bisection.store.sync import import_file, set_damaged_aside, synchronise


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the subcommand."""
    parser.add_argument("files", nargs="*", metavar="FILE")


def act(options: argparse.Namespace) -> Exit:
    """Runs the subcommand; returns its exit code."""
    home = paths.home()
    damaged = set_damaged_aside(home)
    for trouble in damaged:
        print(f"bisection import: {trouble}")
    fault = ""
    try:
        with Store(paths.store_db(home)) as store:
            for file in options.files:
                names, added = import_file(store, home, file)
                gone = sorted(names & store.forgotten().keys())
                known = len(names) - added - len(gone)
                counts = [f"{plural(added, 'session')} stored"]
                counts += [f"{known} stored before"] if known else []
                counts += [f"{len(gone)} forgotten ({some(gone, 3)})"] if gone else []
                print(f"{file}: {', '.join(counts)}")
            if not options.files:
                added, fault = synchronise(store, home)
                print(f"{plural(added, 'session')} stored; the store has {len(store.sessions())}")
    except StoreError as error:
        fault = str(error)
    if fault:
        print(f"bisection import: error: {fault}", file=sys.stderr)
    if damaged:
        return Exit.NOT_MEASURED
    return Exit.USAGE if fault else Exit.OK
