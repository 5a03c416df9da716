"""The result of a rehearsal: its verdicts, as values, as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest.yaml_scalar import quote
from resource_api.model.values._lazy_regex import regex
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ResourceAPIError
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
_PASTED: Final = regex(r"needs 'require: .+?\][\"']?'")
#: No text contains it, because control characters are escaped.
_NO_BREAK: Final = "\0"
#: What of a verdict is shown in a line of the table.
_MOST_FINDINGS: Final = 3


class RehearsalError(ResourceAPIError):
    """A rehearsal could not be ended; nothing of it is left."""


class Finding(NamedTuple):
    """One thing that is not as it should be."""

    reference: str
    text: str
    #: The attribute that it is about; empty: none.
    attribute: str = ""
    #: Where its resource is declared, ``site.yaml:14``; empty: not known.
    place: str = ""

    def __str__(self) -> str:
        """Return the finding as one line: of a text of several lines the first."""
        line = f"{self.reference}: {self.text}".partition("\n")[0]
        return line + (f" ({self.place})" if self.place else "")


def finding(step: Step, text: str, attribute: str = "") -> Finding:
    """Return a finding about a step, or about an attribute of it, with its line in the manifest."""
    place = step.entry.declaration.place(*([attribute] if attribute else []))
    return Finding(str(step.reference), text, attribute, place.line_text)


def needs(reference: str) -> str:
    """Return that a relationship to ``reference`` is needed, as text to paste into a manifest."""
    plain = not (": " in reference or " #" in reference)
    return f"needs 'require: {reference if plain else quote(reference)}'"


class Verdict(NamedTuple):
    """The answer to one question about a manifest."""

    question: str
    ok: bool
    #: What was found, for people, where that is no finding.
    text: str = ""
    findings: Sequence[Finding] = ()


class Rehearsal(NamedTuple):
    """The result of a rehearsal."""

    verdicts: Sequence[Verdict]
    side_effects: Sequence[Effect]
    #: What acts outside of the machine's files, and what would be changed of it.
    not_rehearsed: Sequence[Finding]
    #: What was interrupted has the exit code of the signal; 0: nothing was.
    interrupted: int = 0
    #: What could not be damaged, and why.
    not_damaged: Sequence[Finding] = ()
    #: The document of the first run, as ``report --format json`` prints it; None: it was not made.
    run: Mapping[str, Any] | None = None

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
        return 0 if not bad else 1 if bad[0] is self.verdicts[0] else 2

    def __str__(self) -> str:
        """Return what people are shown, for the message of an assertion."""
        return "\n".join(self.lines())

    def with_verdict(self, verdict: Verdict) -> Rehearsal:
        """Return this result with one verdict more."""
        return self._replace(verdicts=[*self.verdicts, verdict])

    def verdict(self, question: str) -> Verdict:
        """Return the verdict on a question: ``run``, ``silent twice``, … Raise ``LookupError``."""
        for each in self.verdicts:
            if each.question == question:
                return each
        raise LookupError(question)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a JSON document."""
        verdicts = [{**each._asdict(), "findings": [f._asdict() for f in each.findings]} for each in self.verdicts]
        effects = [{**each._asdict(), "references": list(each.references)} for each in self.side_effects]
        return {
            "format_version": _FORMAT,
            "verdicts": verdicts,
            "side_effects": effects,
            "not_rehearsed": [each._asdict() for each in self.not_rehearsed],
            "not_damaged": [each._asdict() for each in self.not_damaged],
            "run": self.run,
            "exit_code": self.exit_code,
        }

    def lines(self, width: int | None = None) -> Iterator[str]:
        """Yield what was done beyond what is declared, and the table of verdicts, in ``width`` columns; None: any."""
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


def _section(title: str, found: Iterable[str], width: int | None) -> Iterator[str]:
    yield ""
    yield from _wrapped("", f"{title}:", width, "")
    for each in found:
        yield from _wrapped(_GAP, escape(each), width, f"{_GAP}{_GAP}")


def _verdict_lines(verdict: Verdict, widest: int, width: int | None) -> Iterator[str]:
    question = escape(verdict.question)
    head = f"{_GAP}{question:{widest}}{_GAP}{verdict_mark(verdict.text, ok=verdict.ok):2}"
    shown = [escape(str(each)) for each in verdict.findings[:_MOST_FINDINGS]] or [escape(verdict.text)]
    if len(verdict.findings) > _MOST_FINDINGS:
        shown.append(f"and {len(verdict.findings) - _MOST_FINDINGS} more")
    indent = " " * (widest + 2 + 3 * len(_GAP))
    room = _LEAST_ROOM if width is None else width - len(indent)
    if len(question) > widest or (room < _LEAST_ROOM and max(map(len, shown)) > room):
        # What was found does not fit beside the question.
        yield from _wrapped("", head, width, f"{_GAP}{_GAP}")
        head, indent = "", f"{_GAP}{_GAP}"
    for each in shown:
        yield from _wrapped(f"{head}{_GAP}" if head else indent, each, width, indent)
        head = ""


def _wrapped(start: str, text: str, width: int | None, indent: str) -> Iterator[str]:
    """Yield a text in lines of ``width`` columns, the first behind ``start``; a longer word stays whole, as a path."""
    if width is None or len(start) + len(text) <= width:
        yield f"{start}{text}".rstrip()
        return
    import textwrap

    # What is to be pasted stays whole: a space that is no white space stands in for each in it.
    whole = _PASTED.sub(lambda found: found[0].replace(" ", _NO_BREAK), text)
    lines = textwrap.wrap(
        whole,
        width,
        initial_indent=start,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    yield from (line.replace(_NO_BREAK, " ") for line in lines)
