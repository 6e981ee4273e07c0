"""Writes stored nights for other programs: one row per metric and session.

CSV is for spreadsheets: a head, commas, UTF-8. JSON has one object per line; `bisection schema
night` describes it. Parquet needs the Python package pyarrow.
Rows come from the oldest session to the newest. A value is the median of the jobs of the session,
in the metric's unit. It is empty where other processes disturbed them, or nothing was measured.
"""

import argparse
import sys
from pathlib import Path

from bisection import nights
from bisection.core import paths
from bisection.core.format import regex
from bisection.core.verdicts import BisectionError, Exit
from bisection.report.night_files import csv_text, json_text, write_parquet
from bisection.store.selection import HELP

TEXTS = {"csv": csv_text, "json": json_text}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    forms = parser.add_mutually_exclusive_group(required=True)
    for form, name in {"csv": "CSV", "json": "JSON lines", "parquet": "Parquet"}.items():
        about = f"write {name}" + ("; needs -o" if form == "parquet" else "")
        forms.add_argument(f"--{form}", dest="form", action="store_const", const=form, help=about)
    add = parser.add_argument
    add("sessions", nargs="?", default="..", metavar="SESSIONS", help=f"{HELP}; default: all")
    add("-n", "--name", metavar="REGEX", type=regex, help="only tests whose names match REGEX")
    add("-o", "--output", metavar="FILE", type=Path, help="default: standard output")


def act(options: argparse.Namespace) -> Exit:
    rows = nights.rows(options.sessions, options.name or "")
    if options.form == "parquet":
        if not options.output:
            raise BisectionError("--parquet is no text: name its file by -o FILE")
        write_parquet(rows, options.output)
        return Exit.OK
    parts = TEXTS[options.form](rows)
    if options.output:
        paths.write_whole(options.output, parts)
    else:
        for part in parts:
            sys.stdout.write(part)
    return Exit.OK
