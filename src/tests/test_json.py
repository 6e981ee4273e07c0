"""What the writer of JSON writes is what Python's parser reads: test_json.py UNIT_JSON."""

import itertools
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
EDGES = b"\0\x7f\x80\x8f\x90\x9f\xa0\xbf\xc1\xc2\xe0\xed\xef\xf0\xf4\xf5"


def replaced(text):
    """The characters that Python decodes, and U+FFFD for each byte that is in none."""
    characters = ""
    while text:
        for length in range(1, 5):
            try:
                characters += text[:length].decode()
            except UnicodeDecodeError:
                continue
            text = text[length:]
            break
        else:
            characters += "\ufffd"
            text = text[1:]
    return characters


def texts():
    """Of up to four bytes, which end at a zero byte."""
    for drawn in itertools.product(EDGES, repeat=4):
        yield bytes(reversed(drawn)).partition(b"\0")[0]


def refuse(name):
    raise ValueError(name + " is no JSON")


writer = subprocess.run([*EMULATOR, sys.argv[1]], stdout=subprocess.PIPE, check=True)
expected = EXPECTED | {"bytes": [replaced(text) for text in texts()]}
for text in writer.stdout.decode().split("\n---\n"):
    read = json.loads(text, parse_constant=refuse)
    assert read == expected, read
    assert list(read) == list(expected), list(read)
