"""English stands in report/, commands/ and core/reasons/; what is found out elsewhere is data."""

import ast
import re

import pytest
from running import CHECKS

PACKAGES = ("core", "kernels", "rfm", "sites", "runs", "store", "analysis", "advice")
# Texts for people all the same: progress of long builds, help of a program of its own, descriptions
# of names that do not depend on what was found out, what is written into a file.
ALLOWED = re.compile(
    r"core/((format|lock|paths|thresholds|verdicts)|reasons/\w+)\.py|analysis/propose\.py|"
    r"kernels/(build_folder|spack/(__main__|externals|install|program|site_environment))\.py|"
    r"runs/command\.py|store/(database|selection|sync)\.py"
)
WORDS = re.compile(r"[a-z]+( [a-z{}]+){2}")
# What other programs write and are asked, as a pattern; Python and shell.
NO_SENTENCE = re.compile(
    r"[\\^*|>]|^from \w|run session stopped|not a report|no site file|^(flux|scontrol) \w"
    r"|^Could not establish"
)


def literals(node):
    """Texts below a node, but docstrings, descriptions and texts of errors."""
    error = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Error")
    bare = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    title = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "descr"
    if isinstance(node, ast.JoinedStr):
        yield "".join(p.value if isinstance(p, ast.Constant) else "{}" for p in node.values)
    elif isinstance(node, ast.Constant):
        yield str(node.value)
    elif not (error or bare or title or isinstance(node, ast.Raise)):
        for child in ast.iter_child_nodes(node):
            yield from literals(child)


def english(text):
    texts = literals(ast.parse(text))
    return [text for text in texts if WORDS.search(text) and not NO_SENTENCE.search(text)]


@pytest.mark.parametrize("package", PACKAGES)
def test_what_is_found_out_is_no_sentence(package):
    for file in (CHECKS / "bisection" / package).rglob("*.py"):
        name = str(file.relative_to(CHECKS / "bisection"))
        assert ALLOWED.fullmatch(name) or english(file.read_text()) == [], name


def test_a_sentence_is_recognised():
    text = 'defects = [f"key {key} is there twice"]\nraise ValueError("this one is raised")\n'
    assert english(text) == ["key {} is there twice"]
