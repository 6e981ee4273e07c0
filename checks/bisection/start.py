"""Starts a program, `bisection` or `workshop`, with nothing loaded before."""

import importlib
import sys


def start(name: str) -> None:
    """Ends this process as the program ends. An interrupt is one line, also while modules load."""
    try:
        sys.exit(importlib.import_module(f"{name}.cli").main())
    except BaseException as error:
        if not is_interrupt(error):
            raise
    sys.stderr.write(f"{name}: interrupted\n")
    sys.exit(130)  # Exit.INTERRUPTED, which is not loaded here


def is_interrupt(error: BaseException | None) -> bool:
    """True of KeyboardInterrupt, and of what it became on its way: while a class is made, Python
    turns it into RuntimeError."""
    while isinstance(error, RuntimeError):
        error = error.__cause__ or error.__context__
    return isinstance(error, KeyboardInterrupt)
