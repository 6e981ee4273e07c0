"""A reference file as YAML nodes, which know their lines."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from bisection.core.format import one_line
from bisection.core.reasons import Code, Kind
from bisection.sites.site import Defect

Entry = tuple[Any, yaml.Node, yaml.Node]  # key, its node, the node of its value


class ReferenceFile:
    """The nodes of a reference file. `root` is None if the file cannot be used at all; `defects` is
    what is wrong with it as YAML."""

    def __init__(self, file: Path) -> None:
        self.path = file
        self.root: yaml.MappingNode | None = None
        self.content: dict[Any, Any] = {}
        self.defects: list[Defect] = []
        try:
            self.loader = yaml.SafeLoader(file.read_text())
            root = self.loader.get_single_node()
            if isinstance(root, yaml.MappingNode):
                self.defects += self._doubtful_keys(root, set())
                self.content = self.loader.construct_document(root)
                self.root = root
            else:
                self.defects.append(self.defect(1, Code.NOT_A_MAPPING, of="checks"))
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            problem = one_line(getattr(error, "problem", None) or error)
            line = mark.line + 1 if mark else 1
            self.defects.append(self.defect(line, Code.NOT_YAML, error=problem))
        except (OSError, ValueError, TypeError, RecursionError) as error:
            self.defects.append(self.defect(1, Code.FILE_UNREADABLE, error=one_line(error)))

    def defect(self, node: yaml.Node | int, code: Kind, /, **values: Any) -> Defect:
        """Returns a defect at a node, or in a line."""
        line = node if isinstance(node, int) else node.start_mark.line + 1
        return Defect.of(self.path, line, code, **values)

    def value(self, node: yaml.Node) -> Any:
        """Returns the value of a node."""
        return self.loader.construct_object(node, deep=True)

    def entries(self, node: yaml.MappingNode) -> list[Entry]:
        """The entries of a mapping, as PyYAML constructs it: of two equal keys the last."""
        nodes = {self.value(key): (key, value) for key, value in node.value}
        return [(key, *pair) for key, pair in nodes.items()]

    def _doubtful_keys(self, node: yaml.Node, seen: set[int]) -> Iterator[Defect]:
        """Keys that occur twice, and words that YAML does not take for text."""
        if id(node) in seen or isinstance(node, yaml.ScalarNode):
            return
        seen.add(id(node))
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        for part in [value for _, value in pairs] or node.value:
            yield from self._doubtful_keys(part, seen)
        firsts: dict[tuple[str, str], yaml.Node] = {}
        for key, _ in pairs:
            kind = key.tag.rpartition(":")[2]
            if kind in ("bool", "null"):
                yield self.defect(key, Code.KEY_KIND, key=key.value, kind=kind)
            first = firsts.setdefault((kind, str(key.value)), key)
            if first is not key and kind != "merge":
                line = first.start_mark.line + 1
                yield self.defect(key, Code.KEY_TWICE, key=key.value, first=line)
