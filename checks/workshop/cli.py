"""The command line: `workshop COMMAND`, a module of workshop.commands each."""

from collections.abc import Sequence

from bisection import cli

WORKSHOP = cli.Program(
    "workshop",
    "Proves Bisection itself, for those who develop it.",
    {
        "bench": ("bench", "measure the kernels beside other codes, and the store"),
        "findings": ("findings", "compare the findings of the papers with simulated machines"),
        "faults": ("faults", "make faults on a virtual cluster, and print the verdicts on them"),
        "ladder": ("ladder", "make faults of this host, and print the verdicts on them"),
        "gpu": ("gpu", "try the kernels on the GPUs of this host, in five minutes"),
        "bundle": ("bundle", "pack all that a set-up without a network needs"),
        "cluster": ("cluster", "build a Slurm cluster of virtual nodes on this machine"),
        "docs": ("docs", "build the documentation as a site"),
        "picture": ("picture", "draw the picture of the README"),
        "met": ("met", "print which MPI libraries, compilers and systems passed here"),
        "mutants": ("mutants", "change lines of the sources, and see which tests notice"),
    },
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    return cli.main(arguments, WORKSHOP)
