"""The result of a rehearsal: its verdicts, as values, as text and as JSON."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest.yaml_scalar import quote
from resource_api.model.values.errors import ResourceAPIError
from resource_api.model.values.start_up import NamedTuple, regex
from resource_api.model.values.text import escape
from resource_api.rehearse import side_effects
from resource_api.render.text import verdict_mark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from resource_api.model.step import Step
    from resource_api.rehearse.side_effects import Effect

_FORMAT: Final = 1
_GAP: Final = "  "
#: On a terminal, the widest question beside which findings stand, and the fewest columns that they need.
_WIDEST_QUESTION: Final = 40
_LEAST_ROOM: Final = 30
#: Text to paste into a manifest, as ``needs`` returns it.
_TEXT_TO_PASTE: Final = regex(r"needs 'require: .+?\][\"']?'")
#: No text contains it, because control characters are escaped.
_NO_BREAK: Final = "\0"
#: Findings of a verdict in its line of the table.
_MOST_FINDINGS: Final = 3


class RehearsalError(ResourceAPIError):
    """A rehearsal could not be ended; nothing of it is left."""


class Finding(NamedTuple):
    """One problem that a rehearsal found."""

    reference: str
    text: str
    #: The attribute, or "".
    attribute: str = ""
    #: The position of the declaration, ``site.yaml:14``, or "".
    place: str = ""

    def __str__(self) -> str:
        """Return the first line of the finding, with its position."""
        line = f"{self.reference}: {self.text}".partition("\n")[0]
        return line + (f" ({self.place})" if self.place else "")


def finding(step: Step, text: str, attribute: str = "") -> Finding:
    """Return a finding about a step, or about an attribute of it, with its position in the manifest."""
    declaration = step.entry.declaration
    position = declaration.place(attribute) if attribute else declaration.place()
    return Finding(str(step.reference), text, attribute, position.line_text)


def needs(reference: str) -> str:
    """Return that a relationship to ``reference`` is needed, as text to paste into a manifest."""
    plain = not (": " in reference or " #" in reference)
    return f"needs 'require: {reference if plain else quote(reference)}'"


class Verdict(NamedTuple):
    """The answer to one question about a manifest."""

    question: str
    ok: bool
    #: The measurement behind the answer, where there is no finding.
    text: str = ""
    findings: Sequence[Finding] = ()


class Rehearsal(NamedTuple):
    """The result of a rehearsal."""

    verdicts: Sequence[Verdict]
    side_effects: Sequence[Effect]
    #: Resources that act outside of the machine's files, and their planned changes.
    not_rehearsed: Sequence[Finding]
    #: The exit code of the signal that interrupted the rehearsal, or 0.
    interrupted: int = 0
    #: Resources that could not be damaged, and why.
    not_damaged: Sequence[Finding] = ()
    #: The document of the first run, as ``report --format json`` prints it, or None.
    run: Mapping[str, object] | None = None

    @property
    def ok(self) -> bool:
        """Whether every verdict is good."""
        return self.exit_code == 0

    @property
    def exit_code(self) -> int:
        """0: all well; 1: the run failed; 2: it works, but another verdict is bad; 128 + N after signal N."""
        if self.interrupted:
            return self.interrupted
        bad = [verdict for verdict in self.verdicts if not verdict.ok]
        if not bad:
            return 0
        return 1 if bad[0] is self.verdicts[0] else 2  # the first verdict is the run's

    def __str__(self) -> str:
        """Return the text of the report, for the message of an assertion."""
        return "\n".join(self.lines())

    def with_verdict(self, verdict: Verdict) -> Rehearsal:
        """Return this result with one verdict more."""
        return self._replace(verdicts=[*self.verdicts, verdict])

    def verdict(self, question: str) -> Verdict:
        """Return the verdict on a question: ``run``, ``silent twice``, … Raise ``LookupError``."""
        for verdict in self.verdicts:
            if verdict.question == question:
                return verdict
        raise LookupError(question)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a JSON document, for ``--format json``; named tuples become mappings."""
        verdicts = [{**entry._asdict(), "findings": [f._asdict() for f in entry.findings]} for entry in self.verdicts]
        effects = [{**entry._asdict(), "references": list(entry.references)} for entry in self.side_effects]
        return {
            "format_version": _FORMAT,
            "verdicts": verdicts,
            "side_effects": effects,
            "not_rehearsed": [entry._asdict() for entry in self.not_rehearsed],
            "not_damaged": [entry._asdict() for entry in self.not_damaged],
            "run": self.run,
            "exit_code": self.exit_code,
        }

    def lines(self, width: int | None = None) -> Iterator[str]:
        """Yield the side effects and the table of verdicts, in lines of ``width`` columns; None: any width."""
        if self.interrupted and not self.verdicts:
            yield "Interrupted before anything was known; nothing of the rehearsal is left."
            return
        yield from _section(
            "Beyond what is declared", list(side_effects.lines(self.side_effects)) or ["nothing"], width
        )
        if self.not_rehearsed:
            title = "Not rehearsed, because it acts outside of the machine's files"
            yield from _section(title, map(str, self.not_rehearsed), width)
        if self.not_damaged:
            yield from _section("Not damaged", map(str, self.not_damaged), width)
        if not self.verdicts:
            return
        yield ""
        yield "Verdicts:"
        sizes = [len(escape(verdict.question)) for verdict in self.verdicts]
        widest = max(size for size in sizes if width is None or size <= _WIDEST_QUESTION)
        for verdict in self.verdicts:
            yield from _verdict_lines(verdict, widest, width)


def _section(title: str, texts: Iterable[str], width: int | None) -> Iterator[str]:
    """Yield the lines of a part of the report: an empty one, a title with a colon, and the texts, indented."""
    yield ""
    yield from _wrapped("", f"{title}:", width, "")
    for text in texts:
        yield from _wrapped(_GAP, escape(text), width, f"{_GAP}{_GAP}")


def _verdict_lines(verdict: Verdict, widest: int, width: int | None) -> Iterator[str]:
    """Yield the lines of a verdict: question (in ``widest`` columns) and mark, then its findings or its text.

    These stand beside the mark. They begin on the next line, less indented, after a question wider than the column, or
    if they do not fit into fewer than ``_LEAST_ROOM`` columns that the terminal leaves beside it.
    """
    question = escape(verdict.question)
    head = f"{_GAP}{question:{widest}}{_GAP}{verdict_mark(verdict.text, ok=verdict.ok):2}"
    texts = [escape(str(text)) for text in verdict.findings[:_MOST_FINDINGS]] or [escape(verdict.text)]
    if len(verdict.findings) > _MOST_FINDINGS:
        texts.append(f"and {len(verdict.findings) - _MOST_FINDINGS} more")
    indent = " " * (widest + 2 + 3 * len(_GAP))
    room = _LEAST_ROOM if width is None else width - len(indent)
    if len(question) > widest or (room < _LEAST_ROOM and max(map(len, texts)) > room):
        # The findings do not fit beside the question.
        yield from _wrapped("", head, width, f"{_GAP}{_GAP}")
        head, indent = "", f"{_GAP}{_GAP}"
    for text in texts:
        yield from _wrapped(f"{head}{_GAP}" if head else indent, text, width, indent)
        head = ""


def _wrapped(start: str, text: str, width: int | None, indent: str) -> Iterator[str]:
    """Yield a text in lines of up to ``width`` columns: the first behind ``start``, the others behind ``indent``.

    Text to paste and paths are not broken. ``width``: None for one line.
    """
    if width is None or len(start) + len(text) <= width:
        yield f"{start}{text}".rstrip()
        return
    # Text to paste stays whole: a character that is no white space replaces each of its spaces.
    whole = _TEXT_TO_PASTE.sub(lambda match: match[0].replace(" ", _NO_BREAK), text)
    lines = textwrap.wrap(
        whole, width, initial_indent=start, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    yield from (line.replace(_NO_BREAK, " ") for line in lines)
