"""Prints the JSON Schema of a document or a file of Bisection; without NAME, lists them."""

import argparse
import json

from bisection.core.verdicts import BisectionError, Exit
from bisection.report.schemas import SCHEMAS
from bisection.report.text_tables import columns


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="one of those that it lists")


def act(options: argparse.Namespace) -> Exit:
    if not options.name:
        print("\n".join(columns([[name, about] for name, (about, _) in SCHEMAS.items()])))
        return Exit.OK
    if options.name not in SCHEMAS:
        raise BisectionError(f"{options.name!r}: no such schema; there are {', '.join(SCHEMAS)}")
    _, make = SCHEMAS[options.name]
    print(json.dumps(make(), indent=1))
    return Exit.OK
