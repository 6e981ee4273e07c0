"""`bisection import`: stores what is not stored yet, and makes a damaged store again."""

import sys

from bisection.core import paths
from bisection.store import sync
from bisection.store.database import Store
from bisection.store.sample_file import StoreError

DAMAGED, USAGE = 3, 2


def add_commands(commands):
    command = commands.add_parser(
        "import",
        help="store sample files, reports of ReFrame, and what runs could not store",
        description="Stores sessions from sample files (JSON lines, described in "
        "checks/bisection/store/sample_file.py), report files of ReFrame and results folders, and "
        "keeps a copy; without any, all that results folders, copies and ReFrame's database have "
        "and the store has not. What is stored already stays as it is. A damaged store is set "
        "aside and made again. Exit code: 0, 2 a file cannot be read (nothing of it is stored), 3 "
        "something was damaged.",
    )
    command.add_argument("files", nargs="*", metavar="FILE")
    command.set_defaults(act=act)


def act(options):
    code = 0
    for path in (paths.store_db(paths.home()), paths.results_db(paths.home())):
        if fault := sync.damage(path):
            try:
                aside = sync.set_aside(path)
            except StoreError as error:
                print(f"bisection import: error: {error} ({fault})", file=sys.stderr)
                return DAMAGED
            print(f"bisection import: {path} was damaged ({fault}) and is now {aside.name}")
            code = DAMAGED
    try:
        with Store(paths.store_db(paths.home())) as store:
            for file in options.files:
                found, added = sync.take(store, paths.home(), file)
                known = len(found) - added
                print(f"{file}: {added} sessions stored" + (f", {known} known" if known else ""))
            if not options.files:
                added = sync.synchronise(store, paths.home())
                print(f"{added} sessions stored, {store.count()} there")
    except StoreError as error:
        print(f"bisection import: error: {error}", file=sys.stderr)
        return code or USAGE
    return code
