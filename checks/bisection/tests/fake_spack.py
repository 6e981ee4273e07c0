#!/usr/bin/env python3
"""Stands in for Spack: notes each call, and like Spack fails to compile "broken" code.

Installed as bin/spack of a folder that holds what it answers with: `version`, `lock`, and `source`,
the path of the C file that it "compiles" into opt/bin. Calls are lines of the file `calls`.
"""

import sys
from pathlib import Path


def main():
    base, arguments = Path(__file__).parents[1], sys.argv[1:]
    if arguments == ["--version"]:
        return print((base / "version").read_text())
    if arguments == ["repo", "list"]:
        return print("[+] builtin    v2.2    /recipes")
    folder, (command, *options) = Path(arguments[3]), arguments[4:]
    program = base / "opt" / "bin" / "bisection-transpose"
    source = Path((base / "source").read_text()).read_text()
    if command == "find":
        kernels = f"\nbisection-kernels {base / 'opt'}" if program.exists() else ""
        return print(f"openmpi /usr{kernels}")
    with (base / "calls").open("a") as calls:
        print(command, *options, file=calls)
    if "broken" in source:
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
