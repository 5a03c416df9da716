"""Assets and archives: contents that are identified by their SHA-256, in manifests and as values. Nothing is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from resource_api.model.values import archive_rules
from resource_api.model.values.errors import ResourceError, hint
from resource_api.model.values.start_up import NamedTuple, regex
from resource_api.model.values.values import Sensitive, is_secret, reveal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import BinaryIO

    from resource_api.model.values.archive_rules import Limits, Member

    T = TypeVar("T")

#: How many digits of a digest are shown.
_SHOWN: Final = 12
_SHA256: Final = regex(r"[0-9a-f]{64}\Z")


class Content:
    """A digest and the origin of the content, common to assets and archives; equal if the digests are.

    ``origin`` is the key in the manifest (text, file, url, directory, files), ``source`` its value; both are empty if
    only the digest is known.
    """

    __slots__ = ("_read", "origin", "sha256", "source")

    word: ClassVar[str] = "content"

    def __init__(self, sha256: str, origin: str = "", source: Any = None, read: Any = None) -> None:
        """Make a value for the content with this digest; ``read`` reads it and is None if only the digest is known.

        ``origin`` and ``source`` are the key and the value of its declaration, such as ``file`` and a path.
        """
        self.sha256 = sha256
        self.origin = origin
        self.source = source
        self._read = read

    def __eq__(self, content: object) -> bool:
        """Compare digests."""
        return type(content) is type(self) and self.sha256 == content.sha256

    def __hash__(self) -> int:
        """Hash the digest."""
        return hash((self.word, self.sha256))

    def __deepcopy__(self, memo: dict[int, object]) -> Content:
        """Return the same object, because it is immutable."""
        return self

    def __str__(self) -> str:
        """Return the beginning of the digest, and the path or URL; a text or mapping may be long, and is left out."""
        source = f" ({self.source})" if self.origin in {"file", "url", "directory"} else ""
        return f"sha256:{self.sha256[:_SHOWN]}{source}"

    def __repr__(self) -> str:
        """Show the kind, too."""
        return f"<{self.word} {self}>"

    def _reader(self, read: T | None) -> T:
        """Return ``read``, which reads the content. Raise ``ResourceError`` for None: only the digest is known."""
        if read is None:
            raise ResourceError(f"only the SHA-256 of this {self.word} is known, not its content: {self}")
        return read


class Asset(Content):
    """A blob: a text, a file, or the content of a URL."""

    __slots__ = ()

    word = "asset"

    @property
    def text(self) -> str | None:
        """The text that was given; None for another origin."""
        return str(self.source) if self.origin == "text" else None

    def open(self) -> BinaryIO:
        """Return its bytes as a stream, which the caller closes; reading to its end verifies the digest.

        Raises ``OSError`` if it cannot be read and, at its end, ``ResourceError`` if it has changed.
        """
        read: Callable[[], BinaryIO] = self._reader(self._read)
        return read()


class Archive(Content):
    """Named contents: a tar or zip file, a directory, or a map of names to assets and archives."""

    __slots__ = ()

    word = "archive"

    def members(self, limits: Limits | None = None) -> Iterator[Member]:
        """Yield its members, a directory before its content; reading all of them verifies the digest.

        Raises ``OSError`` if it cannot be read, and ``ResourceError`` if it has changed, exceeds ``limits``, or has a
        member that leads out of the directory or is neither file, directory nor link.
        """
        read: Callable[[Limits], Iterator[Member]] = self._reader(self._read)
        return read(archive_rules.Limits() if limits is None else limits)


#: The keys in a manifest, of which exactly one is given.
ORIGINS: Final[Mapping[str, tuple[str, ...]]] = {
    "asset": ("text", "file", "url"),
    "archive": ("file", "url", "directory", "files"),
}
KINDS: Final[Mapping[str, type[Content]]] = {"asset": Asset, "archive": Archive}


class ContentSpec(NamedTuple):
    """One asset or archive as a manifest declares it; ``source`` of ``files`` is sorted (name, content) pairs."""

    word: str
    origin: str
    source: Any
    sha256: str = ""


def build_contents(value: object, read: Callable[[ContentSpec], Content]) -> Any:
    """Return ``value`` with each ``{asset: ...}`` and ``{archive: ...}`` in it replaced by ``read(spec)``.

    An asset with a secret in its description is a secret as a whole, because a content has no secret parts. Raises
    ``ValueError`` with a sentence for the user.
    """
    if type(value) is Sensitive:
        return Sensitive(build_contents(value.reveal(), read))
    if type(value) is list:
        return [build_contents(item, read) for item in value]
    if type(value) is not dict:
        return value
    word = next(iter(value)) if len(value) == 1 else ""
    if word not in ORIGINS:
        return {key: build_contents(item, read) for key, item in value.items()}
    content = read(_parse_spec(word, reveal(value[word]), read))
    return Sensitive(content) if is_secret(value) else content


def _parse_spec(word: str, body: Any, read: Callable[[ContentSpec], Content]) -> ContentSpec:
    """Return the source of an asset or archive (``word``); ``read`` makes its members. Raise ``ValueError``.

    ``body`` is ``{file: motd}`` or ``{url: ..., sha256: ...}``: exactly one origin. A URL needs the digest, because it
    is not opened before its content is needed.
    """
    origins = ORIGINS[word]
    keys = [key for key in origins if isinstance(body, dict) and key in body]
    if len(keys) != 1:
        raise ValueError(f"an {word} is given by one of {', '.join(origins)}: {{{word}: {{{origins[0]}: ...}}}}")
    origin, source, sha256 = keys[0], body[keys[0]], body.get("sha256")
    for key in body:
        if key not in {origin, "sha256"}:
            raise ValueError(f"an {word} has no '{key}'{hint(key, ['sha256'])}")
    if sha256 is not None and not (isinstance(sha256, str) and _SHA256.match(sha256)):
        raise ValueError("sha256 must be 64 hexadecimal digits in lower case")
    if origin == "url" and sha256 is None:
        raise ValueError(f"an {word} from a url needs sha256: what it leads to is only fetched when it is needed")
    if origin == "files":
        source = _literal_archive(source, read)
    elif not isinstance(source, str) or (not source and origin != "text"):
        raise ValueError(f"{origin} of an {word} must be a text")
    return ContentSpec(word, origin, source, sha256 or "")


def _literal_archive(files: object, read: Callable[[ContentSpec], Content]) -> tuple[tuple[str, Content], ...]:
    """Return name and content of each member of ``{archive: {files: ...}}``, sorted by name.

    ``read`` makes the contents. Raise ``ValueError`` with a sentence.
    """
    if not isinstance(files, dict):
        msg = "files of an archive must be a mapping of names to assets and archives"
        raise ValueError(msg)  # noqa: TRY004 - a sentence for people
    contents: dict[str, Content] = {}
    for spelt, item in files.items():
        name, content = archive_rules.member_name(spelt), build_contents(item, read)
        if not isinstance(content, Content):
            msg = f"'{spelt}' in an archive must be {{asset: ...}} or {{archive: ...}}"
            raise ValueError(msg)  # noqa: TRY004 - a sentence for people
        if name in contents:
            raise ValueError(f"'{name}' is in the archive twice")
        contents[name] = content
    return tuple(sorted(contents.items()))


def spell_contents(value: object) -> Any:
    """Return ``value`` with every asset and archive in its form in a manifest, the opposite of ``build_contents``.

    The inputs of a plan are saved, or used for a new plan, in this form.
    """
    if isinstance(value, Content):
        source = spell_contents(dict(value.source)) if value.origin == "files" else value.source
        return {value.word: {value.origin: source, **({"sha256": value.sha256} if value.origin == "url" else {})}}
    if isinstance(value, dict):
        return {key: spell_contents(item) for key, item in value.items()}
    return [spell_contents(item) for item in value] if isinstance(value, list) else value


def text_of(value: object) -> str | Sensitive[str] | None:
    """Return the text of an asset ``{text: ...}``, for an attribute that takes a text; None for any other value.

    It is wrapped if the asset is secret.
    """
    if type(value) is Sensitive:
        text: Any = text_of(value.reveal())
        return None if text is None else Sensitive(text)
    return value.text if type(value) is Asset else None
