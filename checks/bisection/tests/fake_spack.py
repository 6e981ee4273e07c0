"""Stands in for Spack: notes each call, and like Spack fails to compile "broken" code,
or any with BROKEN_INSTALL in the environment.

Copied to bin/spack of a folder that holds what it answers with: its version where Spack has it,
`lock`, `recipes`, and `source`, the path of the file that it "compiles" into opt/bin as the kernel
for transposes. Calls are lines of the file `calls`.
"""

import os
import sys
from pathlib import Path

VERSION = "lib/spack/spack/__init__.py"


def make(root, lock, source):
    """A folder with this Spack, which concretises to a lock and compiles a file."""
    for name in ("bin", "recipes", "etc/spack", "lib/spack/spack"):
        (root / name).mkdir(parents=True)
    program = root / "bin" / "spack"
    program.write_text(f"#!{sys.executable}\n{Path(__file__).read_text()}")
    program.chmod(0o755)
    for name, text in {VERSION: "1.1.0 (0123abc)", "lock": lock, "source": str(source)}.items():
        (root / name).write_text(text)


def main():
    base, arguments = Path(__file__).parents[1], sys.argv[1:]
    folder = Path(arguments[3]) if arguments[0] == "-C" else None  # of an environment
    command, *options = arguments[4:] if folder else arguments
    with (base / "calls").open("a") as calls:
        print(command, *options, file=calls)
    if command == "--version":
        return print((base / VERSION).read_text())
    if command == "repo":
        return print(f"[+] builtin    v2.2    {base / 'recipes'}")
    program = base / "opt" / "bin" / "bisection-transpose"
    source = Path((base / "source").read_text()).read_text()
    if command == "find":
        kernels = f"\nbisection-kernels {base / 'opt'}" if program.exists() else ""
        return print(f"openmpi /usr{kernels}")
    if "broken" in source or (command == "install" and "BROKEN_INSTALL" in os.environ):
        print("compiling\n==> Error: ProcessError: make\n  >> main.c:1: error: broken\nthe end")
        return 1
    if command == "concretize":
        (folder / "spack.lock").write_text((base / "lock").read_text())
    if command == "install":
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(source)
        program.chmod(0o755)
    return 0


if __name__ == "__main__":
    sys.exit(main())
