"""Lists stored sessions; tags experiments, excludes or forgets sessions.

`list` (the default) prints the sessions, the newest last. SESSIONS are named as for `bisection
compare`; here every word also selects excluded sessions. Below a session, the list has its tags,
the reason for its exclusion, and the changes of hardware and software since the session before.

`exclude` keeps sessions in the store, and leaves them out of comparisons (`earlier`, days, tags,
`latest`), histories, references and advice. `include` undoes that. `tag` adds a tag, and
NAME= removes it; tagged sessions make no references. `forget` removes sessions from the store, and
`bisection import` does not restore them; results folders stay. `restore` undoes that.
"""

import argparse

from bisection.core import paths
from bisection.core.verdicts import BisectionError, Exit
from bisection.report.documents import add_json, shown
from bisection.report.session_list import list_text, listed, noted, restored
from bisection.runs.command import tag
from bisection.store.notes import mark, restore
from bisection.store.selection import HELP, select
from bisection.store.sync import opened


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(sessions=[], text="")
    add_json(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listing = actions.add_parser("list", help="print sessions (the default)")
    add_json(listing, default=argparse.SUPPRESS)  # before `list` it holds, too
    tagging = actions.add_parser("tag", help="tag sessions")
    tagging.add_argument("text", metavar="NAME=VALUE", type=tag, help="NAME= removes the tag")
    excluding = actions.add_parser("exclude", help="leave sessions out of all analyses")
    add = excluding.add_argument
    add("-m", "--reason", dest="text", metavar="TEXT", required=True, type=_text)
    including = actions.add_parser("include", help="undo `exclude`")
    forgetting = actions.add_parser("forget", help="remove sessions from the store for good")
    restoring = actions.add_parser("restore", help="undo `forget`")
    for action in (listing, tagging, excluding, including, forgetting, restoring):
        many = "*" if action is listing else "+"
        names = "identifiers that `list` prints" if action is restoring else HELP
        action.add_argument("sessions", nargs=many, metavar="SESSIONS", help=names)


def _text(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("the text is empty")
    return " ".join(text.split())


def act(options: argparse.Namespace) -> Exit:
    if options.json and options.action not in (None, "list"):
        raise BisectionError(f"--json: only the list is printed as JSON, not `{options.action}`")
    with opened(paths.home()) as store:
        words = ",".join(options.sessions)
        if options.action == "restore":
            lines = [*restored(restore(store, options.sessions))]
        elif options.action in (None, "list"):
            named = select(words, store, excluded_too=True) if words else store.sessions()
            document = listed(store, named)
            lines = [shown(options, document, list_text(document))]
        else:
            chosen = select(words, store, excluded_too=True)
            mark(store, chosen, options.action, options.text)
            lines = [*noted(chosen, options.action, options.text)]
    print("\n".join(lines))
    return Exit.OK
