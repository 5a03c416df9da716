"""References in values: ``${inputs.x}``, ``${values.x}``, ``${facts.x.y}``, ``${host.x}``, those to resources, outputs.

An element of ``for_each`` is ``${each.key}``, ``${each.value.x}``, ``${each.index}``.

An output of another stack is ``${stacks.base.outputs.x}``, of another project ``${stacks.web/base.outputs.x}``.

This is the only syntax within values: logic belongs in Python manifests. Looking paths up is for the caller; a value
that was looked up is never parsed as an expression again.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, Self

from resource_api.model.values import document, reference
from resource_api.model.values.errors import hint
from resource_api.model.values.start_up import NamedTuple, regex
from resource_api.model.values.values import (
    SCALAR_TYPES,
    UNKNOWN,
    Sensitive,
    escape_expressions,
    map_leaves,
    place_text,
    unwrapped,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from re import Match

    from resource_api.model.values.reference import Reference

_OPEN: Final = regex(r"\$\$\{|\$\{")
#: The scopes whose paths can choose a key of another path.
_KEY_SCOPES: Final = "inputs|values|facts|host|each"
#: A key of a path: ``.name``, ``[0]``, ``[-1]``, or in quotes ``['a.b']``, ``["a.b"]``, where a quote is doubled.
_STEP: Final = r"""\.[A-Za-z0-9_-]+|\[-?[0-9]+\]|\['(?:[^']|'')*'\]|\["(?:[^"]|"")*"\]"""
_STEPS: Final = regex(rf"(?:{_STEP})+\Z")
#: A path without braces that chooses a key: ``[inputs.k]``.
_CHOICE: Final = rf"\[(?:{_KEY_SCOPES})\.[A-Za-z0-9_-]+(?:{_STEP})*\]"
_KEYS: Final = rf"(?:{_STEP}|{_CHOICE})*"
_SCOPE: Final = regex(rf"({_KEY_SCOPES})(\.[A-Za-z0-9_-]+{_KEYS})\}}")
_STACK: Final = regex(
    r"stacks\.((?:[A-Za-z0-9][A-Za-z0-9._-]*/)?[A-Za-z0-9][A-Za-z0-9._-]*)\.outputs"
    rf"(\.[A-Za-z0-9_-]+{_KEYS})\}}"
)
_SCOPES: Final = ("inputs", "values", "facts", "host", "each", "stacks")
#: The end of a message for users who do not mean a reference.
_LITERAL: Final = "$${ for a literal ${"
_IN_BRACKETS: Final = "[0], ['a.b'] or [inputs.k]"
_WORD: Final = regex(r"[A-Za-z_]+")
#: A scope and keys that are plain words in brackets, as Puppet and Python write them.
_FIRST_KEY: Final = regex(rf"({_KEY_SCOPES})((?:\[['\"][A-Za-z0-9_-]+['\"]\])+)")
_PLAIN_KEY: Final = regex(r"\[['\"]([A-Za-z0-9_-]+)['\"]\]")
_LONGEST_EXCERPT: Final = 40
_HEAD: Final = regex(r"[A-Za-z][a-z0-9_]*\[")
_TAIL: Final = regex(r"\]\.([a-z_][a-z0-9_]*)")
_REST: Final = regex(rf"({_KEYS})\}}")
_KEY: Final = regex(
    r"""\.([A-Za-z0-9_-]+)|\[(-?[0-9]+)\]|\['((?:[^']|'')*)'\]|\["((?:[^"]|"")*)"\]"""
    rf"|\[((?:{_KEY_SCOPES})\.[A-Za-z0-9_-]+(?:{_STEP})*)\]"
)

#: An index of a list; a number with more digits is none of a list's.
_INDEX: Final = regex(r"-?[0-9]{1,9}\Z")


#: The marks of a path, and of a wrapper that may hold one, in the representation of a value.
_MARKS: Final = regex(r"\$\{|<sensitive>")


class EvaluationError(ValueError):
    """A reference that has no value and gets none in this run: a missing key, or a function that failed."""


class Index(str):
    """A number in a path that is written in brackets, ``${values.z[0]}``, so that ``str`` writes it so again."""

    __slots__ = ()


class ChosenKey(str):
    """A key that another path chooses, ``[inputs.k]``: the key's text once it is known, empty before."""

    __slots__ = ("path",)

    path: ExpressionPath

    def __new__(cls, path: ExpressionPath, key: str = "") -> Self:
        """Return the key ``[inputs.k]`` for the ``path`` ``inputs.k``; ``key``: its text, or "" while it is not known.

        As a text it can stand among the other keys of a path, and is followed like them once it is known.
        """
        choice = super().__new__(cls, key)
        choice.path = path
        return choice

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        """Return whether a key has the same text, and if a path chooses it too, the same path."""
        return str.__eq__(self, other) is True and (not isinstance(other, ChosenKey) or self.path == other.path)


class ExpressionPath(NamedTuple):
    """The content of one ``${...}``: a scope, such as inputs or each, or a resource, then keys within it.

    The first key in ``stacks`` is the name of the stack, the second the output's.
    """

    root: str | Reference
    keys: tuple[str, ...]

    def __str__(self) -> str:
        """Return it as it was written."""
        keys = list(map(_written_key, self.keys))
        if self.root == "stacks":  # ``${stacks.NAME.outputs.x}``, of which the keys are NAME and x
            keys[:1] = [f".{self.keys[0]}", ".outputs"]
        return "${" + "".join((str(self.root), *keys)) + "}"


class Expression(NamedTuple):
    """Text with paths in it; a single path without text keeps the data type of its value."""

    parts: tuple[str | ExpressionPath, ...]

    def __str__(self) -> str:
        """Return it as it was written."""
        return "".join(escape_expressions(part) if isinstance(part, str) else str(part) for part in self.parts)


def is_reference_at(written: object, path: Sequence[str | int]) -> bool:
    """Return whether the part at a path of a ``written`` value comes from one whole reference, which keeps its type.

    Advice on its value then differs, because quotes in the manifest would not make it a text. If the path leads into
    the value of a reference, that reference counts.
    """
    for step in path:
        if isinstance(written, dict):
            written = written.get(step)
        elif isinstance(written, list) and type(step) is int and step < len(written):
            written = written[step]
    try:
        return isinstance(written, str) and is_reference(written)
    except ValueError:
        return False


def is_reference(written: object) -> bool:
    """Return whether a value as written, or parsed, is one whole reference. Raises ``ValueError`` like ``parse``."""
    parsed = parse(written) if type(written) is str else written
    return isinstance(parsed, Expression) and len(parsed.parts) == 1


def parse(text: str) -> str | Expression:
    """Return the parsed ``text``; without a path, the text itself, with ``$${`` replaced by ``${``.

    Raises ``ValueError`` with a sentence for the user.
    """
    parts: list[str | ExpressionPath] = []
    literal, position = "", 0
    while (match := _OPEN.search(text, position)) is not None:
        literal += text[position : match.start()]
        position = match.end()
        if match.group() == "$${":
            literal += "${"
            continue
        path, position = _path(text, position)
        parts += [literal, path] if literal else [path]
        literal = ""
    literal += text[position:]
    if not parts:
        return literal
    return Expression((*parts, literal) if literal else tuple(parts))


def _path(text: str, start: int) -> tuple[ExpressionPath, int]:
    """Parse one path that starts behind ``${``; return it and the position behind its closing brace.

    A path begins with a scope, with ``stacks``, or with a resource, ``Type[title].attribute``.
    """
    if scope := _SCOPE.match(text, start):
        return ExpressionPath(scope[1], _keys(scope[2])), scope.end()
    if stack := _STACK.match(text, start):
        return ExpressionPath("stacks", (stack[1], *_keys(stack[2]))), stack.end()
    # A resource: the head ``Type[``, a title, the tail ``].attribute``, and the rest, more keys and the brace.
    head = _HEAD.match(text, start)
    tail = _TAIL.search(text, head.end()) if head else None
    rest = _REST.match(text, tail.end()) if tail else None
    # ``facts['os'].family`` looks like a resource, but is a scope in the spelling of Puppet.
    if head is None or tail is None or rest is None or _FIRST_KEY.match(text, start):
        raise ValueError(_problem(text, start))
    target = reference.parse(text[start : tail.start() + 1])
    return ExpressionPath(target, (tail[1], *_keys(rest[1]))), rest.end()


def _problem(text: str, start: int) -> str:
    """Return the message about a ``${`` without a valid reference behind it, and the form that is probably meant.

    ``start``: the position behind the ``${``.
    """
    inside, brace, _ = text[start:].partition("}")
    whole = bool(brace) and "${" not in inside and len(inside) < _LONGEST_EXCERPT
    excerpt = f"${{{inside}}}" if whole else text[start - 2 : start + _LONGEST_EXCERPT]
    is_closed = "}" in text[start:].partition("${")[0]
    return f"'{excerpt}' is not a reference; {_remedy(inside, is_closed=is_closed)}"


def _remedy(inside: str, *, is_closed: bool) -> str:
    """Return the advice on an invalid path ``inside`` of ``${``, the first that applies: the surest come first.

    ``is_closed``: whether a ``}`` follows before the next ``${``.
    """
    if spelling := _other_spelling(inside):
        return f"write {spelling}, or {_LITERAL}"
    word = _WORD.match(inside)
    is_scope = word is not None and word[0] in _SCOPES
    if is_scope and "[${" in inside:
        return f"a path in brackets has no braces of its own: {_IN_BRACKETS}"
    if word and not is_closed:
        return f"write the }} that it lacks, or {_LITERAL}"
    if is_scope and "[" in inside:
        return f"write a key in brackets as {_IN_BRACKETS}"
    if word and word[0] == "stacks":
        return "an output of a stack is ${stacks.NAME.outputs.x}"
    name = _WORD.match(inside.lstrip("$:"))
    advice = hint(name[0], _SCOPES, "scope") if name and name[0] not in _SCOPES else ""
    return f"write ${{inputs.x}}, ${{values.x}}, ${{facts.x}} or ${{Type[title].attribute}}, or {_LITERAL}{advice}"


def _other_spelling(inside: str) -> str:
    """Return the correct form of ``$facts['os']``, as in Puppet, or of a path with spaces: ``${facts.os}``; or ""."""
    if "${" in inside:
        return ""
    bare = inside.strip()
    # A scope and its first keys with dots: ``facts['os']['family']`` → ``facts.os.family``.
    dotted = _FIRST_KEY.sub(lambda match: match[1] + _PLAIN_KEY.sub(r".\1", match[2]), bare.lstrip("$"))
    path = f"${{{dotted}}}"
    try:
        complete = path != f"${{{inside}}}" and _path(path, 2)[1] == len(path)
    except ValueError:
        return ""
    note = " without spaces" if path == f"${{{bare}}}" else ""
    return path + note if complete else ""


def _keys(text: str) -> tuple[str, ...]:
    """Return the keys in ``.name[0]['a.b'][inputs.k]``; the first group of ``_KEY`` is a plain name."""
    return tuple(match[1] or _key(match) for match in _KEY.finditer(text))


def _key(match: Match[str]) -> str:
    """Return the key of a match of ``_KEY`` in brackets: ``[0]``, ``['a.b']``, or ``[inputs.k]``, a choice."""
    _, index, single, double, choice = match.groups()
    if choice is not None:
        return ChosenKey(_path(f"{choice}}}", 0)[0])  # ``_path`` parses ``inputs.k}``, up to the brace
    if index:
        return Index(index)
    # In quotes, a doubled quote stands for itself.
    return double.replace('""', '"') if single is None else single.replace("''", "'")


def _written_key(key: str) -> str:
    """Return a key as it is written in a reference: ``.a``, ``['a.b']``, ``[0]``."""
    if isinstance(key, Index):
        return f"[{key}]"
    if isinstance(key, ChosenKey):
        return f"[{str(key.path)[2:-1]}]"
    return place_text([key])


def literal_text(text: str, refusal: str) -> str:
    """Return a text where references are not allowed, such as a default, with ``$${`` replaced by ``${``.

    Raises ``ValueError`` for a text with a reference, valid or not, which would otherwise be used unevaluated;
    ``refusal`` begins the message.
    """
    if "${" not in text:
        return text
    if "${" in text.replace("$${", ""):
        raise ValueError(f"{refusal} ${{values.NAME}}, or write {_LITERAL}")
    return text.replace("$${", "${")


def _key_text(key: str) -> str:
    """Return a key of a mapping with ``$${`` replaced by ``${``. Raises ``ValueError`` for a path in it."""
    if "${" not in key:
        return key
    refusal = f"the key {document.quote_key(key)} of a mapping cannot hold ${{...}}"
    return literal_text(key, f"{refusal}; make the whole mapping one value, such as a function's answer under values,")


def literal_value(value: object, refusal: str) -> Any:
    """Return ``value``, in which references are not allowed, with every text and key as ``literal_text`` returns it.

    Raises ``ValueError`` for a reference in it.
    """
    if isinstance(value, (dict, list)) and not _MARKS.search(repr(value)):
        # Without ``${`` or a wrapped secret, as in nearly all values, nothing is replaced. One search is ten times as
        # fast.
        return value
    return map_leaves(value, lambda leaf: literal_text(leaf, refusal) if isinstance(leaf, str) else leaf, _key_text)


def holds_expressions(value: object) -> bool:
    """Return whether a text in a value, at any depth, has a ``${``."""
    # The representation of a collection shows both characters as they are, and is several times faster than a walk.
    return "${" in value if type(value) is str else type(value) in {dict, list} and "${" in repr(value)


def is_literal(value: object) -> bool:
    """Return whether a value certainly contains no path; False for a list or mapping, whose values are not examined."""
    return "${" not in value if type(value) is str else type(value) in SCALAR_TYPES


def are_literal(values: Sequence[Any]) -> bool:
    """Return whether all values certainly have no path, so that none needs to be evaluated; False for a collection.

    One search in all texts together is many times faster than one in each of thousands.
    """
    kinds = set(map(type, values))
    texts = values if kinds == {str} else [value for value in values if type(value) is str]
    return kinds <= SCALAR_TYPES and "${" not in "\n".join(texts)


def find_paths(value: object) -> Iterator[ExpressionPath]:
    """Yield every path in a value, at any depth, to find the values and resources on which the value depends.

    Paths within a path, in the title of its resource or to choose a key, are yielded too, since the value depends on
    them. Raises ``ValueError`` for an invalid path, and for a path in a key.
    """
    if type(value) is str:
        value = parse(value) if "${" in value else None
    if isinstance(value, Expression):
        for part in value.parts:
            if isinstance(part, ExpressionPath):
                yield part
                yield from _inner_paths(part)
    elif isinstance(value, Sensitive):
        yield from find_paths(value.reveal())
    elif isinstance(value, dict):
        for key in value:
            _key_text(key)  # raises for a path
        yield from find_paths(list(value.values()))
    elif isinstance(value, list):
        for item in value:
            yield from find_paths(item)


def _inner_paths(path: ExpressionPath) -> Sequence[ExpressionPath]:
    """Return the paths in the title of a path's resource, and those that choose its keys, ``[inputs.k]``."""
    in_title = find_paths(path.root.title) if isinstance(path.root, reference.Reference) else ()
    choices = [key.path for key in path.keys if isinstance(key, ChosenKey)] if has_choices(path) else ()
    return (*in_title, *choices)


def uses_scope(value: object, scope: str) -> bool:
    """Return whether a value has a path of a scope, such as ``each``, which is only known beside ``for_each``.

    Return False if a path in it is invalid: that is reported when it is evaluated.
    """
    with suppress(ValueError):
        return any(path.root == scope for path in find_paths(value))
    return False


def evaluate(value: object, resolve: Callable[[ExpressionPath], Any]) -> Any:
    """Return ``value`` with every path replaced by ``resolve(path)``.

    ``resolve`` returns ``UNKNOWN`` for a value that is not known yet and raises ``ValueError`` for a missing value.
    """
    if type(value) is str:
        if "${" not in value:
            return value
        parsed = parse(value)
        return parsed if isinstance(parsed, str) else _join(parsed, resolve)
    if isinstance(value, dict):
        return {_key_text(key): evaluate(item, resolve) for key, item in value.items()}
    if isinstance(value, list):
        return [evaluate(item, resolve) for item in value]
    if isinstance(value, Expression):
        return _join(value, resolve)
    if isinstance(value, Sensitive):
        content = evaluate(value.reveal(), resolve)
        return UNKNOWN if content is UNKNOWN else Sensitive(content)
    return value


def _join(expression: Expression, resolve: Callable[[ExpressionPath], Any]) -> Any:
    """Return the value of an expression: of a single path as it is, otherwise a text, which is secret if a part is."""
    parts = [resolve(part) if isinstance(part, ExpressionPath) else part for part in expression.parts]
    if len(parts) == 1:
        return parts[0]
    # A value that can never be part of a text is an error at once, also beside an unknown one.
    values = ["" if part is UNKNOWN else part for part in parts]
    text = "".join(map(text_of, values, expression.parts))
    if any(part is UNKNOWN for part in parts):
        return UNKNOWN
    return Sensitive(text) if any(isinstance(part, Sensitive) for part in parts) else text


def may_yield(written: object, resolve: Callable[[ExpressionPath], Any], present: Any) -> bool:
    """Return whether a value with references can become equal to the ``present`` one once all of them are known.

    If it cannot, a plan shows a certain change instead of a possible one. Only the text around the references in
    ``written`` decides: ``v${x}`` never becomes ``w1``, while a single reference can become any value. ``resolve``
    returns the value of a reference, or ``UNKNOWN`` if it is not known yet.
    """
    written, present = unwrapped(written), unwrapped(present)
    if type(written) is dict and type(present) is dict:
        return all(may_yield(item, resolve, present[key]) for key, item in written.items() if key in present)
    if type(written) is list and type(present) is list:
        return len(written) == len(present) and all(map(may_yield, written, repeat(resolve), present))
    parsed = parse(written) if type(written) is str and type(present) is str else None
    if not isinstance(parsed, Expression) or len(parsed.parts) == 1:
        return True
    values = [resolve(part) if isinstance(part, ExpressionPath) else part for part in parsed.parts]
    try:
        parts = [None if value is UNKNOWN else text_of(value) for value in values]
    except ValueError:  # ``evaluate`` raises it again when all values are known
        return True
    return holds_in_order(present, *fixed_texts(parts))


def fixed_texts(parts: Iterable[str | None]) -> list[str]:
    """Return the texts before, between and after the unknown parts (None) of a text, for ``holds_in_order``.

    Of ``v``, None, ``-``, ``a`` they are ``v`` and ``-a``.
    """
    texts = [""]
    for part in parts:
        if part is None:
            texts.append("")
        else:
            texts[-1] += part
    return texts


def holds_in_order(text: str, first: str, *rest: str) -> bool:
    """Return whether a text begins with ``first``, ends with the last of ``rest``, and has the middle ones in order.

    The unknown parts between them may be any text. Without ``rest`` nothing is unknown: it must equal ``first``.
    """
    if not rest:
        return text == first
    *between, last = rest
    position, end = len(first), len(text) - len(last)
    if not (position <= end and text.startswith(first) and text.endswith(last)):
        return False
    for part in between:
        start = text.find(part, position, end)
        if start < 0:
            return False
        position = start + len(part)
    return True


def text_of(value: object, source: str | ExpressionPath = "") -> str:
    """Return a text, number or Boolean in the form that it has within a text, such as ``true``.

    Raises ``ValueError`` for any other value, called ``source``. A secret is revealed: the caller marks the whole text
    as secret.
    """
    value = unwrapped(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise ValueError(f"{source} is {kind_of(value)} and cannot be part of a text")


def kind_of(value: object) -> str:
    """Return the kind of a plain value in words, ``an integer``, for the message that it does not fit its place."""
    if value is None:
        return "nothing"
    words = {bool: "true or false", int: "an integer", float: "a number with a point", str: "a text", list: "a list"}
    return words.get(type(value)) or ("a mapping" if isinstance(value, dict) else "an asset or an archive")


def parse_keys(text: str) -> tuple[str, ...]:
    """Return the keys of a path within a value, such as ``a.b[0]['c.d']``, that a user passes to a function.

    Raises ``ValueError`` for any other text.
    """
    written = text if text.startswith("[") else f".{text}"
    if not _STEPS.match(written):
        raise ValueError(f"'{text}' is no path; write keys and indices as a.b[0]['c.d']")
    return _keys(written)


def follow_keys(value: Any, path: ExpressionPath | str, keys: tuple[str, ...]) -> Any:
    """Return the value at ``keys`` in ``value``; ``UNKNOWN`` within an unknown value, ``Sensitive`` within a secret.

    Raises ``EvaluationError`` naming the missing key and ``path``, and the nearest key outside of a secret.
    """
    for key in keys:
        inner, secret = unwrapped(value), isinstance(value, Sensitive)
        if inner is UNKNOWN:
            return UNKNOWN
        try:
            part = _part_at(inner, key)
        except LookupError:
            advice = "" if secret else _available_keys(inner, key)
            raise EvaluationError(f"{path}: there is no '{key}'{advice}") from None
        value = Sensitive(part) if secret else part
    return value


def _part_at(value: object, key: str) -> Any:
    """Return the part of a mapping or list at a key. Raise ``LookupError`` if there is none."""
    if isinstance(value, dict):
        return value[key]
    if isinstance(value, list) and _INDEX.match(key):
        return value[int(key)]
    raise LookupError(key)


def has_choices(path: ExpressionPath) -> bool:
    """Return whether other paths choose keys of a path; its first key is always a name."""
    return len(path.keys) > 1 and ChosenKey in map(type, path.keys)


def with_choices(path: ExpressionPath, resolve: Callable[[ExpressionPath], Any]) -> tuple[ExpressionPath | None, bool]:
    """Return a path with its chosen keys filled in, ``a[inputs.k]`` → ``a.x``, and whether one of them is a secret.

    With a secret key the value at the path is secret too, because it may reveal the key. The path is None if a key is
    not known yet. Raises ``ValueError`` for a value that cannot be a key.
    """
    if not has_choices(path):
        return path, False
    keys, secret = list(path.keys), False
    for position, key in enumerate(keys):
        if isinstance(key, ChosenKey):
            value = resolve(key.path)
            inner = unwrapped(value)
            if inner is UNKNOWN:
                return None, secret
            keys[position] = ChosenKey(key.path, chosen_key(inner, f"{path}: {key.path}"))
            secret = secret or inner is not value
    return path._replace(keys=tuple(keys)), secret


def chosen_key(value: object, label: object) -> str:
    """Return the key that a value chooses. Raises ``ValueError`` for a value that can be no key, called ``label``."""
    if type(value) in {str, int}:
        return str(value)
    raise ValueError(f"{label} must be text or an integer to choose a key; it is {kind_of(value)}")


def _available_keys(value: object, key: str) -> str:
    """Return the rest of a message about a missing key: the nearest key, or the kind of the value."""
    if isinstance(value, dict):
        return hint(key, map(str, value)) or ("" if value else "; it is empty")
    if isinstance(value, list):
        elements = "one element, [0]" if len(value) == 1 else f"{len(value)} elements, from [0] to [{len(value) - 1}]"
        return f"; it has {elements}" if value else "; it is an empty list"
    return f"; it is {'nothing' if value is None else 'no list and no mapping'}"
