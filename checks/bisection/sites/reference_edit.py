"""A reference file changed entry by entry, its comments and everything else kept as they are."""

import copy
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import RoundTripRepresenter

from bisection.core.reference_files import choose, is_index

INDEX = ["$partition", "$environ", "geometry", "case", "method"]  # of a check without one

NOTE = r"\d+ sessions to \d{4}-\d{2}-\d{2}"  # how a note of a proposal begins
ReferencePath = tuple[str, ...]  # check, keys of the index, metric


class EditableReferences:
    """A reference file, or an empty one under a header if there is none yet."""

    def __init__(self, file: Path, header: str) -> None:
        """ValueError if the file is not one of references."""
        self.yaml = YAML()
        self.yaml.preserve_quotes, self.yaml.width = True, 4096
        self.yaml.indent(mapping=2, sequence=4, offset=2)
        self.yaml.representer.add_representer(float, _number)
        self.before = file.read_text(encoding="utf-8") if file.exists() else ""
        try:
            tree = self.yaml.load(self.before)
        except YAMLError as error:
            raise ValueError(f"{file} is not YAML: {' '.join(str(error).split())}") from None
        if tree is None:
            tree = CommentedMap()
            tree.yaml_set_start_comment(header)
        if not isinstance(tree, CommentedMap):
            raise ValueError(f"{file} is not a mapping of checks")
        self.tree = tree

    def where(self, case: Mapping[str, Any], metric: str) -> ReferencePath:
        """The place of the reference of a test case: the keys that ReFrame takes for it, and from
        where none fits on its own values.

        Raises:
            ValueError: the check's $index has an attribute that is not known before a run.
        """
        path, data = [case["check"]], self.tree.get(case["check"])
        for name in self._index(case):
            keys = [key for key in data if key != "$index"] if isinstance(data, Mapping) else []
            key = choose(keys, case[name])
            data = data[key] if key is not None else None
            path.append(case[name] if key is None else key)
        return (*path, metric)

    def own(self, case: Mapping[str, Any], metric: str) -> ReferencePath:
        """The place of a reference of this test case alone: its own values. ValueError as above."""
        return (case["check"], *(case[name] for name in self._index(case)), metric)

    def _index(self, case: Mapping[str, Any]) -> Sequence[str]:
        entry = self.tree.get(case["check"])
        index = entry.get("$index") if isinstance(entry, CommentedMap) else INDEX
        if not is_index(index) or any(name not in case for name in index):
            raise ValueError(f"{case['check']} has the $index {index}: it cannot be amended")
        return index

    def get(self, path: ReferencePath) -> Any:
        """The reference, or the branch, at a place; None if there is none."""
        data: Any = self.tree
        for key in path:
            if not isinstance(data, Mapping) or key not in data:
                return None
            data = data[key]
        return data

    def comment(self, path: ReferencePath) -> str:
        """The comment behind the reference at a place; "" if there is none."""
        return _comment(self.get(path[:-1]), path[-1])[0]

    def put(self, path: ReferencePath, entry: Sequence[float | None], note: str) -> None:
        """Sets the reference at a place, with a note behind it. Parts that aliases share with
        other places are copied first: the others stay. So are those that ReFrame takes as long as
        the place has no part of its own. Comments of a person stay."""
        data = self.tree
        for depth, key in enumerate(path[:-1]):
            part = data.get(key)
            if part is None:
                keys = [other for other in data if other != "$index"] if depth else []
                like = choose(keys, key)
                part = CommentedMap() if like is None else _bare(data[like])
                if depth == 0:
                    part["$index"] = _flow(INDEX)
                data.insert(len(data) if like is None else list(data).index(like), key, part)
                if depth == 0:
                    data.yaml_set_comment_before_after_key(key, before="\n")
            elif part.anchor.value:  # aliases share it with other places
                part = data[key] = copy.deepcopy(part)
                _drop_anchors(part)
            data = part
        behind, below = _comment(data, path[-1])
        data[path[-1]] = _flow(entry)
        kept = "" if not behind or re.match(NOTE, behind) else f"; {behind}"
        data.yaml_add_eol_comment(note + kept, path[-1])
        if below:
            data.ca.items[path[-1]][2].value += below

    def text(self) -> str:
        stream = io.StringIO()
        self.yaml.dump(self.tree, stream)
        return re.sub(r"(?m)(\S)  # ", r"\1 # ", stream.getvalue())


def _number(representer: RoundTripRepresenter, value: float) -> ScalarNode:
    """A number as YAML 1.1 has it, too, in which 3e-05 is text."""
    text = repr(value)
    if "e" in text and "." not in text:
        text = text.replace("e", ".0e")
    return representer.represent_scalar("tag:yaml.org,2002:float", text)


def _comment(data: Any, key: str) -> tuple[str, str]:
    """The comment behind a key's value, without its mark, and the lines below it."""
    tokens = data.ca.items.get(key) if isinstance(data, CommentedMap) else None
    text = tokens[2].value if tokens and tokens[2] else ""
    behind, newline, below = text.partition("\n")
    return behind.lstrip("# ").rstrip(), newline + below if below.strip() else ""


def _flow(items: Sequence[Any]) -> CommentedSeq:
    sequence = CommentedSeq(items)
    sequence.fa.set_flow_style()
    return sequence


def _bare(node: Any) -> Any:
    if isinstance(node, CommentedMap):
        return CommentedMap((key, _bare(part)) for key, part in node.items())
    return _flow(node) if isinstance(node, CommentedSeq) else node


def _drop_anchors(node: Any) -> None:
    """Takes the names by which aliases refer to a node and to those below it."""
    if hasattr(node, "anchor"):
        node.anchor.value, node.anchor.always_dump = None, False
    if isinstance(node, CommentedMap):
        for part in node.values():
            _drop_anchors(part)
