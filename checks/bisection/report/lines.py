"""Text as lines that a mail or a terminal has room for."""

import re
import shutil
import textwrap

from bisection.core.format import WIDEST, plain

WIDTH = max(40, min(WIDEST, shutil.get_terminal_size().columns))
# Of a command: a word, with what is quoted, and behind its option.
WORD = r"""(?:--?[a-z][\w-]* (?!-))?(?:[^\s'"]|'[^']*'|"[^"]*"|['"])+"""


def fitting(text: str, further: str = "  ", indent: str = "", width: int = WIDTH) -> list[str]:
    """A text as lines that there is room for; `further`: begins all but the first. Long words,
    commands in backquotes, and numbers with their units stay whole."""
    whole = re.sub(r"`[^`]*`|\d [a-zA-Z]", lambda part: part[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(
        whole,
        width,
        initial_indent=indent,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in lines]


def wrapped(*lines: str, indent: str = "") -> list[str]:
    """Lines in as many as there is room for."""
    further = indent + ("    " if indent else "  ")
    return [part for line in lines for part in fitting(plain(line), further, indent) or [""]]


def commanded(label: str, command: str, indent: str = "") -> list[str]:
    """A command behind its label; below it, in as many lines as a shell joins again, where there is
    no room."""
    if len(line := f"{indent}{label}: {plain(command)}") <= WIDTH:
        return [line]
    lines = [""]
    for word in re.findall(WORD, plain(command)):
        if lines[-1] and len(f"{indent}    {lines[-1]} {word} \\") > WIDTH:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    whole = f" \\\n{indent}    ".join(lines)
    return [*wrapped(f"{label}:", indent=indent), *f"{indent}    {whole}".split("\n")]
