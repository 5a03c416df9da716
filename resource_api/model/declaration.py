"""What a manifest says, before anybody asks whether the types exist: declarations and what stands around them.

Frozen values that know where in their files they stand. Whether an attribute exists, what a reference leads to
and what a value must look like is the catalog's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.reference import Reference, child_reference, instance_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resource_api.model.values.document import Document

#: The metaparameters that say who comes before whom, and nothing of the resource itself.
RELATIONSHIPS: Final = frozenset({"require", "before", "notify", "subscribe"})
#: The keys of a resource that are not attributes.
METAPARAMETERS: Final = RELATIONSHIPS | frozenset(
    {
        "noop",
        "tag",
        "loglevel",
        "alias",
        "provider",
        "timeout",
        "lifecycle",
    }
)


class Missing:
    """Says that an input has no default, as ``None`` would be one; one instance, ``MISSING``."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Read as a word."""
        return "MISSING"


MISSING: Final = Missing()


class Place(NamedTuple):
    """A place in a file; line and column count from 1, 0 means not known."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """Spell ``site.yaml:14:5``, or the file alone."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


class Origin(NamedTuple):
    """Where something was written: a document and the path of keys that leads there."""

    document: Document
    path: tuple[str | int, ...]

    def place(self, *inner: str | int) -> Place:
        """Give the place of the key, or of a key further in; of the last one that exists."""
        return Place(self.document.file, *self.document.position((*self.path, *inner)))


class Input(NamedTuple):
    """A declared input: its data type as text, its default or ``MISSING``, what it is for."""

    type: str
    default: Any
    docs: str
    origin: Origin

    def place(self, *inner: str | int) -> Place:
        """Give the place of its name, or of a key in it."""
        return self.origin.place(*inner)


class Moved(NamedTuple):
    """The wish to keep what was recorded as ``source`` under the name ``target``."""

    source: Reference
    target: Reference
    origin: Origin

    def place(self, *inner: str | int) -> Place:
        """Give the place of the pair, or of ``from`` or ``to`` in it."""
        return self.origin.place(*inner)


class Removed(NamedTuple):
    """The wish to forget what was recorded as ``reference``."""

    reference: Reference
    origin: Origin

    def place(self, *inner: str | int) -> Place:
        """Give its place."""
        return self.origin.place(*inner)


class ConfiguredProvider(NamedTuple):
    """A configured provider: its name, the type it is of, the versions that will do, its configuration as written."""

    name: str
    type: str
    version: str
    config: dict[str, Any]
    origin: Origin

    @property
    def instance(self) -> str:
        """What its resources are told apart by: ``vm_host@lab``; the type alone where it is named like its type."""
        return instance_name(self.type, self.name)

    def place(self, *inner: str | int) -> Place:
        """Give the place of its name, or of a key in it."""
        return self.origin.place(*inner)


class Declaration(NamedTuple):
    """One resource as it was written.

    ``type`` is the name of its file, ``title`` may still hold ``${...}``. ``attributes`` and ``meta`` (the
    metaparameters, whose shape has been checked) may be the document's, and other declarations': they are only read.
    ``key`` is what it stands under among the resources of ``document``, which tells its place to whoever asks.
    ``parent`` is the reference of the component that has made it, if one has.
    """

    type: str
    title: str
    attributes: dict[str, Any]
    meta: dict[str, Any]
    document: Document | None = None
    key: str = ""
    parent: str = ""

    @property
    def file(self) -> str:
        """The file that it stands in; empty where it stands in none."""
        return self.document.file if self.document is not None else ""

    @property
    def reference(self) -> Reference:
        """Its name in relationships, in logs, in state."""
        return child_reference(self.parent, self.type, self.title)

    def place(self, *inner: str | int) -> Place:
        """Give the place of its key, or of an attribute and of what is inside that."""
        return Origin(self.document, ("resources", self.key)).place(*inner) if self.document is not None else Place("")


class Manifest(NamedTuple):
    """Everything that the files of a manifest say; included files come before those that include them.

    ``project`` is the first file's, or its stem when ``project_given`` is false. ``defaults`` hold for
    their own file alone: file → type → attribute → value.
    """

    file: str
    project: str
    project_given: bool
    inputs: dict[str, Input]
    defaults: dict[str, dict[str, dict[str, Any]]]
    providers: dict[str, ConfiguredProvider]
    values: dict[str, Any]
    resources: tuple[Declaration, ...]
    moved: tuple[Moved, ...]
    removed: tuple[Removed, ...]
    outputs: dict[str, Any]
    documents: tuple[Document, ...]
    #: Where relative names of files begin when that is not where we are.
    root: str = ""

    @property
    def text(self) -> list[dict[str, Any]]:
        """The files and their data, in order: what a plan embeds, and what makes the same manifest again."""
        return [{"file": each.file, "data": each.data} for each in self.documents]

    @property
    def sha256(self) -> str:
        """The digest of the files' bytes; of several files, that of their digests; of a mapping, of its JSON."""
        from hashlib import sha256  # noqa: PLC0415 - 3 ms that only a saved plan needs

        digests = [sha256(each.raw).hexdigest() for each in self.documents]
        return digests[0] if len(digests) == 1 else sha256("\n".join(digests).encode()).hexdigest()

    def place(
        self,
        what: Declaration | Input | ConfiguredProvider | Moved | Removed | Sequence[str | int],
        attribute: str | None = None,
        *inner: str | int,
        file: str = "",
    ) -> Place:
        """Give where something stands: a part of this manifest, or a path of keys from the top of a file.

        ``attribute`` and ``inner`` are keys within it. An attribute that a resource has from its file's
        ``defaults`` is answered there. A path is looked for in ``file``, or in all, the first file first.
        """
        within = (attribute, *inner) if attribute is not None else ()
        if isinstance(what, Declaration):
            inherited = attribute not in what.attributes and attribute not in what.meta
            found = self._default(what, within) if within and inherited else None
            return found or what.place(*within)
        if isinstance(what, (Input, ConfiguredProvider, Moved, Removed)):
            return what.place(*within)
        path = (*what, *within)
        candidates = [each for each in reversed(self.documents) if not file or each.file == file]
        best = max(candidates, key=lambda each: _depth(each.data, path), default=None)
        return Origin(best, path).place() if best else Place(file or self.file)

    def _default(self, declared: Declaration, inner: Sequence[str | int]) -> Place | None:
        if inner[0] not in self.defaults.get(declared.file, {}).get(declared.type, {}):
            return None
        return self.defaults_place(declared.file, declared.type, *inner)

    def defaults_place(self, file: str, type_name: str, *inner: str | int) -> Place:
        """Give where the defaults of a type stand in a file that has some, or what is in them."""
        document = next(each for each in self.documents if each.file == file)
        spelt = next(name for name in document.data["defaults"] if name[:1].lower() + name[1:] == type_name)
        return Origin(document, ("defaults", spelt, *inner)).place()


def _depth(data: Any, path: Sequence[str | int]) -> int:
    """Count how many steps of ``path`` exist in ``data``."""
    for steps, step in enumerate(path):
        try:
            data = data[step]
        except (LookupError, TypeError):
            return steps
    return len(path)
