"""Masks known secret values, in all their written forms, in texts that leave the process.

The first protection of secrets is the ``Sensitive`` type; this one covers the output of programs and the texts of
exceptions. ``docs/secrets.md`` lists the forms in which a secret is recognized. Streams are for ``system.log``.

A text is searched by windows of five bytes, at every eighth byte. All windows that the known forms can show there are
in one set, and nearly every text has none of them. Searching many texts together costs least. (They are bytes and not
integers, of which the hashes collide.)
"""

from __future__ import annotations

import json
import re
from binascii import b2a_base64
from bisect import bisect
from functools import cache
from itertools import accumulate, chain, groupby
from struct import Struct
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, quote_plus

from resource_api.model.values.assets import Content
from resource_api.model.values.start_up import regex
from resource_api.model.values.values import Sensitive, leaves, map_leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from types import ModuleType

    #: The first character of a secret in a text, and the one after its last.
    Span = tuple[int, int]


_MASKED: Final = "<sensitive>"
#: Shorter secrets would mask ordinary words.
_SHORTEST: Final = 6
#: An input of fewer characters cannot be masked at all; one below ``_SHORTEST`` is masked where it is a whole word.
SHORTEST_INPUT: Final = 4
#: A run of this many characters is masked ...
_RUN: Final = 12
#: ... if it is from a secret of this many, without white space.
_SHORTEST_WITH_RUNS: Final = 24
#: Bytes of a window, and from one window of a text to the next.
_WINDOW: Final = 5
_STEP: Final = 8
#: Windows that are searched at once.
_BLOCK: Final = 64
#: Fewer bytes may contain no whole window at a multiple of ``_STEP``; a run always contains one.
_SHORTEST_WINDOWED: Final = _WINDOW + _STEP - 1
#: Escapes are undone at most so often: JSON in JSON is two.
_NESTED: Final = 2
#: The longest form of a secret in lengths of the secret.
_WIDEST: Final = 6


class Mask:
    """The secret values of a run; a call returns a text in which each of them is ``<sensitive>``.

    Without ``runs`` secrets are found only as a whole.
    """

    def __init__(self, *, runs: bool = True) -> None:
        """Start without secrets; ``runs``: mask also parts of long secrets, of at least ``_RUN`` characters.

        A form is a spelling of a secret; a window is five bytes of a form, by which texts are searched.
        """
        self._with_runs = runs
        #: The secrets, and whether each was declared as an input.
        self._secrets: set[tuple[str, bool]] = set()
        #: Those that may not be in the index yet; it is built when a text is masked. Several threads may do so at once:
        #: each adds the same, and secrets that another thread adds meanwhile are still pending.
        self._pending: dict[tuple[str, bool], None] = {}
        #: All windows of runs, and the first ones of every other form.
        self._windows: set[bytes] = set()
        #: The forms that begin before a window, and by how many bytes.
        self._forms: dict[bytes, list[tuple[bytes, int]]] = {}
        #: The texts of which runs are masked, and the runs of the texts up to a count.
        self._run_texts: list[str] = []
        self._runs: tuple[int, set[str]] = (0, set())
        #: Forms that are too short for a window, forms that count as whole words only, and the pattern for their count.
        self._short: set[str] = set()
        self._words: set[str] = set()
        self._pattern: tuple[int, re.Pattern[str] | None] = (0, None)
        #: Is called with each new secret, and whether it was declared as an input.
        self.on_secret: Callable[[str, bool], object] | None = None
        #: The length in bytes of the longest form.
        self.longest = 0

    def add(self, value: object) -> None:
        """Add every secret in ``value``, at any depth."""
        for text in _secret_texts(value):
            self.learn(text, declared=False)

    def add_inputs(self, value: object) -> None:
        """Add every secret in inputs, from four characters on, and runs of each line of a long one."""
        for text in _secret_texts(value):
            self.learn(text, declared=True)

    def learn(self, text: str, *, declared: bool) -> None:
        """Add one secret, unless it is too short to be masked; ``declared``: it is an input of the manifest."""
        secret = text, declared
        # The masked forms of an input include those of any other secret.
        if len(text) >= SHORTEST_INPUT and self._secrets.isdisjoint((secret, (text, True))):
            self._secrets.add(secret)
            self.longest = max(self.longest, _WIDEST * len(text.encode("utf-8", "surrogatepass")))
            self._pending[secret] = None
            if self.on_secret is not None:
                self.on_secret(text, declared)

    def covers(self, value: object) -> bool:
        """Return whether each secret in ``value``, added before, is masked: a short one only if it is an input."""
        short = (text for text in _secret_texts(value) if 0 < len(text) < _SHORTEST)
        return all((text, True) in self._secrets for text in short)

    def __bool__(self) -> bool:
        """Whether there is any secret."""
        return bool(self._secrets)

    def __call__(self, text: str) -> str:
        """Return ``text`` with every secret in it replaced by ``<sensitive>``."""
        if not self._secrets or self._is_plain_line(text):
            return text
        pieces, position = list[str](), 0
        for start, end in _merged(self._spans(text)):
            pieces += text[position:start], _MASKED
            position = end
        return "".join(pieces) + text[position:]

    def _is_plain_line(self, text: str) -> bool:
        """Return whether a line certainly contains no secret, by one fast look at its windows; False if not certain.

        Nearly all lines end here. A line of several blocks, with escapes or beyond ASCII takes the whole search.
        """
        count = (len(text) - _WINDOW) // _STEP + 1  # of the windows, at every eighth byte
        if self._pending or not 0 < count <= _BLOCK or _shifts_positions(text):
            return False
        pattern = self._pattern[1]
        return self._windows.isdisjoint(_unpacker(count)(text.encode(), 0)) and not (pattern and pattern.search(text))

    def document(self, value: object) -> Any:
        """Return a JSON document with every text in it masked; numbers and keys are kept, so that it stays valid."""
        return map_leaves(value, lambda leaf: self(leaf) if isinstance(leaf, str) else leaf) if self._secrets else value

    def boundary(self, text: str, position: int) -> int:
        """Return the first position from ``position`` on at which ``text`` can be cut without cutting a secret.

        The rest of a cut secret would be shown, because a part of it may not be recognized.
        """
        if self._secrets:
            position = next((end for start, end in _merged(self._spans(text)) if start < position < end), position)
        return position

    def _spans(self, text: str, nested: int = _NESTED) -> list[Span]:
        """Return the positions of secrets in a text, also of those that are escaped, up to ``nested`` times.

        Secrets that were added since the last call are put into the index first.
        """
        if self._pending:
            self._build()
        data = text.encode("utf-8", "surrogatepass")
        spans = list(self._spans_at(hits, text, data)) if (hits := self._hits(data)) else []
        if (pattern := self._pattern[1]) is not None:
            spans += [match.span() for match in pattern.finditer(text)]
        if nested and _may_have_escapes(text):
            for escape in ESCAPES:
                spans += self._spans_under(escape, text, nested - 1)
        return spans

    def search(self, texts: Sequence[str]) -> set[int]:
        """Return the indexes of the texts that contain a secret; all are searched together, which is faster."""
        if not self._secrets:
            return set()
        joined = "\n".join(texts)
        if not _shifts_positions(joined):
            return self._search_joined(joined, texts)
        # Texts whose positions would shift are searched one by one.
        special = {index for index, text in enumerate(texts) if _shifts_positions(text)}
        rest = ["" if index in special else text for index, text in enumerate(texts)]
        return {*self._search_joined("\n".join(rest), rest), *(index for index in special if self._spans(texts[index]))}

    def _search_joined(self, joined: str, texts: Sequence[str]) -> set[int]:
        """Return the indexes of the ``texts`` that contain a secret; all are plain ASCII, in ``joined`` by line."""
        spans = self._spans(joined, 0)
        ends = list(accumulate(len(text) + 1 for text in texts)) if spans else []
        # Only the texts with a span are searched again, one by one: a span over the end of a text is no secret.
        indexes = {bisect(ends, start) for start, _ in spans} | {bisect(ends, end - 1) for _, end in spans}
        return {index for index in indexes if self._spans(texts[index], 0)}

    def _spans_under(self, escape: Escape, text: str, nested: int) -> list[Span]:
        """Return the positions of secrets that are found in a text only after undoing one kind of escapes.

        ``nested``: how many more levels are undone.
        """
        plain = escape.undo(text)
        if plain == text or not (spans := self._spans(plain, nested)):
            return []
        origins = escape.origins(text)
        return [(origins[start][0], origins[end - 1][1]) for start, end in spans]

    def _hits(self, data: bytes) -> list[int]:
        """Return the positions of windows of ``data`` that a form of a secret has too: secrets can only be there."""
        windows, hits = self._windows, list[int]()
        for start in range(0, len(data) - _WINDOW + 1, _BLOCK * _STEP):
            block = _windows(data, start)
            if not windows.isdisjoint(block):
                hits += [start + _STEP * index for index, window in enumerate(block) if window in windows]
        return hits

    def _spans_at(self, hits: Iterable[int], text: str, data: bytes) -> Iterator[Span]:
        """Yield the spans of whole forms, and of runs, around the windows at ``hits``; ``data`` is the text in UTF-8.

        A window of five bytes alone may be no part of a secret: at each hit the forms with this window are compared as
        a whole, and so is every part of the text that includes the window and is as long as a run.
        """
        is_ascii = len(text) == len(data)  # then a position in ``data`` is one in ``text``
        for position in hits:
            for form, offset in self._forms.get(data[position : position + _WINDOW], ()):
                start = position - offset
                if start >= 0 and data.startswith(form, start):
                    first = start if is_ascii else _characters(data[:start])
                    yield first, first + _characters(form)
        if self._run_texts:
            runs = self._indexed_runs()
            around = (range(max(0, position + _WINDOW - _RUN), position + 1) for position in hits)
            starts = chain.from_iterable(around) if is_ascii else range(len(text))
            yield from ((start, start + _RUN) for start in starts if text[start : start + _RUN] in runs)

    def _indexed_runs(self) -> set[str]:
        """Return all runs, the parts of ``_RUN`` characters of long secrets; collect those of new secrets first.

        This happens only at a text that may contain one, because a long key has very many runs.
        """
        count, runs = self._runs
        if count < len(self._run_texts):
            new, runs = self._run_texts[count:], set(runs)
            for secret in new:
                runs.update(secret[i : i + _RUN] for i in range(len(secret) - _RUN + 1))
            self._runs = count + len(new), runs
        return runs

    def _build(self) -> None:
        """Put the pending secrets into the index by which texts are searched.

        Threads may do so at the same time, as each adds the same.
        """
        pending = list(self._pending)
        for text, declared in pending:
            self._index(text, declared=declared)
        # The pattern is made of all short forms. If another thread has added some meanwhile, it is made again.
        while (count := len(self._short) + len(self._words)) != self._pattern[0]:
            self._pattern = count, _pattern(list(self._short), list(self._words))
        for secret in pending:
            self._pending.pop(secret, None)

    def _index(self, text: str, *, declared: bool) -> None:
        """Put the windows of each form of a secret into the index; forms too short for a window go into the pattern.

        ``declared``: the secret is an input, which is masked as a whole word even if it is too short to be masked
        within other words.
        """
        if declared and len(text) < _SHORTEST:
            self._words.add(text)
        encodings = encoded(text)
        runs = _forms_with_runs(text, encodings, declared=declared) if self._with_runs else set[str]()
        self._index_runs(runs)
        # A form in ``runs`` needs no entry of its own: all its parts are masked.
        for form in (written(text) | encodings) - runs:
            data = form.encode("utf-8", "surrogatepass")
            if len(data) >= _SHORTEST_WINDOWED:
                self._index_form(data)
            elif len(form) >= _SHORTEST:
                self._short.add(form)

    def _index_form(self, data: bytes) -> None:
        """Add a form's windows at its first ``_STEP`` bytes.

        Texts are searched only at multiples of ``_STEP``, for speed. Wherever the form begins in a text, one of its
        first ``_STEP`` bytes is at such a position, and so is the window there.
        """
        for offset in range(_STEP):
            window = data[offset : offset + _WINDOW]
            self._windows.add(window)
            forms = self._forms.setdefault(window, [])
            if (data, offset) not in forms:
                forms.append((data, offset))

    def _index_runs(self, texts: Collection[str]) -> None:
        """Add all windows of texts of which any run of characters is masked, such as a part of a long key.

        A run may begin anywhere in the text, so that the first windows alone would not find it.
        """
        # Together, because that is faster; windows across a line end only cost a look at the texts with them.
        data = "\n".join(texts).encode("utf-8", "surrogatepass")
        for start in range(min(_STEP, len(data) - _WINDOW + 1)):
            for block in range(start, len(data) - _WINDOW + 1, _BLOCK * _STEP):
                self._windows.update(_windows(data, block))
        self._run_texts += texts


def _secret_texts(value: object) -> Iterator[str]:
    """Yield the text of every secret in ``value``, at any depth, to mask it.

    A Boolean has none, since every ``true`` would be masked.
    """
    for _, leaf in leaves(value):
        if isinstance(leaf, Sensitive):
            yield from _texts(leaf.reveal())


def _forms_with_runs(text: str, encodings: set[str], *, declared: bool) -> set[str]:
    """Return the forms of a secret of which also any part of ``_RUN`` characters (a run) is masked.

    They are the text and its encodings, and the lines of an input (``declared``), such as those of a private key. A
    form with white space has none: parts of sentences would mask ordinary text.
    """
    if len(text) < _SHORTEST_WITH_RUNS:
        return set()
    lines = map(str.strip, [text, *text.splitlines()] if declared else [text])
    # ``split`` finds the white space.
    forms = {line for line in lines if len(line) >= _SHORTEST_WITH_RUNS and line.split() == [line]}
    return forms | encodings if len(text) <= LONG else forms


def _texts(secret: object) -> Iterator[str]:
    """Yield the texts in a secret value; of an asset or archive its digest and its source."""
    for _, leaf in leaves(secret):
        if isinstance(leaf, Content):
            yield from _texts([leaf.sha256, leaf.source])
        elif isinstance(leaf, (str, bytes, int, float)) and not isinstance(leaf, bool):
            yield leaf.decode("utf-8", "surrogateescape") if isinstance(leaf, bytes) else str(leaf)


def _windows(data: bytes, start: int) -> tuple[bytes, ...]:
    """Return the windows of the block at ``start``: one call for all of them."""
    return _unpacker(min(_BLOCK, (len(data) - start - _WINDOW) // _STEP + 1))(data, start)


@cache
def _unpacker(count: int) -> Callable[[bytes, int], tuple[bytes, ...]]:
    """Return the function that reads ``count`` windows from a position: five bytes each, then three to skip."""
    return Struct(f"{_WINDOW}s" + f"{_STEP - _WINDOW}x{_WINDOW}s" * (count - 1)).unpack_from


def _shifts_positions(text: str) -> bool:
    """Return whether the positions of secrets in a text may differ from those in its bytes or behind its escapes."""
    return not text.isascii() or _may_have_escapes(text)


def _may_have_escapes(text: str) -> bool:
    """Return whether one of ``ESCAPES`` may match, before they are undone, which is slow and mostly for nothing.

    A search for ``''`` is slower than one for ``'``, which most texts lack.
    """
    return (
        "\\" in text or "%" in text or "&" in text or ("'" in text and "''" in text) or ('"' in text and '""' in text)
    )


def _characters(data: bytes) -> int:
    """Return the number of characters that begin in ``data``."""
    return len(data) if data.isascii() else len(data.decode("utf-8", "surrogatepass"))


def _merged(spans: Iterable[Span]) -> Iterable[Span]:
    """Yield spans in their order, overlapping ones joined, so that each part of a text is replaced only once."""
    start = end = -1
    for first, last in sorted(spans):
        if first < end:
            end = max(end, last)
            continue
        if end > 0:
            yield start, end
        start, end = first, last
    if end > 0:
        yield start, end


def _pattern(short: list[str], words: list[str]) -> re.Pattern[str]:
    """Return a pattern of forms too short for the index, and of words that are masked only where they stand alone.

    Among forms with the same two first characters the longest come first, so that a match masks all of a secret.
    """
    alternatives = [_any_of(sorted(short, key=lambda form: (form[:2], -len(form))))] if short else []
    if words:
        alternatives.append(f"(?<![0-9A-Za-z])(?:{'|'.join(map(re.escape, sorted(words)))})(?![0-9A-Za-z])")
    return re.compile("|".join(alternatives))


def _any_of(forms: list[str]) -> str:
    """Return a regular expression of sorted texts, grouped by two characters, as alternatives are tried one by one."""
    groups = []
    for first, same_first in groupby(forms, key=lambda form: form[0]):
        inner = [
            f"{re.escape(second)}(?:{'|'.join(re.escape(form[2:]) for form in same_start)})"
            for second, same_start in groupby(same_first, key=lambda form: form[1])
        ]
        groups.append(f"{re.escape(first)}(?:{'|'.join(inner)})")
    return "|".join(groups)


#: Of a longer text only the usual forms are made; undoing the escapes of the searched text finds the others.
LONG: Final = 4096
_SEPARATORS: Final = (":", "-", " ", ",")
_URL_ALPHABET: Final = bytes.maketrans(b"+/", b"-_")


def written(text: str) -> set[str]:
    """Return the forms in which a text may be written with most of its characters as they are.

    They are the text, its lines, the form in logs with escapes for characters that cannot be printed, and, of a text
    that is not too long, the escaped forms of other languages.
    """
    forms = {text, text.strip(), *(line.strip() for line in text.splitlines())}
    if not text.isprintable():
        special = "".join(character for character in set(text) if not character.isprintable())
        forms.add(re.sub(f"[{special}]", lambda match: repr(match[0])[1:-1], text))
    # Of a very long text, further forms would cost more than they protect.
    return forms if len(text) > LONG else forms | _escaped_forms(text)


@cache
def _html() -> ModuleType:
    """Return the module ``html``, whose table of entities most runs do not need."""
    import html

    return html


def _escaped_forms(text: str) -> set[str]:
    """Return the forms of a text in URLs, in Python, JSON and HTML, and within quotes of YAML, SQL and shells."""
    data = text.encode("utf-8", "surrogateescape")
    quoted = {quote(data, safe=safe) for safe in ("/", "", "!'()*", ";,/?:@&=+$!'()*#")}
    quoted |= {quote_plus(data), quote_plus(data, safe="/")}
    quoted |= {re.sub("%..", lambda match: match[0].lower(), form) for form in quoted}  # %2f is also written
    return {
        # Each without its quotes.
        *(repr(text)[1:-1], ascii(text)[1:-1], json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]),
        # Python's bytes, HTML, YAML and SQL, and a shell's two ways to write a quote within quotes.
        *(repr(data)[2:-1], _html().escape(text), text.replace("'", "''"), text.replace("'", "'\"'\"'")),
        *(text.replace("'", r"'\''"), *quoted),
    }


def encoded(text: str) -> set[str]:
    """Return the forms of a text in which its characters are no longer seen: base64 and hexadecimal.

    Hexadecimal also as programs print it, such as ``6a:6b``, ``6a6b 6c6d`` of ``xxd``, and ``0x6A, 0x6B``.
    """
    data = text.encode("utf-8", "surrogateescape")
    base64 = {form for before in range(3) for form in _base64(data, before)}
    forms = {
        data.hex(),
        data.hex().upper(),
        *base64,
        *(form.encode().translate(_URL_ALPHABET).decode() for form in base64),
    }
    if len(text) > LONG:
        return forms
    pairs = {data.hex(separator) for separator in _SEPARATORS} | {data.hex(" ", -2)}
    pairs |= {data.hex(",").replace(",", separator) for separator in (", ", ",0x", ", 0x")}
    return {*forms, *pairs, *(form.upper().replace("X", "x") for form in pairs)}  # of 0x only the digits


def _base64(data: bytes, before: int) -> set[str]:
    """Return the base64 characters that depend on ``data`` alone if ``before`` more bytes (0 to 2) precede it.

    Base64 encodes three bytes at a time, so that a secret within a longer text has one of three forms. If nothing
    precedes it, the whole text is a form too, with the last character of a text that ends there.
    """
    whole = b2a_base64(b"\0" * before + data, newline=False).decode().rstrip("=")
    # A character has six bits: those with bits of the bytes before, or of bytes behind, are left out. With one byte
    # before, the first two characters contain bits of it: (8 * 1 + 5) // 6 = 2.
    return {whole[(8 * before + 5) // 6 : 8 * (before + len(data)) // 6], *([] if before else [whole])}


class Escape:
    """One kind of escapes: the pattern of one, and the text that it stands for."""

    def __init__(self, pattern: str, meaning: Callable[[str], str]) -> None:
        """Replace each match of ``pattern`` with its ``meaning``."""
        self._pattern = regex(pattern)
        self._meaning = meaning

    def undo(self, text: str) -> str:
        """Return a text without these escapes."""
        return self._pattern.sub(lambda match: self._meaning(match[0]), text)

    def origins(self, text: str) -> list[tuple[int, int]]:
        """Return for each character of ``undo(text)`` its span in ``text``, in which a secret must be masked."""
        spans, position = list[tuple[int, int]](), 0
        for match in self._pattern.finditer(text):
            spans += [(i, i + 1) for i in range(position, match.start())]
            spans += [match.span()] * len(self._meaning(match[0]))
            position = match.end()
        return spans + [(i, i + 1) for i in range(position, len(text))]


def _backslash(escape: str) -> str:
    """Return the text that a backslash escape stands for: of bytes in UTF-8, of code points, or a control character."""
    kind = escape[1]
    if len(escape) == len(r"\n"):
        return _CONTROLS.get(kind, kind)
    if kind == "x":
        return _bytes(bytes.fromhex(escape.replace("\\x", "")))
    if kind not in "uU":
        return _bytes(bytes(int(digits, 8) & 255 for digits in escape[1:].split("\\")))  # octal, as \303\274
    # One code point, or two halves of one in UTF-16, as in JSON.
    units = [chr(int(digits, 16)) for digits in re.split(r"\\[uU]", escape)[1:]]
    return units[0] if len(units) == 1 else "".join(units).encode("utf-16", "surrogatepass").decode("utf-16")


_CONTROLS: Final = {
    **dict(zip("nrtbfva0e", "\n\r\t\b\f\v\a\0\x1b", strict=True)),
    **dict(zip("N_LP", "\x85\xa0\u2028\u2029", strict=True)),
}
_BACKSLASHES: Final = (
    r"(?:\\x[89a-fA-F][0-9a-fA-F])+|\\x[0-9a-fA-F]{2}|(?:\\[23][0-7]{2})+|\\[01][0-7]{2}"
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}"
    r"|\\U00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4}|\\(?s:.)"
)


def _bytes(data: bytes) -> str:
    r"""Return bytes as UTF-8, or else each as a character: ``\xe9`` may be a byte, or the character é of ``ascii``."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


#: Escapes with a backslash (Python, JSON, YAML, shells), of URLs, of HTML and XML, and quotes within quotes.
ESCAPES: Final = (
    Escape(_BACKSLASHES, _backslash),
    Escape(r"%[0-7][0-9a-fA-F]|(?:%[89a-fA-F][0-9a-fA-F])+", lambda e: _bytes(bytes.fromhex(e.replace("%", "")))),
    Escape(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z0-9]{2,31});", lambda entity: str(_html().unescape(entity))),
    Escape(r"""'"'"'|'\\''|''|\"\"""", lambda match: match[0]),
)
