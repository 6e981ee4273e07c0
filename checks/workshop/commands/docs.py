"""Builds the documentation as a site, with a search: .bisection/docs/site/index.html.

The pages are the Markdown of the repository as it is, the help of all commands, and all schemas.
A broken link, or a page that the table of contents lacks, stops the build.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bisection import cli
from bisection.core import paths
from bisection.core.verdicts import Exit
from bisection.report.schemas import SCHEMAS

SOURCE = paths.ROOT / "checks/workshop/docs"  # Sphinx's configuration, and the table of contents
LINK = re.compile(r"\[([^\[\]]*)\]\(([^()\s#]+)((?:#[^()\s]*)?)\)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It has none."""


def act(options: argparse.Namespace) -> Exit:
    folder = paths.home() / "docs"
    pages, site = folder / "pages", folder / "site"
    shutil.rmtree(pages, ignore_errors=True)
    write_pages(pages)
    build = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
    build += ["--conf-dir", str(SOURCE), "--fresh-env", str(pages), str(site)]
    if subprocess.run(build).returncode:
        return Exit.FAILED
    print(f"documentation: {paths.shown(site / 'index.html')}")
    return Exit.OK


def write_pages(folder: Path) -> None:
    """Writes all pages, and the files that they link to, as the repository has them."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    names = subprocess.run(listed, cwd=paths.ROOT, stdout=subprocess.PIPE, text=True, check=True)
    for name in names.stdout.split():
        page = paths.ROOT / name
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        text = LINK.sub(partial(without_folder, page), page.read_text(encoding="utf-8"))
        (folder / name).write_text(text, encoding="utf-8")
        for _, target, _ in LINK.findall(text):
            file = (page.parent / target).resolve()
            if file.is_file() and file.suffix != ".md" and file.is_relative_to(paths.ROOT):
                copy = folder / file.relative_to(paths.ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)
    shutil.move(folder / SOURCE.relative_to(paths.ROOT) / "index.md", folder)
    for name, lines in {"commands": commands(), "schemas": schemas()}.items():
        (folder / f"{name}.md").write_text("\n".join(lines), encoding="utf-8")


def without_folder(page: Path, link: re.Match[str]) -> str:
    """A link, or its text alone if it leads to a folder, which a site cannot show."""
    return link[1] if (page.parent / link[2]).is_dir() else link[0]


def commands() -> Iterator[str]:
    """The lines of a page with the help of each command."""
    os.environ["COLUMNS"] = "100"
    yield "# Commands\n\nThe `--help` of each command.\n"
    for name in cli.BISECTION.commands:
        for words, parser in leaves(cli.parser(name), []):
            if words[:1] == [name]:
                title = f"bisection {' '.join(words)}"
                yield f"## {title}\n\n```text\n{parser.format_help()}```\n"


def schemas() -> Iterator[str]:
    """The lines of a page with the JSON Schema of each document and file."""
    yield "# Schemas\n\nThe JSON Schemas that `bisection schema NAME` prints.\n"
    for name, (about, make) in SCHEMAS.items():
        yield f"## {name}\n\n{about}\n\n```json\n{json.dumps(make(), indent=1)}\n```\n"


def leaves(
    parser: argparse.ArgumentParser, words: list[str]
) -> Iterator[tuple[list[str], argparse.ArgumentParser]]:
    """The words of the command line of a parser and of each command below it, and their parsers."""
    yield words, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                yield from leaves(child, [*words, name])
