"""How command lines are read: errors in one line, help as wide as a terminal."""

import argparse
import re
import shutil
import textwrap
from types import ModuleType
from typing import Any, NoReturn

from bisection.core.format import WIDEST
from bisection.core.verdicts import Exit, exit_codes


class Help(argparse.HelpFormatter):
    """Help with paragraphs as wide as the terminal has room for. Lines that begin with blanks or
    have columns stay lines of their own."""

    def __init__(self, prog: str, **how: Any) -> None:
        columns = min(shutil.get_terminal_size().columns, WIDEST)
        super().__init__(prog, **{"width": columns, **how})

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs: list[str] = []
        for line in text.strip("\n").splitlines():
            alone = not line.strip() or re.search(r"^ |\S {2,}\S", line)
            before = paragraphs[-1] if paragraphs and not alone else ""
            if before.strip() and not re.search(r"^ | {2,}\S", before):
                paragraphs[-1] += f" {line}"
            else:
                paragraphs.append(line)
        return "\n".join(map(self._wrapped, paragraphs))

    def _wrapped(self, line: str) -> str:
        columns = re.match(r" *(?:\S+(?: \S+)* {2,})*", line)  # what stands before the last one
        further = " " * (columns.end() if columns else 0)
        return textwrap.fill(
            line,
            self._width,
            subsequent_indent=further,
            break_long_words=False,
            break_on_hyphens=False,
        )


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line each."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**{"formatter_class": Help, **how})

    def error(self, message: str) -> NoReturn:
        if "are required" in message:
            message += f"; `{self.prog} --help` lists them"
        self.exit(Exit.USAGE, f"{self.prog}: error: {message}\n")


def describe(parser: argparse.ArgumentParser, command: ModuleType) -> None:
    """Gives the parser of a command its help: what the module says, and its exit codes."""
    parser.description = command.__doc__
    codes = exit_codes(getattr(command, "CODES", {}))
    parser.epilog = f"{parser.epilog}\n\n{codes}" if parser.epilog else codes
