"""Stores sessions of other machines.

FILE is a sample file (JSON lines; checks/bisection/store/sample.schema.json) or a results folder. A
copy is kept. Stored sessions do not change; forgotten ones (`bisection sessions forget`) stay
forgotten. Without FILE, it stores the sessions of all results folders and copies that are not
stored yet, as every command does that reads sessions.
"""

import argparse

from bisection.core import paths
from bisection.core.format import plural, some
from bisection.core.reasons.base import Text
from bisection.core.verdicts import Exit
from bisection.store.sync import import_file, opened, warn

CODES = {Exit.USAGE: "or a file cannot be read; nothing of it is stored"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="files to store")


def act(options: argparse.Namespace) -> Exit:
    home, faults = paths.home(), list[Text]()

    def on_fault(fault: Text) -> None:
        warn(fault)
        faults.append(fault)

    with opened(home, check=True, on_fault=on_fault) as store:
        for file in options.files:
            names, added = import_file(store, home, file)
            gone = sorted(names & store.forgotten().keys())
            known = len(names) - added - len(gone)
            counts = [f"{plural(added, 'session')} stored"]
            counts += [f"{known} stored before"] if known else []
            counts += [f"{len(gone)} forgotten ({some(gone, 3)})"] if gone else []
            print(f"{file}: {', '.join(counts)}")
        if not options.files:
            print(f"the store has {plural(len(store.sessions()), 'session')}")
    return Exit.USAGE if faults and not options.files else Exit.OK
