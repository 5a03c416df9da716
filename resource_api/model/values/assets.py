"""Contents as values: assets and archives, which carry the SHA-256 of what they hold and are compared by it.

How a manifest spells them is read here. Nothing is opened: whoever reads contents lends the functions that do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ResourceError, nearest
from resource_api.model.values.values import Sensitive, is_secret, reveal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import BinaryIO

    T = TypeVar("T")

#: So much of a digest is shown; all of it is compared, recorded, and in JSON.
_SHOWN: Final = 12
_HEX: Final = frozenset("0123456789abcdef")
_DIGITS: Final = 64
#: A name in a directory cannot be longer (NAME_MAX in limits.h).
_LONGEST_NAME: Final = 255


class Member(NamedTuple):
    """One thing in an archive; ``parts`` are a file's bytes, to be taken before the next member is asked for.

    ``name``: a relative path, slashes between, without dots. ``kind``: file, directory or link. ``mode``: what of the
    permissions is taken over. ``target``: where a link leads, as written in it; never out of the archive.
    """

    name: str
    kind: str
    mode: int
    target: str = ""
    parts: Iterable[bytes] = ()


class Limits(NamedTuple):
    """What an archive may come to at most: bytes of all its files together, and how many members."""

    size: int = 1 << 30
    members: int = 100_000


class Content:
    """What assets and archives share: a digest, and where the content comes from.

    ``origin`` is the key of the manifest's spelling (text, file, url, directory, files), ``given`` what stands behind
    it; both are empty when only the digest is known. Two are equal when their digests are.
    """

    __slots__ = ("_read", "given", "origin", "sha256")

    word: ClassVar[str] = "content"

    def __init__(self, sha256: str, origin: str = "", given: Any = None, read: Any = None) -> None:
        """Stand for the content with this digest; ``read`` is how whoever made the value reads it."""
        self.sha256 = sha256
        self.origin = origin
        self.given = given
        self._read = read

    def __eq__(self, other: object) -> bool:
        """Compare digests."""
        return type(other) is type(self) and self.sha256 == other.sha256

    def __hash__(self) -> int:
        """Hash the digest."""
        return hash((self.word, self.sha256))

    def __deepcopy__(self, memo: dict[int, Any]) -> Content:
        """Stay the one value: nothing in it can change."""
        return self

    def __str__(self) -> str:
        """Show the digest's beginning, and where the content comes from."""
        place = f" ({self.given})" if self.origin in {"file", "url", "directory"} else ""
        return f"sha256:{self.sha256[:_SHOWN]}{place}"

    def __repr__(self) -> str:
        """Show what it is as well."""
        return f"<{self.word} {self}>"

    def _lent(self, read: T | None) -> T:
        if read is None:
            msg = f"only the SHA-256 of this {self.word} is known, not its content: {self}"
            raise ResourceError(msg)
        return read


class Asset(Content):
    """A blob: text, a file, or what a URL leads to."""

    __slots__ = ()

    word = "asset"

    @property
    def text(self) -> str | None:
        """The text that was given; None for what comes from elsewhere."""
        return str(self.given) if self.origin == "text" else None

    def open(self) -> BinaryIO:
        """Give its bytes as a stream to be closed; whoever reads to the end has read what was hashed.

        Raises ``OSError`` for what cannot be read and ``ResourceError``, at its end, for what has changed.
        """
        read: Callable[[], BinaryIO] = self._lent(self._read)
        return read()


class Archive(Content):
    """Names with contents: a tar or zip file, a directory, or a map of names to assets and archives."""

    __slots__ = ()

    word = "archive"

    def members(self, limits: Limits = Limits()) -> Iterator[Member]:  # noqa: B008 - a frozen value
        """Give what is in it, directories before what they hold; whoever takes all of it has read what was hashed.

        Raises ``OSError`` for what cannot be read, and ``ResourceError`` for what has changed, for a member that would
        lead out of the directory or is neither file, directory nor link, and for more than ``limits``.
        """
        read: Callable[[Limits], Iterator[Member]] = self._lent(self._read)
        return read(limits)


#: How a manifest may spell each: the keys of which there is exactly one.
ORIGINS: Final[Mapping[str, tuple[str, ...]]] = {
    "asset": ("text", "file", "url"),
    "archive": ("file", "url", "directory", "files"),
}
KINDS: Final[Mapping[str, type[Content]]] = {"asset": Asset, "archive": Archive}


class ContentSpec(NamedTuple):
    """What a manifest says of one asset or archive; ``given`` of ``files`` are names and contents, sorted."""

    word: str
    origin: str
    given: Any
    sha256: str = ""


def build_contents(value: Any, read: Callable[[ContentSpec], Content]) -> Any:
    """Give ``value`` with what ``read`` makes of each ``{asset: ...}`` and ``{archive: ...}`` in it.

    One with a secret anywhere in it is a secret as a whole. Raises ``ValueError`` with a sentence for people.
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
    found = read(_wish(word, reveal(value[word]), read))
    return Sensitive(found) if is_secret(value) else found


def _wish(word: str, body: Any, read: Callable[[ContentSpec], Content]) -> ContentSpec:
    origins = ORIGINS[word]
    given = [key for key in origins if isinstance(body, dict) and key in body]
    if len(given) != 1:
        msg = f"{_an(word)} is given by one of {', '.join(origins)}: {{{word}: {{{origins[0]}: ...}}}}"
        raise ValueError(msg)
    (origin,), pin = given, body.get("sha256")
    if unknown := next((key for key in body if key not in {origin, "sha256"}), None):
        hint = nearest(str(unknown), ["sha256"])
        msg = f"{_an(word)} has no '{unknown}'" + (f"; {hint}" if hint else "")
        raise ValueError(msg)
    if pin is not None and not (isinstance(pin, str) and len(pin) == _DIGITS and _HEX.issuperset(pin)):
        msg = f"sha256 must be {_DIGITS} hexadecimal digits in lower case"
        raise ValueError(msg)
    if origin == "url" and pin is None:
        msg = f"{_an(word)} from a url needs sha256: what it leads to is only fetched when it is needed"
        raise ValueError(msg)
    what = body[origin]
    if origin == "files":
        return ContentSpec(word, origin, _named(what, read), pin or "")
    if not isinstance(what, str) or (not what and origin != "text"):
        msg = f"{origin} of {_an(word)} must be a text"
        raise ValueError(msg)
    return ContentSpec(word, origin, what, pin or "")


def _an(word: str) -> str:
    return f"an {word}"


def _named(files: Any, read: Callable[[ContentSpec], Content]) -> tuple[tuple[str, Content], ...]:
    """Give the contents of a literal archive by name, each made as it is met."""
    if not isinstance(files, dict):
        msg = "files of an archive must be a mapping of names to assets and archives"
        raise ValueError(msg)  # noqa: TRY004 - a sentence for people
    found: dict[str, Content] = {}
    for spelt, item in files.items():
        name, content = member_name(spelt), build_contents(item, read)
        if not isinstance(content, Content):
            msg = f"'{spelt}' in an archive must be {{asset: ...}} or {{archive: ...}}"
            raise ValueError(msg)  # noqa: TRY004 - a sentence for people
        if name in found:
            msg = f"'{name}' is in the archive twice"
            raise ValueError(msg)
        found[name] = content
    return tuple(sorted(found.items()))


def spell_contents(value: Any) -> Any:
    """Give ``value`` with every asset and archive in it as a manifest spells it: what ``made`` takes."""
    if isinstance(value, Content):
        given = {name: spell_contents(each) for name, each in value.given} if value.origin == "files" else value.given
        return {value.word: {value.origin: given, **({"sha256": value.sha256} if value.origin == "url" else {})}}
    if isinstance(value, dict):
        return {key: spell_contents(item) for key, item in value.items()}
    return [spell_contents(item) for item in value] if isinstance(value, list) else value


def text_of(value: Any) -> str | Sensitive[str] | None:
    """Give the text of an asset of text, a secret's as a secret; None for anything else."""
    if type(value) is Sensitive:
        text: Any = text_of(value.reveal())
        return None if text is None else Sensitive(text)
    return value.text if type(value) is Asset else None


def member_name(spelt: str) -> str:
    """Give the name of a member as a relative path without needless slashes and dots; empty for the top itself.

    Raises ``ValueError`` for one that leads out of the directory, or that no file can have.
    """
    parts = [part for part in spelt.split("/") if part not in {"", "."}]
    if spelt.startswith("/") or ".." in parts or "\0" in spelt:
        msg = f"the name {spelt!r} leads out of the archive's directory"
        raise ValueError(msg)
    if any(len(part.encode("utf-8", "surrogateescape")) > _LONGEST_NAME for part in parts):
        msg = f"the name {spelt[:_LONGEST_NAME]!r}... is too long for a file"
        raise ValueError(msg)
    return "/".join(parts)


def link_stays_inside(name: str, target: str) -> bool:
    """Whether a link called ``name`` that leads to ``target`` stays within its archive, whatever other links are in it.

    It may go up first and then down: behind a name that is a link itself, going up would lead anywhere.
    """
    parts = [part for part in target.split("/") if part not in {"", "."}]
    up = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
    plain = target != "" and not target.startswith("/") and "\0" not in target
    return plain and up <= name.count("/") and ".." not in parts[up:]
