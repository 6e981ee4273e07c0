"""What the writer of JSON writes is what Python's parser reads: test_json.py UNIT_JSON."""

import json
import subprocess
import sys

from kernel_run import EMULATOR

LARGEST = sys.float_info.max
EXPECTED = {
    "nested": [
        [],
        {"inner": {"yes": True, "no": False, "replaced": {"by": {}}, "last": 2}},
        {"raw": [1]},
    ],
    "quotes": 'say "no" to C:\\ / \\u0041',
    "control": "".join(map(chr, range(1, 32))),
    "utf-8": "é€😀\x7f",
    "none": None,
    "": "empty name",
    'a "name"\n': "",
    "numbers": [0, -1, 0.1, 1 / 3, 1e-300, 5e-324, 2.0**53, 1e22, LARGEST],
    "not finite": [None, None, None],
    "empty": {},
}


def refuse(name):
    raise ValueError(name + " is no JSON")


writer = subprocess.run([*EMULATOR, sys.argv[1]], stdout=subprocess.PIPE, check=True)
for text in writer.stdout.decode().split("\n---\n"):
    read = json.loads(text, parse_constant=refuse)
    assert read == EXPECTED, read
    assert list(read) == list(EXPECTED), list(read)
