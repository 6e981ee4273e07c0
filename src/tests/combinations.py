"""Builds and tests the kernels with other compilers, processors and MPI libraries.

combinations.py FOLDER JOBS [--all | NAME...]: those of combinations.ini whose turn is today; all;
some.  FOLDER has a build and packages of each.  What cannot be had is a line "skipped: ...".  Exit
code: 1 if one failed, 2 for a name that is unknown.  Standard library only.
"""

import configparser
import datetime
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
WEEK = 7
QUIET = "-DCMAKE_RULE_MESSAGES=OFF -DCMAKE_COMPILE_WARNING_AS_ERROR=ON -DCMAKE_BUILD_TYPE=Release"
CTEST = "--output-on-failure --no-tests=error --output-junit tests.xml"


class Missing(Exception):
    """What a combination needs and this machine cannot have."""


def due(names: "list[str]", day: int) -> "list[str]":
    """Those whose turn it is on a day, so that each has one in any seven days."""
    daily = -(-len(names) // WEEK)
    return [names[(day * daily + i) % len(names)] for i in range(daily)]


def today(table: configparser.ConfigParser) -> "list[str]":
    daily = [name for name, row in table.items() if row.getboolean("daily", False)]
    others = [name for name in table.sections() if name not in daily]
    return daily + due(others, datetime.date.today().toordinal())


def logged(log: Path, *command: "str | Path", **options) -> bool:
    """Whether a command succeeds, whose output goes to the log."""
    with log.open("a") as file:
        print("$", shlex.join(map(str, command)), file=file, flush=True)
        return subprocess.run(command, stdout=file, stderr=file, **options).returncode == 0


def download(folder: Path, architecture: str, packages: "list[str]", own: bool, log: Path) -> None:
    """Packages, and what they need that is not installed, into FOLDER/archives.

    apt's lists and archives are in the folder: any user may, and nothing of the machine's changes.
    """
    for part in ("lists/partial", "archives/partial"):
        (folder / part).mkdir(parents=True)
    nothing = folder / "status"
    nothing.touch()
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "true",
        "Dir::Cache": folder,
        "Dir::State": folder,
        "Dir::State::status": "/var/lib/dpkg/status" if own else nothing,
    }
    apt = ["apt-get", "--yes", *(f"-o{name}={value}" for name, value in settings.items())]
    if not (
        logged(log, *apt, "update") and logged(log, *apt, "--download-only", "install", *packages)
    ):
        raise Missing(f"apt-get does not bring {' '.join(packages)}, see {log}")


def unpack(folder: Path, packages: "list[str]", log: Path) -> Path:
    """Unpacks Debian packages NAME or NAME:ARCHITECTURE into a folder, unless they are there.

    Those of other architectures come first: of two programs of one name, the one that runs stays.
    """
    root, ready = folder / "root", folder / "ready"
    if ready.exists() and ready.read_text().split() == packages:
        return root
    if not shutil.which("apt-get"):
        raise Missing(f"no apt-get, for {' '.join(packages)}")
    shutil.rmtree(folder, ignore_errors=True)
    host = subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()
    names = {}
    for name, _, architecture in (package.partition(":") for package in packages):
        names.setdefault(architecture or host, []).append(name)
    for architecture in sorted(names, key=lambda name: name == host):
        scratch = folder / architecture
        download(scratch, architecture, names[architecture], architecture == host, log)
        for archive in (scratch / "archives").glob("*.deb"):
            subprocess.run(["dpkg-deb", "--extract", archive, root], check=True)
        shutil.rmtree(scratch)
    ready.write_text("\n".join(packages))
    return root


def wheels(folder: Path, packages: "list[str]", log: Path) -> Path:
    """Installs Python packages, as MPI libraries are, into a folder, unless they are there."""
    ready = folder / "ready"
    if ready.exists() and ready.read_text().split() == packages:
        return folder
    python = folder / "bin/python"
    if not (
        logged(log, sys.executable, "-m", "venv", "--clear", "--without-pip", folder)
        and logged(log, sys.executable, "-m", "pip", "--python", python, "install", *packages)
    ):
        raise Missing(f"pip does not bring {' '.join(packages)}, see {log}")
    ready.write_text("\n".join(packages))
    return folder


def run(name: str, row: configparser.SectionProxy, folder: Path, jobs: str) -> bool:
    """Whether a combination builds and its tests pass.  Raises Missing."""
    lacking = [tool for tool in row.get("needs", "").split() if not shutil.which(tool)]
    if lacking:
        raise Missing(f"not installed: {' '.join(lacking)}")
    build = folder / f"build-{name}"
    build.mkdir(parents=True, exist_ok=True)
    log = build / "combination.log"
    log.write_text("")
    (build / "tests.xml").unlink(missing_ok=True)  # of an earlier build, for `workshop met`
    values = {"tests": HERE, "libraries": sysconfig.get_config_var("MULTIARCH")}
    values["path"] = os.environ["PATH"]
    for key, bring in (("packages", unpack), ("wheels", wheels)):
        if wanted := row.get(key, "").split():
            values["root"] = bring(folder / "packages" / row.get("like", name), wanted, log)

    def words(key: str) -> "list[str]":
        return shlex.split(row.get(key, "").format(**values))

    env = {**os.environ, **dict(word.split("=", 1) for word in words("environment"))}
    options = [*QUIET.split(), *words("cmake")]
    cores = str(os.cpu_count())
    if not (
        logged(log, "cmake", "-S", HERE.parent, "-B", build, *options, env=env)
        and logged(log, "cmake", "--build", build, "--parallel", cores, *words("build"), env=env)
    ):
        print(log.read_text()[-4000:])
        return False
    test = ["ctest", "--test-dir", build, "--parallel", jobs, *CTEST.split(), *words("ctest")]
    return subprocess.run([*words("launcher"), *test], env=env).returncode == 0


def main(folder: str, jobs: str, *wanted: str) -> int:
    table = configparser.ConfigParser(interpolation=None)
    table.read(HERE / "combinations.ini")
    for row in table.values():
        for key, value in table[row.get("like", row.name)].items():
            if row.get(key) == table.defaults().get(key):
                row[key] = value
    names = table.sections()
    if unknown := sorted({*wanted} - {"--all", *names}):
        print(f"unknown: {' '.join(unknown)}; there are --all, {', '.join(names)}", file=sys.stderr)
        return 2
    failed = False
    for name in names if "--all" in wanted else wanted or today(table):
        print(f"== kernels, {name}: {table[name]['about']}", flush=True)
        began = time.monotonic()
        try:
            failed |= not run(name, table[name], Path(folder).resolve(), jobs)
        except Missing as reason:
            print(f"skipped: {name}: {reason}")
        print(f"-- {name}: {time.monotonic() - began:.0f} s", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
