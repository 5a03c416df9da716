"""Compute values from values."""

from __future__ import annotations

import json
import re
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from resource_api import ResourceError, compute
from resource_api.model.values import expression
from resource_api.model.values.errors import ManifestError, hint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from ipaddress import IPv4Network, IPv6Network

    from resource_api import Context

#: The longest text that a function makes, in characters.
LONGEST = 16 << 20
#: The most elements of a list that a function makes.
MOST = 200_000
#: A name in braces, a doubled brace, or a single one, which is a mistake.
FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
#: A version of Semantic Versioning 2.0: three numbers, a pre-release, a build.
VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?\Z",
    re.ASCII,
)
#: Characters that no manifest can hold as they are: JSON escapes them.
CONTROL = re.compile("[\x7f-\x9f\ufeff\ufffe\uffff]")
#: Seconds that a replacement by a regular expression may take.
SECONDS = 10.0


class Provider:
    """Functions of their inputs alone (contract §10.12); a mistake is a ``ResourceError`` with its remedy."""

    def join(self, _context: Context, **inputs: Any) -> str:
        """Return the elements of ``list`` as one text, with ``by`` between them."""
        texts = list(map(expression.text_of, inputs["list"]))
        _check_length(sum(map(len, texts)) + len(inputs["by"]) * len(texts))
        return str(inputs["by"]).join(texts)

    def split(self, _context: Context, text: str, by: str) -> list[str]:
        """Return the parts of ``text`` between occurrences of ``by``."""
        _check_count(text.count(by))
        return text.split(by)

    def replace(self, _context: Context, **inputs: Any) -> str:
        """Return ``text`` with each ``from`` replaced by ``to``."""
        text, old, new = inputs["text"], inputs["from"], inputs["to"]
        if inputs["regex"]:
            return _replace_matches(text, old, new)
        _check_length(len(text) + text.count(old) * (len(new) - len(old)))
        return str(text.replace(old, new))

    def lower(self, _context: Context, text: str) -> str:
        """Return a text in lower case."""
        return text.lower()

    def upper(self, _context: Context, text: str) -> str:
        """Return a text in upper case."""
        return text.upper()

    def trim(self, _context: Context, text: str) -> str:
        """Return a text without white space at its ends."""
        return text.strip()

    def format(self, _context: Context, text: str, values: Mapping[str, Any]) -> str:
        """Return ``text`` with the names in braces replaced by their values."""
        fields = {field.group(): _field(field, values) for field in FIELD.finditer(text)}
        _check_length(len(text) + sum(len(fields[field.group()]) for field in FIELD.finditer(text)))
        return FIELD.sub(lambda field: fields[field.group()], text)

    def length(self, _context: Context, of: Any) -> int:
        """Return the number of elements, keys or characters."""
        return len(of)

    def contains(self, _context: Context, **inputs: Any) -> bool:
        """Return whether ``in`` has the element, the key or the part ``item``."""
        container, item = inputs["in"], inputs.get("item")
        if isinstance(container, list):
            return _identity(item) in map(_identity, container)  # for Python, 1 is equal to True
        if not isinstance(item, str):
            kind = "a text" if isinstance(container, str) else "a mapping"
            msg = f"item must be a text where 'in' is {kind}; it is {expression.kind_of(item)}; use std.to_text"
            raise ResourceError(msg)
        return item in container

    def merge(self, _context: Context, maps: Sequence[Mapping[str, Any]], *, deep: bool) -> dict[str, Any]:
        """Return one mapping of all; a later value wins. ``deep``: mappings in them are merged too, not replaced."""
        merged: dict[str, Any] = {}
        for mapping in maps:
            merged = _merged(merged, mapping) if deep else {**merged, **mapping}
        return merged

    def concat(self, _context: Context, lists: Sequence[Sequence[Any]]) -> list[Any]:
        """Return one list of the elements of all."""
        return list(chain.from_iterable(lists))

    def flatten(self, _context: Context, **inputs: Any) -> list[Any]:
        """Return ``list`` with the elements of the lists in it."""
        return [part for item in inputs["list"] for part in (item if isinstance(item, list) else [item])]

    def keys(self, _context: Context, **inputs: Any) -> list[str]:
        """Return the keys of ``map``."""
        return list(inputs["map"])

    def values(self, _context: Context, **inputs: Any) -> list[Any]:
        """Return the values of ``map``."""
        return list(inputs["map"].values())

    def lookup(self, _context: Context, **inputs: Any) -> Any:
        """Return the value at ``path`` in ``in``, or ``default``. Raise ``ResourceError`` if there is neither."""
        path = inputs["path"]
        try:
            return expression.follow_keys(inputs["in"], path, expression.parse_keys(path))
        except expression.EvaluationError as error:
            if "default" in inputs:
                return inputs["default"]
            msg = f"{error} Or give a default" if str(error).endswith("?") else f"{error}; or give a default"
            raise ResourceError(msg) from None
        except ValueError as error:
            raise ResourceError(str(error)) from None

    def sort(self, _context: Context, **inputs: Any) -> list[Any]:
        """Return ``list`` in order. Raise ``ResourceError`` for elements of different kinds, which have none."""
        kinds = {{str: "texts", bool: "Booleans"}.get(type(item), "numbers") for item in inputs["list"]}
        if len(kinds) > 1:
            msg = f"list has {' and '.join(sorted(kinds))}; give it elements of one kind, such as all in quotes"
            raise ResourceError(msg)
        return sorted(inputs["list"])

    def unique(self, _context: Context, **inputs: Any) -> list[Any]:
        """Return ``list`` without the elements that are equal to an earlier one."""
        first: dict[str, Any] = {}
        for item in inputs["list"]:
            first.setdefault(_identity(item), item)
        return list(first.values())

    def range(self, _context: Context, start: int, stop: int, step: int) -> list[int]:
        """Return the numbers from ``start`` to before ``stop``, as Python's ``range`` does."""
        if step == 0:
            raise ResourceError("step is 0, so that stop is never reached; use a positive or a negative number")
        # The quotient, rounded up by two minus signs; ``len(range(...))`` fails for a very large number.
        _check_count(max(0, -((stop - start) // -step)))
        return list(range(start, stop, step))

    def zip(self, _context: Context, lists: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Return lists of the elements at the same positions. Raise ``ResourceError`` for different lengths."""
        lengths = list(map(len, lists))
        if len(set(lengths)) > 1:
            numbers = ", ".join(map(str, lengths))
            raise ResourceError(f"the lists have {numbers} elements; they must have the same number; use std.slice")
        return list(map(list, zip(*lists, strict=True)))

    def slice(self, _context: Context, of: Any, start: int, stop: int | None = None) -> Any:
        """Return the part of ``of`` from ``start`` to before ``stop``."""
        return of[start:stop]

    def to_text(self, _context: Context, value: Any) -> str:
        """Return a scalar as it stands in a text."""
        return expression.text_of(value)

    def to_integer(self, _context: Context, text: str) -> int:
        """Return the integer that ``text`` is."""
        if not re.fullmatch(r"[-+]?[0-9]+", text):
            form = "decimal digits, with or without a sign"
            raise ResourceError(f"text is no integer: {_quoted(text)}; it must be {form}; use std.trim")
        from resource_api.manifest import yaml_scalar

        try:
            return yaml_scalar.integer(text)
        except ValueError:
            raise ResourceError("text is an integer that does not fit 64 bits; keep it as text") from None

    def to_json(self, _context: Context, value: Any = None) -> str:
        """Return a value as JSON on one line."""
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return CONTROL.sub(lambda character: f"\\u{ord(character[0]):04x}", text)

    def to_yaml(self, _context: Context, value: Any = None) -> str:
        """Return a value as YAML."""
        return _yaml(value)

    def from_json(self, _context: Context, text: str) -> Any:
        """Return the value of a JSON text."""
        from resource_api.manifest import json_reader

        return _read(json_reader.read, text, "JSON")

    def from_yaml(self, _context: Context, text: str) -> Any:
        """Return the value of a YAML text."""
        from resource_api.manifest import yaml_reader

        return _read(yaml_reader.read, text, "YAML")

    def base64_encode(self, _context: Context, text: str) -> str:
        """Return a text in Base64."""
        import base64

        return base64.b64encode(text.encode()).decode()

    def base64_decode(self, _context: Context, text: str) -> str:
        """Return the text that Base64 encodes."""
        import base64

        try:
            data = base64.b64decode("".join(text.split()), validate=True)
        except ValueError:
            msg = "text is no Base64: it has letters, digits, '+' and '/', and its length with '=' is a multiple of 4"
            raise ResourceError(msg) from None
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise ResourceError("text encodes bytes that are no UTF-8 text; a value can only hold text") from None

    def sha256(self, _context: Context, text: str) -> str:
        """Return the SHA-256 of a text in hexadecimal digits."""
        import hashlib

        return hashlib.sha256(text.encode()).hexdigest()

    def basename(self, _context: Context, path: str) -> str:
        """Return the last part of a path."""
        return path.rstrip("/").rpartition("/")[2] or "/"

    def dirname(self, _context: Context, path: str) -> str:
        """Return a path without its last part."""
        head, slash, _ = path.rstrip("/").rpartition("/")
        return head.rstrip("/") or ("/" if slash or not path.rstrip("/") else ".")

    def cidr_host(self, _context: Context, network: str, number: int) -> str:
        """Return the address with a number in a network: 0 is the network itself, -1 the last address."""
        parsed = _network(network, "network")
        if not -parsed.num_addresses <= number < parsed.num_addresses:
            last = parsed.num_addresses - 1
            msg = f"number {number} is outside of {parsed}; the numbers are 0 to {last}, or -1 for the last address"
            raise ResourceError(msg)
        return str(parsed[number])

    def cidr_contains(self, _context: Context, network: str, address: str) -> bool:
        """Return whether an address or a network is in a network."""
        outer, inner = _network(network, "network"), _network(address, "address")
        return outer.version == inner.version and inner.subnet_of(outer)  # type: ignore[arg-type] # of one version

    def semver_compare(self, _context: Context, left: str, right: str) -> int:
        """Return -1, 0 or 1: whether ``left`` is older than ``right``, equal, or newer."""
        one, second = _version(left, "left"), _version(right, "right")
        return (one > second) - (one < second)


def _check_length(characters: int) -> None:
    """Raise ``ResourceError`` for a text that is longer than a function may make."""
    if characters > LONGEST:
        raise ResourceError(f"the result would have more than {LONGEST >> 20} Mi characters; a value is shorter")


def _check_count(elements: int) -> None:
    """Raise ``ResourceError`` for more elements than a function may make."""
    if elements > MOST:
        raise ResourceError(f"the result would have more than {MOST:,} elements; a list is shorter")


def _quoted(text: str) -> str:
    """Return the beginning of a text in quotes, for a message."""
    return f"'{text[:40]}…'" if len(text) > 40 else f"'{text}'"  # noqa: PLR2004 - as much as a message shows


def _identity(value: Any) -> str:
    """Return a text that only equal values have: 1, 1.0, true and "1" differ, the order of keys does not matter."""
    return json.dumps(value, sort_keys=True)


def _merged(former: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Return two mappings merged at every depth: a mapping in both is merged too, any other value is the later one."""
    both = {
        key: _merged(former[key], value) if isinstance(value, dict) and isinstance(former.get(key), dict) else value
        for key, value in later.items()
    }
    return {**former, **both}


def _field(field: re.Match[str], values: Mapping[str, Any]) -> str:
    """Return the text for a match of ``FIELD``: a named value, or a brace for a doubled one.

    Raise ``ResourceError`` for a single brace or an unknown name.
    """
    whole, name = field[0], field[1]
    if whole in {"{{", "}}"}:
        return whole[0]
    if name is None:
        msg = f"text has a single {whole} at character {field.start() + 1}; write {whole * 2} for a brace"
        raise ResourceError(msg)
    if name not in values:
        advice = hint(name, values) or "; write {{ and }} for braces"
        raise ResourceError(f"text has {{{name}}}, and values has no '{name}'{advice}")
    return expression.text_of(values[name])


def _replace_matches(text: str, pattern: str, replacement: str) -> str:
    """Return ``text`` with each match of a regular expression replaced.

    Some expressions need years for a text, so the search is ended after some seconds.
    """
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError) as error:
        msg = f"from is no regular expression: {error}; without 'regex: true' it is taken literally"
        raise ResourceError(msg) from None
    try:
        return compute("the replacement", partial(_substitute, compiled, replacement, text), seconds=SECONDS)
    except (re.error, IndexError) as error:
        raise ResourceError(f"to is no replacement: {error}; \\1 is group 1, and \\\\ a backslash") from None


def _substitute(pattern: re.Pattern[str], replacement: str, text: str) -> str:
    """Return a text with each match replaced, computed in a process of its own, which can be ended.

    Raise ``ResourceError`` for a result that is too long.
    """
    result = pattern.sub(replacement, text)
    _check_length(len(result))
    return result


def _yaml(value: Any) -> str:
    """Return a value in block style of YAML, the same for readers of YAML 1.1 and 1.2.

    A text such as ``yes``, a Boolean for only one of them, is quoted. Equal parts are written in full, without anchors.
    """
    import yaml

    from resource_api.manifest import yaml_scalar

    def represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        """Write a text in the style in which all readers take it for text: plain ``abc``, but ``'yes'`` in quotes.

        A text of more than one line becomes a block, one with control characters has escapes.
        """
        try:
            style = None if isinstance(yaml_scalar.plain(text), str) else "'"
        except ValueError:
            style = "'"
        if CONTROL.search(text):
            style = '"'
        elif "\n" in text:
            style = "|"
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, _data: Any) -> bool:
            return True

    Dumper.add_representer(str, represent)
    text = yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=LONGEST)
    # PyYAML ends a document that is a single scalar with this mark.
    return text.removesuffix("...\n")


def _read(read: Callable[[bytes, str], Any], text: str, language: str) -> Any:
    """Return the data in a text by a reader of manifests, so that every value is one that a manifest can hold.

    Raise ``ResourceError`` with the line and column of a mistake.
    """
    try:
        return read(text.encode(), "").data
    except ManifestError as error:
        first = error.problems[0]
        advice = f"; {first.hint}" if first.hint else ""
        message = f"line {first.line}, column {first.column}: {first.message}{advice}"
        raise ResourceError(f"text is no {language} that a manifest can hold: {message}") from None


def _network(text: str, name: str) -> IPv4Network | IPv6Network:
    """Return the network in the input ``name``; an address is a network of one. Raise ``ResourceError`` otherwise."""
    import ipaddress

    try:
        return ipaddress.ip_network(text)
    except ValueError:
        pass
    # A network with bits beside its prefix is recognized only for its message.
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        example = "10.0.0.0/24 or fd00::/64" if name == "network" else "10.0.0.1 or fd00::1"
        raise ResourceError(f"{name} is none: {_quoted(text)}; write it as {example}") from None
    raise ResourceError(f"{name} {text} has bits beside its prefix; the network is {network}")


def _version(text: str, name: str) -> tuple[Any, ...]:
    """Return the sort key of a version (semver.org): a release comes after its pre-releases, a build does not count.

    Raise ``ResourceError`` with ``name``, the input, for any other text.
    """
    match = VERSION.match(text)
    if match is None:
        has_prefix = VERSION.match(text[1:]) and text[:1] in "vV"
        advice = f"without the 'v': {text[1:]}" if has_prefix else "as 1.2.3 or 1.2.3-rc.1"
        raise ResourceError(f"{name} is no version of Semantic Versioning: {_quoted(text)}; write it {advice}")
    *numbers, before = match.groups()
    # Of a pre-release such as ``rc.1``, numbers come before words.
    parts = [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in before.split(".")] if before else []
    return (*map(int, numbers), before is None, parts)
