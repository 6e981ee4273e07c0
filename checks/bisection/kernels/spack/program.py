"""Spack itself: found or cloned, configured, run."""

import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bisection.core import paths
from bisection.core.commands import Answer, ask
from bisection.kernels.digests import digest, file_digests
from bisection.kernels.spack.externals import SpackError

# Spack's solver. Without it in the Python that runs Spack, Spack downloads one for itself.
CLINGO = "clingo==5.8.0"
MIRROR = "mirror"  # the folder of sources that a bundle brought (bootstrap.sh)
OLDEST = 1  # the first Spack that reads package repositories of API v2
PATIENCE = 600  # s for an answer of git or Spack


@dataclass(frozen=True)
class Pin:
    """A release that is cloned, and the environment variable that names another place for it."""

    name: str
    release: str
    upstream: str
    variable: str

    @property
    def url(self) -> str:
        url = os.environ.get(self.variable) or self.upstream
        # Git ignores --depth for a plain path.
        return Path(url).resolve().as_uri() if Path(url).is_dir() else url

    @property
    def folder(self) -> Path:
        return paths.home() / "spack" / f"{self.name}-{self.release}"


SPACK = Pin("spack", "v1.1.0", "https://github.com/spack/spack.git", "BISECTION_SPACK_URL")
PACKAGES = Pin(
    "spack-packages",
    "v2025.11.0",
    "https://github.com/spack/spack-packages.git",
    "BISECTION_SPACK_PACKAGES_URL",
)


def note(text: str) -> None:
    print(f"spack: {text}", file=sys.stderr, flush=True)


def find_spack() -> Path | None:
    """The Spack at hand: SPACK_ROOT's, or the one on PATH."""
    if root := os.environ.get("SPACK_ROOT"):
        program = Path(root, "bin", "spack")
        if not os.access(program, os.X_OK):
            raise SpackError(f"SPACK_ROOT is '{root}', which has no bin/spack: correct or unset it")
        return program
    on_path = shutil.which("spack")
    return Path(on_path) if on_path else None


def git(*arguments: str) -> Answer:
    """Runs git. Neither a question for a password nor a connection that has died may hang an
    unattended run."""
    settings = ["-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60"]
    settings += ["-c", "safe.directory=*"]  # a site's Spack is its administrator's
    environ = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    return ask("git", *settings, *arguments, environ=environ, patience=PATIENCE)


def commit_of(folder: Path) -> str:
    """The commit of the clone that a folder is part of, with "-dirty" where files differ from it;
    "" where git cannot tell."""
    where = ("-C", str(folder))
    # A folder unpacked below a clone of something else is not part of it.
    if not git(*where, "ls-files", "--error-unmatch", "."):
        return ""
    options = ("--always", "--abbrev=40", "--exclude=*", "--dirty")
    return git(*where, "describe", *options).text.strip()


def clone(pin: Pin) -> Path:
    """The clone of a pinned release, made unless it is there; SpackError if it cannot be had."""
    target = pin.folder
    if target.exists():
        return target
    note(f"cloning {pin.name} {pin.release} from {pin.url}")
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    options = ("--quiet", "--depth", "1", "--branch", pin.release, pin.url, str(partial))
    try:
        answer = git("-c", "advice.detachedHead=false", "clone", *options)
        if answer:
            partial.rename(target)  # an interrupted clone leaves no target
            return target
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    more = ", SPACK_ROOT an installed Spack to use instead" if pin is SPACK else ""
    raise SpackError(
        f"cannot clone {pin.name} {pin.release} from {pin.url}: {answer.error}; {pin.variable} "
        f"names another repository{more}"
    )


def imports_clingo(python: str) -> bool:
    return bool(ask(python, "-E", "-c", "import clingo", patience=PATIENCE))


def find_python(log: Path) -> str:
    """A Python with Spack's solver: SPACK_PYTHON, or ours, into which it is installed if needed.

    The output of pip is appended to the log. SpackError: the solver cannot be installed.
    """
    ours = sys.executable
    for python in (os.environ.get("SPACK_PYTHON"), ours):
        if python and imports_clingo(python):
            return python
    note(f"installing {CLINGO}, Spack's solver")
    try:
        run([ours, "-m", "pip", "install", "--disable-pip-version-check", CLINGO], log, "pip")
    except SpackError as error:
        raise SpackError(
            f"cannot install {CLINGO}, Spack's solver, into {ours}: PIP_INDEX_URL names another "
            f"package index, SPACK_PYTHON a Python that has clingo; {error}"
        ) from None
    return ours


def run(command: list[str], log: Path, step: str, env: Mapping[str, str] | None = None) -> None:
    """Runs a command, whose output is appended to a log.

    Args:
        command: the program and its arguments.
        log: the file.
        step: the command's purpose, for the error.
        env: environment variables; None for this process's own.

    Raises:
        SpackError: it exits with another code than 0; the text ends with what says why.
    """
    with log.open("a+", errors="replace") as stream:
        now = time.strftime("%FT%TZ", time.gmtime())
        print(now, "$", shlex.join(command), file=stream, flush=True)
        begin = stream.tell()
        answer = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, env=env
        )
        if answer.returncode != 0:
            stream.seek(begin)
            shown = "".join(f"\n    {line}" for line in telling_lines(stream.read()))
            raise SpackError(f"{step} failed with {answer.returncode}, all of it in {log}{shown}")


def telling_lines(output: str) -> list[str]:
    """The lines that say what failed and a few after each; the last lines if none does."""
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    errors = [n for n, line in enumerate(lines) if re.search(r"(?i)\berror:|^\s*>> ", line)]
    shown = sorted({m for n in errors for m in range(n, min(n + 3, len(lines)))})
    return [lines[n] for n in shown[:20]] or lines[-20:]


class Spack:
    """A Spack, run with a configuration of our own and none of the user's.

    It is started when it is first asked for something. A site's Spack brings its recipes, unless
    others are named; with all else a release of them is cloned.

    Args:
        log: the file that its output is appended to.
        known: the identity of the Spack that the folder `packages` is of.
        packages: the folder of its recipes.

    Attributes:
        commit: of its clone; "" if it is none.
        identity: changes with the Spack and with what its site configured.
    """

    def __init__(self, log: Path, known: str = "", packages: str = "") -> None:
        self.log, self.scope = log, paths.home() / "spack" / "config"
        at_hand = find_spack()
        self.program = at_hand or clone(SPACK) / "bin" / "spack"
        of_site = at_hand is not None and not os.environ.get(PACKAGES.variable)
        root = self.program.resolve().parents[1]
        self.commit = commit_of(root)
        # It stands elsewhere than a wrapper of it.
        version = paths.text_of(root / "lib/spack/spack/__init__.py") or self.version
        site = json.dumps(file_digests(root / "etc" / "spack"))
        self.identity = digest(str(self.program), self.commit, version, site, str(of_site))
        there = packages if known == self.identity and Path(packages).is_dir() else ""
        if not there and of_site:
            lines = self.answer("repo", "list")
            match = re.search(r"^\[\+\]\s+builtin\s+v2\S*\s+(/.*)$", lines, re.M)
            there = match[1].strip() if match else ""
        self.packages = Path(there or clone(PACKAGES) / "repos" / "spack_repo" / "builtin")
        self.configure()

    @functools.cached_property
    def env(self) -> dict[str, str]:
        """Its environment variables."""
        # An active Spack environment, or modules for another Python, must not reach our Spack.
        ours = {"SPACK_ENV", "SPACK_ENV_VIEW", "PYTHONPATH", "PYTHONHOME"}
        env = {name: value for name, value in os.environ.items() if name not in ours}
        return env | {
            "SPACK_PYTHON": find_python(self.log),
            "SPACK_DISABLE_LOCAL_CONFIG": "1",
            "SPACK_USER_CACHE_PATH": str(paths.home() / "spack" / "user"),
        }

    @functools.cached_property
    def version(self) -> str:
        """Its version, as `spack --version` begins with it; SpackError if that is too old."""
        answer = self.answer("--version")
        match = re.match(r"(\d+)\.\d+\S*", answer)
        if not match:
            raise SpackError(f"{self.program} --version says '{answer.strip()[:80]}'")
        if int(match[1]) < OLDEST:
            raise SpackError(
                f"{self.program} is Spack {match[0]}, older than {OLDEST}.0: name another with "
                f"SPACK_ROOT, or take it off PATH to have {SPACK.release} cloned"
            )
        return match[0]

    def answer(self, *arguments: str) -> str:
        """Returns the output of a short command."""
        answer = ask(str(self.program), *arguments, environ=self.env, patience=PATIENCE)
        if not answer:
            text = f"spack {shlex.join(arguments)} failed with {answer.code}"
            raise SpackError(f"{text}: {answer.error}")
        return answer.text

    def on(self, folder: Path) -> list[str]:
        """The options by which Spack works on the environment in `folder`."""
        return ["-C", str(self.scope), "-e", str(folder)]

    def __call__(self, step: str, folder: Path, *arguments: str) -> None:
        """Runs a command on the environment in `folder`; SpackError if it fails in this step."""
        run([str(self.program), *self.on(folder), *arguments], self.log, step, self.env)

    def prefixes(self, folder: Path) -> dict[str, str]:
        """The installed packages of the environment in `folder` and where they are."""
        lines = self.answer(*self.on(folder), "find", "--format", "{name} {prefix}").splitlines()
        words = (line.split(maxsplit=1) for line in lines)
        return {pair[0]: pair[1].strip() for pair in words if len(pair) == 2}

    def configure(self) -> None:
        """Keeps Spack inside our folder."""
        base = self.scope.parent
        files: dict[str, Any] = {
            "config": {
                "install_tree": {"root": str(base / "opt")},
                "build_stage": [str(base / "stage")],
                "test_stage": str(base / "test"),
                "source_cache": str(base / "sources"),
                "misc_cache": str(base / "cache"),
                # Spack's default is a link inside src/.
                "develop_stage_link": str(base / "build-{hash}"),
            },
            "repos": {"builtin": str(self.packages)},
            "bootstrap": {"enable": False},
        }
        if (base / MIRROR).is_dir():
            files["mirrors"] = {"bundle": (base / MIRROR).as_uri()}
        self.scope.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            text = json.dumps({name: content}, indent=1)  # JSON is YAML
            paths.write_whole(self.scope / f"{name}.yaml", text)
