"""Reasons: a kind and its values, which JSON can hold, and the words for both."""

import inspect
import json
import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from string import Formatter
from typing import Any

from bisection.core.format import some

BY_NAME = inspect.Parameter.KEYWORD_ONLY
# Values that any reason may have beside its own, and that follow its words: the last line that
# another program printed, the first error of a build.
PRINTED = ("last", "build")
KINDS: dict[str, "Kind"] = {}  # of all topics


class Kind(str):
    """A kind of reason: its code, as it is stored, and what it says.

    Calling it makes a Reason of this kind. `says` is a text with its values in braces, in which a
    reason stands by its words and a list by its first members, or a function of its values.
    """

    says: str | Callable[..., str]

    def __new__(cls, code: str, says: str | Callable[..., str]) -> "Kind":
        kind = super().__new__(cls, code)
        kind.says = says
        return kind

    def __call__(self, /, **values: Any) -> "Reason":
        """Returns a Reason of this kind, in which values of None are left out.

        Raises:
            TypeError: a value is missing, or there is none of this name.
        """
        try:
            self.signature.bind(**values)
        except TypeError as error:
            raise TypeError(f"{self}: {error}") from None
        return Reason(self, {n: _plain(v) for n, v in values.items() if v is not None})

    def __reduce__(self) -> tuple[Any, ...]:
        return _kind, (str(self),)  # copies are the same

    @property
    def takes(self) -> Mapping[str, inspect.Parameter]:
        """The values of which `says` makes the words."""
        if callable(self.says):
            return inspect.signature(self.says).parameters
        names = (name for _, name, *_ in Formatter().parse(self.says) if name)
        return {name: inspect.Parameter(name, BY_NAME) for name in names}

    @property
    def signature(self) -> inspect.Signature:
        printed = {name: inspect.Parameter(name, BY_NAME, default=None) for name in PRINTED}
        values = {**printed, **self.takes}.values()
        return inspect.Signature(sorted(values, key=lambda value: value.kind))


def _kind(code: str) -> Kind:
    return KINDS[code]


class Topic:
    """A topic: each name in capitals in the body of a subclass becomes a Kind."""

    def __init_subclass__(cls) -> None:
        for code, says in list(vars(cls).items()):
            if code.isupper():
                if code in KINDS:
                    raise TypeError(f"there are two reasons {code}")
                KINDS[code] = Kind(code, says)
                setattr(cls, code, KINDS[code])


def _plain(value: Any) -> Any:
    """`value` as JSON has it, reasons as dictionaries."""
    if isinstance(value, Reason):
        return value.as_dict()
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


@dataclass(frozen=True)
class Reason:
    """A kind and its values, which are what JSON can hold."""

    code: Kind
    values: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, stored: Any) -> "Reason | None":
        """The Reason that was stored as dictionary or as text; None for what says nothing.

        Free text, as other tools store it, and reasons of a kind that is not known become a Reason
        of kind TEXT.
        """
        if isinstance(stored, Reason) or not stored:
            return stored or None
        text = stored
        if isinstance(stored, str) and stored.startswith("{"):
            try:
                stored = json.loads(stored)
            except (ValueError, RecursionError):
                stored = text
        if not isinstance(stored, Mapping):
            return KINDS["TEXT"](text=str(stored))
        kind = KINDS.get(str(stored.get("code")))
        if kind is None:
            return KINDS["TEXT"](text=json.dumps(_plain(stored)))
        return cls(kind, {str(name): value for name, value in stored.items() if name != "code"})

    def __getitem__(self, name: str) -> Any:
        """A value; None if there is none of this name."""
        return self.values.get(name)

    __iter__ = None  # else __getitem__ would make an endless sequence of it

    def __hash__(self) -> int:
        return hash(self.dumps())

    def __str__(self) -> str:
        """For logs of ReFrame: CODE name=value ..."""
        values = (f"{name}={json.dumps(value)}" for name, value in self.values.items())
        return " ".join([self.code, *values])

    def with_values(self, **values: Any) -> "Reason":
        return Reason(self.code, {**self.values, **values})

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it: {"code": code, name: value, ...}."""
        return {"code": str(self.code), **self.values}

    def dumps(self) -> str:
        """As one line of JSON, the same for equal reasons."""
        return json.dumps(self.as_dict(), sort_keys=True)

    def words(self) -> str:
        """One clause; code and values where these are not what its kind has, as in stores of
        another version."""
        says, known = self.code.says, self.code.takes
        try:
            if isinstance(says, str):
                shown = {name: _shown(value) for name, value in self.values.items()}
                text = says.format_map(defaultdict(lambda: "unknown", shown))
            else:
                every = any(p.kind == p.VAR_KEYWORD for p in known.values())
                text = says(**{n: v for n, v in self.values.items() if every or n in known})
        except (TypeError, ValueError, LookupError, AttributeError):
            text = ""
        text = text if text.strip() else str(self)
        if self["launches"] and self["of"]:  # of a run
            text += f", in {self['launches']} of {self['of']} launches"
        printed = (str(self[name]) for name in PRINTED if name not in known and self[name])
        return ": ".join([text, *printed])


def _shown(value: Any) -> Any:
    if isinstance(value, Mapping):
        return clause(value)
    if isinstance(value, list):
        reasons = value and isinstance(value[0], Mapping)
        return "; ".join(map(clause, value)) if reasons else some(value)
    return value


def with_reasons(pairs: list) -> str:
    """Names, each with a reason in free text if it has one."""
    return some((f"{name} ({why})" if why else name for name, why in pairs), 4)


def clause(reason: Any) -> str:
    """The words of a reason, or of one as it is stored; "" for None."""
    reason = Reason.read(reason)
    return reason.words() if reason else ""
