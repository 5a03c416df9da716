"""Explain why a data type refuses a value: ``must be an integer from 0 to 100, not 101``.

The words are those of manifests; a value is shown if its type is right and it is not secret. The predicates decide
whether a value is refused; ``explain`` walks over a refused one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.datatypes import predicates
from resource_api.model.values.assets import ORIGINS, Archive, Asset
from resource_api.model.values.errors import suggestion
from resource_api.model.values.expression import is_reference_at
from resource_api.model.values.reference import capitalize_type
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import QUOTES, escape, show
from resource_api.model.values.values import UNKNOWN, Sensitive, place_text, unwrapped

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.datatypes.datatype import DataType

    #: A path within a value, and the message about the part there.
    Refusal = tuple[tuple[str | int, ...], str]

_BOOLEANS: Final = ("true", "false")
_LONGEST_SHOWN: Final = 80
_NAMES: Final[Mapping[type, str]] = {
    str: "a string",
    int: "an integer",
    float: "a float",
    bool: "a boolean",
    type(None): "nothing",
    list: "a list",
    dict: "a mapping",
    Asset: "an asset",
    Archive: "an archive",
}
#: Data type without parameters → the words for its values.
_WORDS: Final[Mapping[str, str]] = {
    "Any": "a value",
    "Archive": "an archive",
    "Array": "a list",
    "Asset": "an asset",
    "Data": "a value",
    "Hash": "a mapping",
    "Numeric": "a number",
    "Regexp": "a regular expression",
    "Scalar": "a string, a number, true or false",
    "Struct": "a mapping",
    "Timespan": "a number of seconds, or a time such as 1-02:30:00",
    "Timestamp": "a date such as 2026-02-28 or 2026-02-28T12:00:00Z",
    "Tuple": "a list",
    "Undef": "left out",
}
#: Python type → the data types that are meant for it.
_KIN: Final[Mapping[type, frozenset[str]]] = {
    str: frozenset({"String", "Enum", "Pattern", "Reference", "Regexp", "Timestamp", "Timespan"}),
    int: frozenset({"Integer", "Numeric", "Reference", "Timespan"}),
    float: frozenset({"Float", "Numeric", "Timespan"}),
    bool: frozenset({"Boolean"}),
    list: frozenset({"Array", "Tuple"}),
    dict: frozenset({"Hash", "Struct"}),
    Asset: frozenset({"Asset"}),
    Archive: frozenset({"Archive"}),
}

#: Keys of a value that is probably meant as a function call; the second is the bundled templates' function.
_CALLS: Final = frozenset({"invoke", "template"})
#: Advice for a reference's value, which is in quotes already.
_REFERRED: Final = "a reference that is the whole value keeps its data type: refer to a string, or write text beside it"


def is_meant_for(datatype: DataType, kind: type) -> bool:
    """Return whether a data type without alternatives is meant for values of this Python type."""
    return datatype.kind in _KIN.get(kind, ())


def refusal(datatype: DataType, value: object, words: str = "", *, referred: bool = False) -> str:
    """Return the message that ``datatype`` does not accept ``value``, with advice if there is any.

    ``words`` describe the values of a ``Pattern`` in it, as ``must_be`` of an attribute has them. ``referred``: the
    value comes from a reference, so advice to put it into quotes would be wrong.
    """
    expected = requirement(datatype, words)
    kind = type(unwrapped(value))
    # A list where a list is accepted: a requirement such as ``a list`` would not explain the refusal.
    if kind in {list, dict} and any(is_meant_for(leaf, kind) for leaf in datatype.leaves):
        return f"must fit the data type {datatype.text}, which this {'list' if kind is list else 'mapping'} does not"
    if type(value) is str and _is_shown(datatype, value) and (hint := word_suggestion(datatype, value)):
        return f"{expected}; {hint}"
    return f"{expected}, not {describe_value(datatype, value)}{_advice(datatype, value, referred=referred)}"


def requirement(datatype: DataType, words: str = "") -> str:
    """Return the requirement of a data type: ``must be one of present, absent``; ``words`` describe its ``Pattern``."""
    return f"must be {alternatives(datatype.leaves, words)}"


def alternatives(kinds: Sequence[DataType], words: str = "") -> str:
    """Return the values of alternative data types in words, for a message: ``one of present, absent``.

    The words of all Enums make one enumeration; null (``Undef``) is left out beside other alternatives. ``words``
    describe a ``Pattern``.
    """
    leaves = [leaf for leaf in kinds if leaf.kind != "Undef"] or list(kinds)
    # Beside an Enum, a Boolean's words are enumerated with the Enum's.
    enumerated_kinds = {"Enum", "Boolean"} if any(leaf.kind == "Enum" for leaf in leaves) else set[str]()
    enumerated = [word for leaf in leaves if leaf.kind in enumerated_kinds for word in _words_of(leaf)]
    phrases = [f"one of {', '.join(enumerated)}"] if len(enumerated) > 1 else enumerated
    rest = dict.fromkeys(_phrase(leaf, words) for leaf in leaves if leaf.kind not in enumerated_kinds)
    return any_of([*phrases, *rest])


def _words_of(datatype: DataType) -> list[str]:
    """Return the words of an Enum or a Boolean, as YAML has them."""
    words = datatype.words or (True, False)
    return [str(word).lower() if type(word) is bool else str(word) or "''" for word in words]


def any_of(phrases: Sequence[str]) -> str:
    """Return alternatives as text: ``a, b or c``."""
    return " or ".join(filter(None, [", ".join(phrases[:-1]), phrases[-1]]))


def _phrase(datatype: DataType, words: str) -> str:
    """Return the words for the values of one alternative, such as ``an integer``, for ``alternatives``.

    An Enum is none of them, since its words are enumerated. ``words`` replace the regular expression of a Pattern,
    which users do not read easily.
    """
    kind = datatype.kind
    if kind == "Pattern":
        return words or f"a string that matches {datatype.text[len('Pattern[') : -1]}"
    limits = _limits(datatype)
    if kind == "String":
        if limits == "at least 1":
            return "a string that is not empty"
        return f"a string of {limits} characters" if limits else "a string"
    if kind in {"Integer", "Float"}:
        number = "an integer" if kind == "Integer" else "a float such as 1.0"
        if not limits:
            return number
        return f"{number} from {limits}" if " to " in limits else f"{number} of {limits}"
    if kind == "Boolean":
        return any_of(_words_of(datatype))
    if kind == "Reference":
        types = sorted(capitalize_type(str(word)) for word in datatype.words)
        return f"a reference to {any_of(types)}" if types else "a reference"
    return _WORDS[kind]


def _limits(datatype: DataType) -> str:
    """Return the limits of a number or a size in words: ``2 to 4``, ``at least 2``; empty where there are none."""
    low, high = datatype.low, datatype.high
    if low is None:
        return "" if high is None else f"at most {high}"
    if high is None:
        return f"at least {low}"
    return f"{low}" if low == high else f"{low} to {high}"


def word_suggestion(datatype: DataType, value: str) -> str:
    """Return a suggestion for a refused text: the nearest word of an Enum, or a Boolean without quotes; or ""."""
    if any(leaf.kind == "Boolean" for leaf in datatype.leaves):
        if value in _BOOLEANS:
            return "write it without quotes"
        if hint := suggestion(value, _BOOLEANS, "boolean"):
            return hint
    return suggestion(value, _enum_words(datatype), "value")


def _enum_words(datatype: DataType) -> list[str]:
    """Return the words of all Enums in a data type."""
    return [str(word) for leaf in datatype.leaves if leaf.kind == "Enum" for word in leaf.words]


def describe_value(datatype: DataType, value: object) -> str:
    """Return ``value`` itself if its type is right and it is not secret, else its kind: ``a string``."""
    if type(value) is Sensitive or datatype.kind == "Sensitive":
        article_and_kind = kind_of(unwrapped(value))  # such as ``a string``
        return f"a sensitive {article_and_kind.rpartition(' ')[2]}"
    if not _is_shown(datatype, value):
        return kind_of(value)
    text = quote_value(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}...'"


def _is_shown(datatype: DataType, value: object) -> bool:
    """Whether a message may show a value: it is a scalar of a right type, and not secret."""
    scalar = type(value) in {str, int, float, bool}
    return scalar and not datatype.sensitive and any(is_meant_for(branch, type(value)) for branch in datatype.branches)


def quote_value(value: object) -> str:
    """Return a value on one line; a string always in quotes, so that ``'5'`` and ``5`` differ."""
    return f"'{escape(value)}'" if type(value) is str else show(value)


def kind_of(value: object) -> str:
    """Return the kind of a value, ``an integer``; for other classes the class name."""
    return _NAMES.get(type(value)) or type(value).__name__


def _advice(datatype: DataType, value: object, *, referred: bool) -> str:
    """Return advice on a refused value, with ``; `` before it, or "".

    A mapping may be meant as a function call, a text as an asset, and a number such as ``mode: 0644`` as a text, which
    needs quotes; a ``referred`` value, which comes from a reference, gets other advice, since it is in quotes already.
    """
    if type(value) is dict and not _CALLS.isdisjoint(value):
        return "; call a function under values: and write ${values.NAME} here"
    contents = [branch.kind.lower() for branch in datatype.branches if branch.kind.lower() in ORIGINS]
    if contents and type(value) in {str, dict}:
        # The last but one origin is a path on this machine: {asset: {file: ...}}, {archive: {directory: ...}}.
        examples = [f"{{{word}: {{{ORIGINS[word][-2]}: ...}}}}" for word in contents]
        return f"; write {' or '.join(examples)}"
    value = unwrapped(value)
    if type(value) not in {int, float, bool}:
        return ""
    kinds = {leaf.kind for leaf in datatype.leaves}
    wants_number = type(value) is not bool and not kinds.isdisjoint(_KIN[int] | _KIN[float])
    wants_text = not kinds.isdisjoint({"String", "Pattern"}) or show(value) in _enum_words(datatype)
    if wants_number or not wants_text:
        return ""
    return f"; {_REFERRED}" if referred else QUOTES


def _key_problems(datatype: DataType, value: Mapping[str, object]) -> Iterator[str]:
    """Yield a message for each required key that a value of a Struct lacks, and for each key that is not declared."""
    declared = dict(datatype.fields)
    unknown = [name for name in value if name not in declared]
    for name, required in datatype.fields:
        if required and name not in value:
            yield f"needs the key {quote_value(name)}"
    for name in unknown:
        hint = suggestion(str(name), declared) or f"known are {', '.join(declared)}"
        yield f"has the unknown key {quote_value(name)}; {hint}"


def explain(datatype: DataType, value: object, words: str = "", written: object = None) -> list[Refusal]:
    """Return all problems of ``value``, sorted by path; empty if ``datatype`` accepts it.

    ``words`` describe the values of a ``Pattern`` in it: ``an absolute path``. ``written`` is the value as declared,
    with its references, about which the advice differs. Unknown parts are accepted. A secret value or key is not shown:
    a problem within it is reported for the whole.
    """
    problems = dict.fromkeys(_Explanation(words, written).problems(datatype, value, ()))
    # As text, because a path has keys and indices, which cannot be compared.
    return sorted(problems, key=lambda problem: [str(step) for step in problem[0]])


def first_problem(datatype: DataType, value: object, words: str = "") -> str:
    """Return the first problem of ``explain`` and the position of the part, as the end of a sentence, or ""."""
    problems = explain(datatype, value, words)
    if not problems:
        return ""
    path, message = problems[0]
    return f"is wrong at {place_text(path)}: it {message}" if path else message


class _Explanation(NamedTuple):
    """The explanation of one refused value; ``written`` is the value with its references."""

    words: str
    written: object

    def problems(self, datatype: DataType, value: object, path: tuple[str | int, ...]) -> Iterator[Refusal]:
        """Yield path and refusal of the innermost parts that a data type does not accept in the ``value`` at a path.

        Parts are only explained if exactly one alternative of the data type is meant for lists, or for mappings: with
        two it is not known which one the author means, and the whole value is refused.
        """
        try:
            if datatype.accepts_known(value):
                return
        except RecursionError:
            yield path, f"must not be nested deeper than {predicates.DEPTH} levels"
            return
        if datatype.kind in {"Any", "Data"}:
            yield _json_problem(datatype, value, path)
            return
        branches = [branch for branch in datatype.branches if is_meant_for(branch, type(value))]
        problems = []
        if type(value) in {list, dict} and len(branches) == 1:
            problems = list(self._collection_problems(branches[0], value, path))
        referred = is_reference_at(self.written, path)
        yield from problems or [(path, refusal(datatype, value, self.words, referred=referred))]

    def _collection_problems(self, datatype: DataType, value: Any, path: tuple[str | int, ...]) -> Iterator[Refusal]:
        """Yield the problems of a list or mapping of the right kind: of its size, its keys and its parts.

        Where keys are secret, no path may name one: problems of the values are then reported for the whole mapping.
        """
        if not datatype.has_size(value):
            yield path, _size_problem(datatype, value)
        if datatype.kind == "Struct":
            yield from ((path, message) for message in _key_problems(datatype, value))
        elif datatype.kind == "Hash":
            keys = datatype.parts[0]
            wrong = [key for key in value if not keys.accepts_known(key)]
            yield from ((path, f"has a key that {refusal(keys, key, self.words)}") for key in wrong)
        hides_keys = datatype.kind == "Hash" and datatype.parts[0].sensitive
        for step, part, item in datatype.typed_parts(value):
            problems = self.problems(part, item, (*path, step))
            yield from ((path, f"has a value that {message}") for _, message in problems) if hides_keys else problems


def _size_problem(datatype: DataType, value: Collection[object]) -> str:
    """Return the problem of a list or mapping with too few parts or too many: ``must have 2 to 4 elements, not 5``."""
    limits, part = _limits(datatype), "element" if type(value) is list else "key"
    plural = "" if limits in {"1", "at least 1", "at most 1"} else "s"
    return f"must have {limits} {part}{plural}, not {len(value)}"


def _json_problem(datatype: DataType, value: object, path: tuple[str | int, ...]) -> Refusal:
    """Return the problem of the first part of a value that JSON cannot represent; a secret is reported as a whole."""
    # The search ends also for a value that contains itself. The path includes the levels of the data type, up to DEPTH.
    if len(path) > 2 * predicates.DEPTH:
        return (), f"must not be nested deeper than {predicates.DEPTH} levels"
    members: Iterable[tuple[Any, object]] = ()
    if type(value) is list:
        members = enumerate(value)
    elif type(value) is dict:
        members = value.items()
    for step, member in members:
        if type(value) is dict and type(step) is not str:
            return path, f"must have strings as keys, not {kind_of(step)}"
        if not predicates.is_json(_without_unknown(predicates.unwrap(member))):
            return _json_problem(datatype, member, (*path, step))
    text = quote_value(value) if type(value) is float else describe_value(datatype, value)
    return path, f"must be a value that JSON can carry, not {text}"


def _without_unknown(value: object) -> Any:
    """Return ``value`` with None, which JSON has, for its unknown parts: only known parts are reported."""
    if type(value) is list:
        return [_without_unknown(item) for item in value]
    if type(value) is dict:
        return {key: _without_unknown(item) for key, item in value.items()}
    return None if value is UNKNOWN else value
