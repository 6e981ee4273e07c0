"""English stands in report/, night/, commands/ and core/reasons/; elsewhere there is data."""

import ast
import re

import pytest
from running import CHECKS

SENTENCE = re.compile(r"[a-z]+( [a-z{}]+){2}")
# These write texts for people, or shell, into files.
ALLOWED = ("externals", "install", "site_environment", "selection", "trial")


@pytest.mark.parametrize("package", "kernels rfm sites runs store analysis advice".split())
def test_what_is_found_out_is_no_sentence(package):
    for file in (CHECKS / "bisection" / package).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Return(value) | ast.Yield(value):
                    texts = [value]
                case ast.List(texts) | ast.Call(ast.Attribute(attr="append"), texts):
                    pass
                case _:
                    continue
            for text in texts:
                if isinstance(text, ast.JoinedStr | ast.Constant) and file.stem not in ALLOWED:
                    assert not SENTENCE.search(ast.unparse(text)), (file, text.lineno)
