"""What all reasons share: their stored form, and what other programs printed behind their words."""

import json
import math
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any, ClassVar

from bisection.core.format import some


@dataclass(frozen=True, kw_only=True)
class Reason:
    """Why something is as it is: typed fields, which JSON can hold, and the words for them.

    A subclass with a `code` can be stored, as {"code": code, field: value, ...}.
    """

    code: ClassVar[str] = ""
    counted: ClassVar[tuple[str, ...]] = ()  # as which a run counts its failures: one, several
    line: str = ""  # the last line that another program printed
    build: str = ""  # the first error of a build

    @classmethod
    def stored(cls, values: dict[str, Any]) -> "Reason":
        """The Reason that was stored with these values, whose sequences are tuples."""
        return cls(**values)

    def words(self) -> str:
        """One clause."""
        raise NotImplementedError

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.words(), self.line, self.build)))

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it, without fields that have their default."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        given = {
            part.name: as_data(values[part.name])
            for part in fields(self)
            if part.default is MISSING or values[part.name] != part.default
        }
        return {"code": self.code, **given}

    def dumps(self) -> str:
        """As one line of JSON, the same for equal reasons."""
        return json.dumps(self.as_dict(), sort_keys=True)


@dataclass(frozen=True)
class Text(Reason):
    """A sentence, made where it is found out; also of ReFrame, of a build, of another tool."""

    code = "TEXT"
    text: str = ""
    next: str = ""  # what to do

    def words(self) -> str:
        return self.text or "no reason is given"


def as_data(value: Any) -> Any:
    """`value` as JSON has it: reasons as dictionaries; None for a number that is not finite."""
    if isinstance(value, Reason):
        return value.as_dict()
    if is_dataclass(value):
        return {part.name: as_data(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, dict):
        return {key: as_data(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_data(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def with_reasons(pairs: tuple[tuple[str, str], ...]) -> str:
    """Names, each with a reason in free text if it has one."""
    return some((f"{name} ({why})" if why else name for name, why in pairs), 4)


def clause(reason: Reason | None) -> str:
    """The words of a reason; "" for None."""
    return str(reason) if reason else ""
