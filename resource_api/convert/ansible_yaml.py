"""Read the YAML of Ansible: version 1.1, with merge keys, encrypted and raw texts, and the position of each mapping.

The limits are those of manifests: any bytes give data or a ``ManifestError``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import yaml
from yaml.constructor import SafeConstructor
from yaml.error import MarkedYAMLError
from yaml.events import CollectionEndEvent, CollectionStartEvent
from yaml.nodes import MappingNode, ScalarNode

from resource_api.manifest import yaml_scalar
from resource_api.manifest.read import read_file
from resource_api.model.values import document

if TYPE_CHECKING:
    from resource_api.model.values.document import Position
    from resource_api.model.values.errors import ManifestError

#: The beginning of a file that `ansible-vault` has encrypted.
VAULT_HEADER: Final = b"$ANSIBLE_VAULT;"
_TAGS: Final = "tag:yaml.org,2002:"
_MERGE: Final = f"{_TAGS}merge"
#: Tags whose values stay texts: a date is one in Ansible's modules too.
_TEXT_TAGS: Final = {f"{_TAGS}str", f"{_TAGS}timestamp", f"{_TAGS}value", "!"}


class Mapping(dict[str, Any]):
    """A mapping with its position in the text, and the positions of its keys."""

    position: Position = (0, 0)
    #: Key → its position; keys of merged mappings have none.
    keys_at: dict[str, Position]


class Vault:
    """A value that `ansible-vault` has encrypted; its text is not kept. Or another secret, by its ``origin``."""

    def __init__(self, origin: str = "encrypted by ansible-vault") -> None:
        """Keep the origin, for comments: the form of the encryption, or that the value is asked for."""
        self.origin = origin

    def __repr__(self) -> str:
        """Return its tag."""
        return "!vault"


class Raw(str):
    """A text with the tag `!unsafe`, which is no template."""

    __slots__ = ()


def read(path: str) -> Any:
    """Return the data of one file, or a ``Vault`` if it is encrypted. Raise ``ManifestError`` with a position."""
    try:
        text, _ = read_file(path)
    except (OSError, ValueError) as error:
        message = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise document.manifest_error(path, (0, 0), "unreadable", message) from error
    if text.startswith(VAULT_HEADER):
        return Vault()
    return parse(text, path)


def parse(raw: bytes, file: str) -> Any:
    """Return the data of a YAML text; None if it is empty. Raise ``ManifestError`` with a position.

    The depth is checked first, because a deep nesting would crash the parser instead of raising an error.
    """
    decoded = document.decode(raw, file)
    try:
        _check_depth(decoded, file)
        node = yaml.compose(decoded, Loader=yaml.CSafeLoader)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        # The parser's messages quote no values, which may be secrets, but only names of anchors and tags.
        message = f"not valid YAML: {error.problem or error.context}"
        raise document.manifest_error(file, position, "syntax", message) from None
    except yaml.YAMLError:
        raise document.manifest_error(file, (0, 0), "syntax", "this is not YAML") from None
    return None if node is None else _Builder(file).value(node)


def _check_depth(text: str, file: str) -> None:
    """Raise ``ManifestError`` for a text that is nested too deeply: composing it, which is recursive, would crash."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, CollectionStartEvent):
            depth += 1
            if depth > document.MAX_DEPTH:
                mark: Any = event.start_mark
                message = f"nested deeper than {document.MAX_DEPTH}"
                raise document.manifest_error(file, (mark.line + 1, mark.column + 1), "limit", message)
        elif isinstance(event, CollectionEndEvent):
            depth -= 1


class _Builder:
    """Builds plain data from the nodes of one document."""

    def __init__(self, file: str) -> None:
        """Begin without data; ``file`` is for the messages of errors."""
        self._file = file
        #: The size of the data so far, in which the value of an alias counts each time.
        self._weight = 0
        #: The nodes from the root to the present one, to find an alias inside its own anchor.
        self._open: list[yaml.Node] = []
        self._scalars = SafeConstructor()

    def value(self, node: yaml.Node) -> Any:
        """Return the plain data of a node. Raise ``ManifestError`` if aliases expand it beyond a limit.

        A few aliases of aliases can stand for a value that fills the memory, and one inside its own anchor never ends.
        """
        self._weight += document.NODE_WEIGHT + (len(node.value) if isinstance(node, ScalarNode) else 0)
        if self._weight > document.MAX_EXPANSION:
            raise self._refusal(node, "limit", "aliases expand this file beyond the limit")
        if any(node is outer for outer in self._open):
            raise self._refusal(node, "limit", "this alias stands inside its own anchor")
        if len(self._open) >= document.MAX_DEPTH:
            raise self._refusal(node, "limit", f"nested deeper than {document.MAX_DEPTH} by an alias")
        self._open.append(node)
        try:
            if isinstance(node, ScalarNode):
                return self._scalar(node)
            if isinstance(node, MappingNode):
                return self._mapping(node)
            # The ordered types `!!omap` and `!!pairs` are written as lists of mappings with one key, and stay so.
            self._check_tag(node, "seq", "omap", "pairs")
            return [self.value(part) for part in node.value]
        finally:
            self._open.pop()

    def _check_tag(self, node: yaml.Node, *names: str) -> None:
        """Raise ``ManifestError`` for a tag that is none of these of YAML 1.1."""
        if node.tag not in {"!", *(_TAGS + name for name in names)}:
            raise self._refusal(node, "value", f"unknown tag {document.quote_key(node.tag.removeprefix(_TAGS))}")

    def _scalar(self, node: ScalarNode) -> Any:
        """Return the value of a scalar: ``Vault`` for an encrypted one, ``Raw`` for one marked as no template."""
        tag, text = node.tag, node.value
        if tag in {"!vault", "!vault-encrypted"}:
            return Vault()
        if "\0" in text:
            raise self._refusal(node, "encoding", "a string cannot hold the control character U+0000")
        if tag == "!unsafe":
            return Raw(text)
        if tag in _TEXT_TAGS:
            return text
        self._check_tag(node, "null", "bool", "int", "float")
        try:
            value = self._scalars.construct_object(node)
        except (ValueError, ArithmeticError, KeyError, MarkedYAMLError):
            raise self._refusal(node, "value", f"not a value of the type {tag.removeprefix(_TAGS)}") from None
        # A number that no manifest can hold stays a text, as which Ansible shows it.
        return text if value is not None and yaml_scalar.number_problem(value) else value

    def _mapping(self, node: MappingNode) -> Mapping:
        """Return a mapping, with the positions of its keys for messages and comments.

        Members that a merge key (``<<``) adds have the lowest precedence: the mapping's own keys win.
        """
        self._check_tag(node, "map", "set")
        data = Mapping()
        data.position, data.keys_at = self._position(node), {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE and isinstance(key_node, ScalarNode):
                merged = {**merged, **self._merged(value_node)}
                continue
            key = self.value(key_node) if isinstance(key_node, ScalarNode) else None
            if not isinstance(key, (str, int, float, bool)):
                raise self._refusal(key_node, "syntax", "a key must be a string")
            name = str(key)
            # As in Ansible, the last one of two equal keys counts.
            data[name] = self.value(value_node)
            data.keys_at[name] = self._position(key_node)
        for name, value in merged.items():
            data.setdefault(name, value)
        return data

    def _merged(self, node: yaml.Node) -> dict[str, Any]:
        """Return the members that a merge key (``<<``) adds: those of a mapping, or of a list of mappings.

        The first mapping of the list that has a key wins.
        """
        value = self.value(node)
        mappings = value if isinstance(value, list) else [value]
        if not all(isinstance(mapping, Mapping) for mapping in mappings):
            raise self._refusal(node, "syntax", "'<<' merges mappings")
        # reversed, as a later equal key replaces the former one
        return {name: part for mapping in reversed(mappings) for name, part in mapping.items()}

    def _position(self, node: yaml.Node) -> Position:
        return node.start_mark.line + 1, node.start_mark.column + 1

    def _refusal(self, node: yaml.Node, code: str, message: str) -> ManifestError:
        return document.manifest_error(self._file, self._position(node), code, message)
