"""Changes lines of the sources, and runs the tests that should notice. Without --sample, the list
gets the test that killed each mutant, which runs first the next time.

"""

import argparse
from collections import Counter
from dataclasses import replace

from bisection.core import paths
from bisection.core.format import at_least
from bisection.core.verdicts import Exit
from workshop.mutation import killing, mutants

CODES = {Exit.FAILED: "a mutant survives that is not listed"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="*", metavar="FILE", help="mutants of these files; default: all"
    )
    parser.add_argument(
        "--sample", type=at_least(1), metavar="N", help="each Nth mutant of the list; default: all"
    )
    parser.add_argument(
        "--draw", action="store_true", help="draw others for mutants whose line is gone"
    )


def act(options: argparse.Namespace) -> Exit:
    tree = mutants.copied(paths.home() / "mutants")
    there = [mutant for mutant in mutants.listed() if mutant.place(tree)]
    if options.draw:
        mutants.write(mutants.draw(tree, killing.build(tree), there))
        return Exit.OK
    chosen = there[:: options.sample or 1]
    if options.sample:  # those that are known to survive would take all tests
        chosen = [mutant for mutant in chosen if mutant.test or not mutant.note]
    if options.file:
        chosen = [mutant for mutant in chosen if mutant.file in options.file]
    known = {mutant: mutant for mutant in mutants.listed()}
    counts: Counter[tuple[str, str]] = Counter()
    survivors = 0
    for mutant in chosen:
        test = "" if mutant.equivalent else killing.killer(mutant, tree)
        why = "" if mutant.test else mutant.note
        outcome = "killed" if test else why.partition(":")[0] or "survives"
        survivors += not test and not why
        counts[mutant.language, outcome] += 1
        print(f"{outcome:10} {mutant}   {test or why}", flush=True)
        if test and " " not in test and not options.sample:
            known[mutant] = replace(mutant, note=f"killed: {test.partition('::')[0]}")
            mutants.write(known.values())
    for language in mutants.SOURCES:
        killed, alive = counts[language, "killed"], counts[language, "survives"]
        if killed + alive:
            print(f"{language}: {killed} of {killed + alive} mutants killed")
    return Exit.FAILED if survivors else Exit.OK
