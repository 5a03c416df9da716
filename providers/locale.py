"""Read and edit ``/etc/locale.gen``; build the missing locales, and nothing else."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lib import file_parts, prerequisites
from lib.sensitive import refused_secrets
from resource_api import BaseProvider, Command, Problem, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from resource_api import Change, Context, Resource

LIST = "/etc/locale.gen"
ARCHIVE = "/usr/lib/locale"
ALIASES = "/usr/share/locale/locale.alias"
#: The directories with sources of locales; the administrator's comes first, as for locale-gen(8).
SOURCES = ("/usr/local/share/i18n/locales", "/usr/share/i18n/locales")
CHARSETS = "/usr/share/i18n/charmaps"
SUPPORTED = "/usr/share/i18n/SUPPORTED"
#: Language and territory, character set, modifier.
PARTS = re.compile(r"([^.@]+)(?:\.([^@]+))?(?:@(.+))?")


class Provider(BaseProvider):
    """The locales of the local machine."""

    locale = Command("locale")
    localedef = Command("localedef", timeout=600)
    sync = Command("sync", timeout=600)

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write UTF-8 as in /etc/locale.gen, from which ``get`` reads: ``de_DE.utf8`` is the same locale."""
        for resource in resources:
            if "name" in resource:
                resource["name"] = _canonical(resource["name"])
            if resource.get("charset") is not None:
                resource["charset"] = _canonical_charset(resource["charset"])
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse a locale without a character set, as it cannot be built."""
        yield from refused_secrets(should)
        name = should.get("name")
        if should.get("ensure") != "absent" and isinstance(name, str) and _charset(name, should) is None:
            yield Problem("charset", "charset is needed where the name has none")

    def insync(
        self, _context: Context, _name: str, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> tuple[bool, str] | None:
        """Count a locale that is listed but not built as different, as no program can use it."""
        if attribute == "ensure" and should["ensure"] == "present" and not is_["built"]:
            return False, "is listed, but not built"
        return None

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Return the locales in /etc/locale.gen, and of ``names`` also built ones that are not listed.

        A built locale without a line in that file must have a row, so that it can be removed.
        """
        built = self._built()
        listed = dict(filter(None, map(_entry, files.read_lines(LIST))))
        requested = listed if names is None else names
        rows = []
        for name in requested:
            is_built = _normalized(name) in built
            if name in listed:
                rows.append({"ensure": "present", "name": name, "charset": listed[name], "built": is_built})
            elif is_built:
                rows.append({"ensure": "present", "name": name, "built": True})
        yield from context.accepted(rows)

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield the missing prerequisites of a build: the locale's source and its character set."""
        for name, should in changes.items():
            if should["ensure"] == "present" and (reason := _missing(name, should)):
                yield name, Problem("name", reason, needs="Package[locales]")
        yield from prerequisites.written_in_place(dict.fromkeys(changes, LIST))

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Remove or build each locale, and then list or unlist it in /etc/locale.gen: only built ones are listed."""
        built = self._built()
        locales: dict[str, Mapping[str, Any] | None] = {}
        for name, (is_, should) in changes.items():
            with context.processing(name, is_, should):
                if should["ensure"] == "absent":
                    charset = (is_ or {}).get("charset")
                    self._delete([spelling for key, spelling in built.items() if _is_removed_with(key, name, charset)])
                    locales[name] = None
                else:
                    self._build(name, is_ or {}, should)
                    locales[name] = should
        if locales:
            # Before the list: after a crash it must not contain a locale whose files are lost.
            self.sync("-f", "--", ARCHIVE)
            file_parts.edit_file(LIST, lambda lines: edit(lines, locales))

    def _delete(self, spellings: list[str]) -> None:
        """Remove built locales by their names in the archive."""
        if spellings:
            self.localedef("--delete-from-archive", *spellings, env={"LC_ALL": "C"})

    def _build(self, name: str, is_: Mapping[str, Any], should: Mapping[str, Any]) -> None:
        """Build a locale. Raise ``ResourceError`` if it does not exist then, or has the former character set.

        The exit code is no proof: warnings have one too, and a full disk has none.
        """
        if reason := _missing(name, should):
            raise ResourceError(reason)
        options = ("--replace", "--force", "--inputfile", _source(name), "--charmap", str(_charset(name, should)))
        result = self.localedef.attempt(*options, "--alias-file", ALIASES, "--", name, env={"LC_ALL": "C"})
        # A locale of that name may be there still, with the character set until now.
        former = is_.get("charset") if is_.get("built") else None
        is_former = former not in {None, _charset(name, should)} and self._charmap(name) == _code_set(str(former))
        if is_former or _normalized(name) not in self._built():
            errors = [line for line in result.stderr.splitlines() if "[warning]" not in line]
            raise ResourceError(f"localedef did not build it: {'; '.join(errors)}")

    def _charmap(self, name: str) -> str:
        """Return the character set of a built locale, by the name in its own description."""
        return self.locale("charmap", env={"LC_ALL": name}).stdout.strip()

    def _built(self) -> dict[str, str]:
        """Return the locales that programs can use: the normal form of each name, and the name as printed."""
        return {_normalized(name): name for name in self.locale("-a", env={"LC_ALL": "C"}).stdout.split()}


def edit(lines: files.Lines, states: Mapping[str, Mapping[str, Any] | None]) -> None:
    """Edit the lines of /etc/locale.gen: list locales, and remove the lines of those whose state is None.

    Most lines are comments with a supported locale, which lose their ``#`` or get it back.
    """
    removes = None in states.values()
    supported = {" ".join(line.split()) for line in files.read_lines(SUPPORTED)} if removes else set()
    for name, should in states.items():
        numbers = [number for number, line in enumerate(lines) if (_entry(line) or ("",))[0] == name]
        if should is None:
            _unlist(lines, numbers, supported)
        else:
            _list(lines, numbers, (name, str(_charset(name, should))))


def _list(lines: files.Lines, numbers: list[int], entry: tuple[str, str]) -> None:
    """Write exactly one line for a locale: replace its first present line, else a comment with it, or add a line.

    ``numbers`` are those of its present lines, whose repetitions are removed.
    """
    comments = [number for number, line in enumerate(lines) if line.lstrip("# \t").split() == list(entry)]
    first = next(iter(numbers + comments), None)
    if first is None:
        lines.append(" ".join(entry))
    elif _entry(lines[first]) != entry:
        lines[first] = " ".join(entry)
    lines.delete(numbers[1:])


def _unlist(lines: files.Lines, numbers: list[int], supported: Collection[str]) -> None:
    """Remove the lines of a locale; one that the system supports becomes a comment again, as most lines are."""
    texts = {number: " ".join(lines[number].split()) for number in numbers}
    for number, text in texts.items():
        if text in supported:
            lines[number] = f"# {text}"
    lines.delete(number for number, text in texts.items() if text not in supported)


def _entry(line: str) -> tuple[str, str] | None:
    """Return the locale and the character set of a line, spelled as in a declaration, or None for any other line."""
    words = line.split()
    if len(words) != 2 or words[0].startswith("#"):  # noqa: PLR2004 - see above
        return None
    return _canonical(words[0]), _canonical_charset(words[1])


def _canonical(name: str) -> str:
    """Return the name of a locale with its UTF-8 spelled as in /etc/locale.gen: ``de_DE.UTF-8`` for ``de_DE.utf8``."""
    base, charset, modifier = _split(name)
    if charset is None or _canonical_charset(charset) != "UTF-8":
        return name
    return f"{base}.UTF-8{f'@{modifier}' if modifier else ''}"


def _canonical_charset(charset: str) -> str:
    """Return the name of a character set as /etc/locale.gen has it."""
    return "UTF-8" if charset.lower() in {"utf8", "utf-8"} else charset


def _split(name: str) -> tuple[str, str | None, str | None]:
    """Return the parts of a name: language and country, character set or None, modifier or None."""
    parts = PARTS.fullmatch(name)
    return (parts[1], parts[2], parts[3]) if parts else (name, None, None)


def _charset(name: str, should: Mapping[str, Any]) -> str | None:
    """Return the declared character set, or that in the name."""
    return should.get("charset") or _split(name)[1]


def _normalized(name: str) -> str:
    """Return a name as the C library compares it, to find it among the built ones: ``de_DE.utf8`` for ``de_DE.UTF-8``.

    Of the character set only letters and digits count; a number such as ``8859-1`` is one of ISO.
    """
    base, charset, modifier = _split(name)
    plain = re.sub(r"[^a-z0-9]", "", (charset or "").lower())
    plain = f"iso{plain}" if plain.isdigit() else plain
    return f"{base}{f'.{plain}' if plain else ''}{f'@{modifier}' if modifier else ''}"


def _is_removed_with(built: str, name: str, listed: str | None) -> bool:
    """Return whether a built locale, by its normalized name, is removed with the locale ``name``.

    ``de_DE`` is built as itself and, for its charset in /etc/locale.gen (``listed``, None for any), as ``de_DE.utf8``;
    any further charset makes another locale.
    """
    base, charset, modifier = _split(name)
    built_base, _, built_modifier = _split(built)
    if built == _normalized(name):
        return True
    if listed is not None:
        return charset is None and built == _normalized(f"{base}.{listed}{f'@{modifier}' if modifier else ''}")
    return charset is None and (built_base, built_modifier) == (base, modifier)


def _source(name: str) -> str:
    """Return the path of the source from which localedef builds a locale, or "" if there is none.

    The source of ``de_DE.UTF-8@euro`` is mostly ``de_DE@euro``: one for all character sets.
    """
    base, _, modifier = _split(name)
    candidates = [name, f"{base}@{modifier}" if modifier else base]
    paths = [f"{directory}/{candidate}" for candidate in candidates for directory in SOURCES]
    return next((path for path in paths if os.path.isfile(path)), "")  # noqa: PTH113 - a text


def _code_set(charset: str) -> str:
    """Return the name of a character set in its own description, as ``locale charmap`` prints it for a built locale.

    A failed build is recognized by it: the locale then still has the former character set.
    """
    import gzip  # slow to import, and needed for changes only

    for path, reader in ((f"{CHARSETS}/{charset}", open), (f"{CHARSETS}/{charset}.gz", gzip.open)):
        with suppress(OSError), reader(path, "rb") as file:
            line = next((line for line in file if line.startswith(b"<code_set_name>")), b"")
            return line.split()[-1].decode("ascii", "replace") if line else charset
    return charset


def _missing(name: str, should: Mapping[str, Any]) -> str:
    """Return the reason why a locale cannot be built, or "", so that a plan shows it before ``set``."""
    charset = _charset(name, should)
    if not _source(name):
        return f"there is no source of it in {SOURCES[1]}"
    if not any(os.path.isfile(f"{CHARSETS}/{charset}{suffix}") for suffix in ("", ".gz")):  # noqa: PTH113 - a text
        return f"there is no character set '{charset}' in {CHARSETS}"
    return ""
