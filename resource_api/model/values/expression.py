"""References in values: ``${inputs.x}``, ``${values.x}``, ``${facts.x.y}``, ``${Type[title].attribute}``.

The only syntax that manifests have (data in YAML, logic in Python). What a path leads to is told by a resolver;
nothing that it yields is ever read as an expression again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values import reference
from resource_api.model.values._lazy_regex import regex
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.values import SCALAR_TYPES, UNKNOWN, Sensitive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from resource_api.model.values.reference import Reference

_OPEN: Final = regex(r"\$\$\{|\$\{")
_SCOPE: Final = regex(r"(inputs|values|facts)((?:\.[A-Za-z0-9_-]+)+)\}")
_HEAD: Final = regex(r"[A-Za-z][a-z0-9_]*\[")
_TAIL: Final = regex(r"\]\.([a-z_][a-z0-9_]*)")
_REST: Final = regex(r"((?:\.[A-Za-z0-9_-]+)*)\}")


class Path(NamedTuple):
    """What one ``${...}`` leads to: a scope (inputs, values, facts) or a resource, then keys within it."""

    root: str | Reference
    keys: tuple[str, ...]

    def __str__(self) -> str:
        """Spell it as it was written."""
        return "${" + ".".join((str(self.root), *self.keys)) + "}"


class Expression(NamedTuple):
    """Text with paths in it; one that is a single path keeps the data type of what it leads to."""

    parts: tuple[str | Path, ...]

    def __str__(self) -> str:
        """Spell it as it was written."""
        return "".join(escape_expressions(p) if isinstance(p, str) else str(p) for p in self.parts)


def escape_expressions(text: str) -> str:
    """Give ``text`` as it must be written to stand for itself."""
    return text.replace("${", "$${")


def parse(text: str) -> str | Expression:
    """Read the paths in ``text``; a text without one is given back, ``$${`` become ``${``.

    Raises ``ValueError`` with a sentence for people.
    """
    parts: list[str | Path] = []
    literal, position = "", 0
    while (found := _OPEN.search(text, position)) is not None:
        literal += text[position : found.start()]
        position = found.end()
        if found.group() == "$${":
            literal += "${"
            continue
        path, position = _path(text, position)
        parts += [literal, path] if literal else [path]
        literal = ""
    literal += text[position:]
    if not parts:
        return literal
    return Expression((*parts, literal) if literal else tuple(parts))


def _path(text: str, start: int) -> tuple[Path, int]:
    """Read one path from after its ``${``; give it and where it ends."""
    if scope := _SCOPE.match(text, start):
        return Path(scope[1], tuple(scope[2][1:].split("."))), scope.end()
    head = _HEAD.match(text, start)
    tail = _TAIL.search(text, head.end()) if head else None
    rest = _REST.match(text, tail.end()) if tail else None
    if head is None or tail is None or rest is None:
        shown = text[start - 2 : start + 40]
        msg = (
            f"'{shown}' is not a reference; write ${{inputs.x}}, ${{values.x}}, ${{facts.x}} or"
            " ${Type[title].attribute}, or $${ for a literal ${"
        )
        raise ValueError(msg)
    target = reference.parse(text[start : tail.start() + 1])
    return Path(target, (tail[1], *filter(None, rest[1].split(".")))), rest.end()


def is_literal(value: Any) -> bool:
    """Whether a value is what it says, without looking into it: nearly all are."""
    return "${" not in value if type(value) is str else type(value) in SCALAR_TYPES


def are_literal(values: Sequence[Any]) -> bool:
    """Whether all values are what they say, told for thousands at once; of those that hold others nothing is told."""
    kinds = set(map(type, values))
    texts = values if kinds == {str} else [value for value in values if type(value) is str]
    return kinds <= SCALAR_TYPES and "${" not in "\n".join(texts)


def find_paths(value: Any) -> Iterator[Path]:
    """Give every path in a value as it is written, at any depth. Raises ``ValueError`` like ``parse``."""
    if type(value) is str:
        value = parse(value) if "${" in value else None
    if isinstance(value, Expression):
        for path in value.parts:
            if isinstance(path, Path):
                yield path
                # The title of a resource may have paths in it itself.
                yield from find_paths(path.root[1] if isinstance(path.root, tuple) else "")
    elif isinstance(value, Sensitive):
        yield from find_paths(value.reveal())
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from find_paths(item)


def evaluate(value: Any, resolve: Callable[[Path], Any]) -> Any:
    """Give ``value`` with every path replaced by what ``resolve`` says of it.

    ``resolve`` gives ``UNKNOWN`` for what is not yet known and raises ``ValueError`` for what does not exist.
    """
    if type(value) is str:
        if "${" not in value:
            return value
        parsed = parse(value)
        return parsed if isinstance(parsed, str) else _join(parsed, resolve)
    if isinstance(value, dict):
        return {key: evaluate(item, resolve) for key, item in value.items()}
    if isinstance(value, list):
        return [evaluate(item, resolve) for item in value]
    if isinstance(value, Expression):
        return _join(value, resolve)
    if isinstance(value, Sensitive):
        return Sensitive(evaluate(value.reveal(), resolve))
    return value


def _join(expression: Expression, resolve: Callable[[Path], Any]) -> Any:
    parts = [resolve(part) if isinstance(part, Path) else part for part in expression.parts]
    if len(parts) == 1:
        return parts[0]
    if any(part is UNKNOWN for part in parts):
        return UNKNOWN
    text = "".join(map(_text, expression.parts, parts))
    return Sensitive(text) if any(isinstance(part, Sensitive) for part in parts) else text


def _text(source: str | Path, value: Any) -> str:
    if isinstance(value, Sensitive):
        value = value.reveal()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    kind = "nothing" if value is None else "a list" if isinstance(value, list) else "a mapping"
    msg = f"{source} is {kind} and cannot become part of a text"
    raise ValueError(msg)


def follow_keys(value: Any, path: Path, keys: tuple[str, ...]) -> Any:
    """Follow ``keys`` into ``value``. Raises ``ValueError`` naming the key that is not there."""
    for key in keys:
        secret = isinstance(value, Sensitive)
        inner = value.reveal() if secret else value
        if inner is UNKNOWN:
            return UNKNOWN
        if isinstance(inner, dict) and key in inner:
            value = inner[key]
        elif isinstance(inner, list) and key.isdigit() and int(key) < len(inner):
            value = inner[int(key)]
        else:
            msg = f"{path}: there is no '{key}'"
            raise ValueError(msg)
        if secret:
            value = Sensitive(value)
    return value
