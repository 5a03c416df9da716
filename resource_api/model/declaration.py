"""The declarations in a manifest's files, before types are looked up: resources, inputs, providers, moves, removals.

Frozen values with their positions in the files. Whether they are valid is for the catalog.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.attribute import METAPARAMETERS, MISSING
from resource_api.model.values.reference import Reference, child_reference, instance_name, uncapitalize_type
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import escape
from resource_api.model.values.values import attribute_of, nearest_place

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.model.record import StackState
    from resource_api.model.values.document import Document
    from resource_api.model.values.errors import Problem

#: The name of the recorded manifest where two files, neither of which names its project, have recorded resources.
SEVERAL_MANIFESTS: Final = "several manifests"


class FilePosition(NamedTuple):
    """A position in a file; line and column count from 1, 0 means unknown."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """Return ``site.yaml:14:5``, or the file alone if the line is unknown."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    @property
    def line_text(self) -> str:
        """``site.yaml:14``; empty if the line is unknown."""
        return f"{self.file}:{self.line}" if self.line else ""

    def after(self, text: str) -> str:
        """Return ``text (site.yaml:14)``, or the text alone if the line is unknown."""
        return f"{text} ({self.line_text})" if self.line else text


class DocumentPath(NamedTuple):
    """Where something is declared: a document and the path of keys to it."""

    document: Document
    path: tuple[str | int, ...]

    def place(self, *inner: str | int) -> FilePosition:
        """Return the position of the key, or of a key below it; of the last one on the path that exists."""
        return FilePosition(self.document.file, *self.document.position((*self.path, *inner)))

    def place_in_value(self, column: int, *inner: str | int) -> FilePosition:
        """Return the position in the file of a character in the text under a key, such as a mistake in a data type.

        ``column``: its column in the text, from 1. If the file spells the text with escapes or line breaks, columns do
        not correspond, and the position is that of the key.
        """
        line, start = self.document.position((*self.path, *inner), value=True)
        text: Any = self.document.data
        for step in (*self.path, *inner):
            text = text[step]
        lines = self.document.raw.decode(errors="replace").splitlines()
        source = lines[line - 1][start - 1 :] if 0 < line <= len(lines) else ""
        quote = source[:1] if source[:1] in {"'", '"'} else ""
        if not isinstance(text, str) or not source.startswith(quote + text):
            return self.place(*inner)
        return FilePosition(self.document.file, line, start + len(quote) + column - 1)


class Input(NamedTuple):
    """A declared input: data type as text, default, documentation, whether it is declared a secret.

    The default is ``MISSING`` without one, and ``UNKNOWN`` where the declaration is invalid.
    """

    type: str
    default: object
    docs: str
    origin: DocumentPath
    sensitive: bool = False
    #: Whether nothing of its value is ever recorded; such an input is a secret too.
    ephemeral: bool = False


class Moved(NamedTuple):
    """An entry of ``moved``: the record of ``source`` is to be used for ``target``."""

    source: Reference
    target: Reference
    origin: DocumentPath


class Removed(NamedTuple):
    """An entry of ``removed``: the record of ``reference`` is to be forgotten."""

    reference: Reference
    origin: DocumentPath


class Purge(NamedTuple):
    """An entry of ``purge``: undeclared resources that a type lists are deleted (contract §10.7)."""

    type: str
    #: The most resources that it may delete.
    at_most: int
    origin: DocumentPath
    #: Titles, and patterns of titles, that it spares.
    exceptions: tuple[str, ...] = ()
    #: Attribute → the test of its value, as written.
    where: Mapping[str, object] = {}
    #: The name of the configured provider; None: the default one of the type.
    provider: str | None = None
    #: The condition under which it holds, as written.
    when: object = True


class ConfiguredProvider(NamedTuple):
    """An entry of ``providers``: name, type, version constraint, configuration as written.

    ``implementation`` names one of the type's providers; empty means that the machine decides. ``path`` is the program
    of a Terraform provider, ``source`` its address in mirrors, for all types that begin with the name of the entry
    (contract §10.14).
    """

    name: str
    type: str
    version: str
    config: dict[str, object]
    origin: DocumentPath
    implementation: str = ""
    path: str = ""
    source: str = ""

    @property
    def is_program(self) -> bool:
        """Whether it is the program of a Terraform provider."""
        return bool(self.path or self.source)

    @property
    def type_version(self) -> str:
        """The range of versions of its type; one with a program has none."""
        return "" if self.is_program else self.version

    @property
    def instance(self) -> str:
        """The identity of the provider: ``vm_host@lab``; the type alone if it is named like its type."""
        return instance_name(self.type, self.name)


def element_origin(key: object, index: int) -> str:
    """Return the words that name an element in messages, by its index if its key is None."""
    return "from for_each, " + (f"index {index}" if key is None else f"key '{escape(str(key))}'")


class Element(NamedTuple):
    """One element of the collection of ``for_each``: its key, its value, its number from 0.

    ``key`` is ``MISSING`` for an element of a list that is neither a text nor a number.
    """

    key: Any
    value: object
    number: int

    @property
    def origin(self) -> str:
        """The words that name it in messages: ``from for_each, key 'alice'``."""
        return element_origin(None if self.key is MISSING else self.key, self.number)


class Derivation(NamedTuple):
    """How ``for_each`` and ``when`` derive a declaration from a written one: for an element, or by ``when`` alone.

    ``written`` is the key of the declaration with ``for_each``: its own, or that of the component that declares it.
    """

    element: Element | None = None
    written: str = ""


class Declaration(NamedTuple):
    """One resource as written.

    ``type`` is the name of its file; ``title`` may contain ``${...}``. ``attributes`` and ``meta`` (metaparameters of
    checked shapes) may be shared with the document and with other declarations, and must not be changed. ``key`` is the
    resource's key in ``document``, by which its position is found. ``parent`` is the reference of the component that
    declares it. ``derivation`` is None where it has neither ``for_each`` nor ``when``.
    """

    type: str
    title: str
    attributes: dict[str, object]
    meta: dict[str, Any]
    document: Document | None = None
    key: str = ""
    parent: str = ""
    derivation: Derivation | None = None

    def located(self, text: str) -> str:
        """Return ``text (site.yaml:14, from for_each, key 'alice')``, as far as these are known."""
        return f"{text} ({self.location})" if self.location else text

    @property
    def location(self) -> str:
        """``site.yaml:14, from for_each, key 'alice'``, as far as these are known."""
        origin = self.element.origin if self.element is not None else ""
        return ", ".join(filter(None, (self.place().line_text, origin)))

    @property
    def element(self) -> Element | None:
        """The element of ``for_each`` that it is made for, or None."""
        return self.derivation.element if self.derivation is not None else None

    @property
    def file(self) -> str:
        """The file that contains it; empty if it is not from a file."""
        return self.document.file if self.document is not None else ""

    @property
    def reference(self) -> Reference:
        """Its name in relationships, logs and state."""
        return child_reference(self.parent, self.type, self.title)

    def states(self, name: str) -> bool:
        """Return whether its own body has an attribute or metaparameter, not only ``defaults`` or a component."""
        body = self.document.data["resources"].get(self.key) if self.document is not None else None
        return body is not None and body.get(name) is not None

    def place(self, *inner: str | int) -> FilePosition:
        """Return the position for a message: of its key, of an attribute, or of a key below that (``inner``)."""
        return (
            DocumentPath(self.document, ("resources", self.key)).place(*inner)
            if self.document is not None
            else FilePosition("")
        )


class SkippedInclude(NamedTuple):
    """A file that is not included, and the reason: its condition does not hold."""

    file: str
    reason: str
    origin: DocumentPath


class Manifest(NamedTuple):
    """The content of all files of a manifest; included files precede those that include them.

    ``project`` is the first file's, or that file's stem if ``has_project`` is false. ``defaults`` hold for their own
    file only: file → type → attribute → value.
    """

    file: str
    project: str
    has_project: bool
    inputs: dict[str, Input]
    defaults: dict[str, dict[str, dict[str, object]]]
    providers: dict[str, ConfiguredProvider]
    values: dict[str, object]
    resources: tuple[Declaration, ...]
    moved: tuple[Moved, ...]
    removed: tuple[Removed, ...]
    outputs: dict[str, object]
    documents: tuple[Document, ...]
    purges: tuple[Purge, ...] = ()
    #: The directory of relative file names, if it is not the current one.
    root: str = ""
    #: Where the first file is, an absolute path on the machine that has read it; empty: it is no file.
    path: str = ""
    #: The saved plan that it is embedded in, if it is.
    saved_in: str = ""
    #: What is wrong with declarations that are left out: reported together with the problems of compiling.
    problems: tuple[Problem, ...] = ()
    #: The types of which a resource, or an alias of one, is left out: an unknown name of these is no error.
    incomplete: frozenset[str] = frozenset()
    #: Output → its condition, of those that have one.
    output_conditions: Mapping[str, object] = {}
    #: The files that are not included, as their conditions do not hold.
    skipped_includes: tuple[SkippedInclude, ...] = ()
    #: Returns the manifest with the files whose conditions hold, given a function that judges a condition of a
    #: manifest and returns the reason that it does not hold, or ""; None: there are no such files.
    with_includes: Callable[[Callable[[Manifest, Any], str]], Manifest] | None = None
    #: The references of its resources in the initial order; empty means the order of the files.
    order: tuple[str, ...] = ()
    #: The provider instance to configure although no resource uses it, for a command that reads it, or "".
    selected: str = ""

    def __repr__(self) -> str:
        """Show the file and the number of resources."""
        return f"<Manifest {self.file}: {len(self.resources)} resources>"

    @property
    def recorded_as(self) -> str:
        """The name under which state records the manifest: an absolute path, or its source if it is no file."""
        return self.path or self.file

    def recorded_after(self, state: StackState) -> str:
        """Return the name of the manifest that a run with this one records in ``state``.

        If another file has recorded resources, and no ``project:`` declares that both belong together, the name is
        ``SEVERAL_MANIFESTS``: ``--prune`` of either file is refused then, as it would delete the other's resources.
        """
        is_alone = self.has_project or not state.records or state.manifest in {"", self.recorded_as}
        return self.recorded_as if is_alone else SEVERAL_MANIFESTS

    @property
    def text(self) -> list[dict[str, Any]]:
        """The files in order, with data and the positions of resources and outputs, as a saved plan embeds them."""
        return [
            {"file": document.file, "data": document.data, "places": document.places("resources", "outputs")}
            for document in self.documents
        ]

    @property
    def sha256(self) -> str:
        """The SHA-256 of the file's bytes, or of several files' digests, by which a saved plan names the manifest."""
        # Here, because ``hashlib`` takes long to load, and few runs save a plan.
        from hashlib import sha256

        digests = [sha256(document.raw).hexdigest() for document in self.documents]
        return digests[0] if len(digests) == 1 else sha256("\n".join(digests).encode()).hexdigest()

    def place(
        self, part: Declaration | tuple[str | int, ...], attribute: str | None = None, *inner: str | int
    ) -> FilePosition:
        """Return the position, for a message, of a declaration or of a path of keys from the top of a file.

        ``attribute``, which may be a place such as ``rules[0].port``, and ``inner`` are keys within the declaration.
        """
        if isinstance(part, Declaration):
            return part.place() if attribute is None else self._attribute_place(part, attribute, inner)
        # The file that has most keys of the path; of files with equally many the last, which may include the others.
        best = max(reversed(self.documents), key=lambda document: _existing_keys(document.data, part), default=None)
        return DocumentPath(best, part).place() if best else FilePosition(self.file)

    def _attribute_place(self, declared: Declaration, attribute: str, inner: tuple[str | int, ...]) -> FilePosition:
        """Return the position of an attribute or metaparameter, or of the keys ``inner`` below it.

        It is in ``defaults`` if the declaration has the attribute from there. For a place such as ``rules[0].port`` it
        is that of the nearest part that exists.
        """
        if attribute in METAPARAMETERS and attribute not in declared.meta:
            spelt = f"{attribute}_"  # manifests write ``tag_`` for an attribute called like the metaparameter ``tag``
            if spelt in declared.attributes or spelt in self.defaults_of(declared):
                attribute = spelt
        if not (attribute in declared.attributes or attribute in declared.meta or attribute.isidentifier()):
            attribute, path = nearest_place(attribute)
            inner = (*path, *inner)
        if self.inherits(declared, attribute):
            return self.defaults_place(declared.file, declared.type, attribute, *inner)
        return declared.place(attribute, *inner)

    def defaults_of(self, declared: Declaration) -> Mapping[str, Any]:
        """Return the values that a declaration of a resource or component inherits, by attribute."""
        return self.defaults.get(declared.file, {}).get(declared.type, {})

    def inherits(self, declared: Declaration, attribute: str) -> bool:
        """Return whether a declaration has an attribute or metaparameter only from its file's ``defaults``.

        A message then shows the position in ``defaults``. This is false for each metaparameter of a resource within a
        component, since it may come from the component instead.
        """
        if attribute in declared.meta:
            return not (declared.parent or declared.states(attribute))
        of_type = self.defaults_of(declared)
        if attribute not in of_type:
            attribute = attribute_of(attribute)  # ``rules`` of ``rules[0].port``
        return attribute in of_type and attribute not in declared.attributes and attribute not in declared.meta

    def defaults_place(self, file: str, type_name: str, *inner: str | int) -> FilePosition:
        """Return the position, for a message, of a type's defaults in a file that has some, or of a key below them."""
        document = next(candidate for candidate in self.documents if candidate.file == file)
        # The file spells the type as references do, or with a small letter.
        spelt = next(name for name in document.data["defaults"] if uncapitalize_type(name) == type_name)
        return DocumentPath(document, ("defaults", spelt, *inner)).place()


def _existing_keys(data: Any, path: Sequence[str | int]) -> int:
    """Return the number of leading keys of ``path`` in a file's ``data``; a message names the file with the most."""
    for number, key in enumerate(path):
        try:
            data = data[key]
        except (LookupError, TypeError):
            return number
    return len(path)


class ProviderInstance(NamedTuple):
    """A configured provider; ``config`` holds its checked values, without those that are not known yet."""

    name: str
    position: FilePosition
    version: str = ""
    config: Mapping[str, object] = {}
    #: Values that refer to resources: attribute → value with expressions in it.
    pending: Mapping[str, object] = {}
    #: One of the type's providers; empty means that the machine decides.
    implementation: str = ""
    #: The keys of ``config`` that are made from ephemeral inputs: they are not recorded.
    ephemeral: Sequence[str] = ()
