"""Puppet's data types: parse ``Optional[Enum[absent, present]]`` into a ``DataType``, which accepts or refuses values.

Types are exact: ``True`` is no Integer, ``1`` no Float, ``1.0`` no Integer, a subclass of ``str`` no String. Values
that JSON cannot represent are refused everywhere. A sensitive wrapper makes no difference.

- *Asset*, *Archive*: a blob, and a map of names to blobs, with digests; mappings in manifests.
- *Reference*: the name of a resource; in manifests also ``Type[title]``.
- *Regexp*: a string that is a regular expression.
- *Timestamp*: an ISO 8601 date, or date and time, with or without fraction and zone: ``2026-02-28T12:00:00.5+01:00``.
- *Timespan*: seconds as a number, or Puppet's ``D-HH:MM:SS.F``, of which ``D-``, ``HH:`` and ``MM:`` may be missing.

Tokens and terms are in ``parser``, checks in ``predicates``, explanations in ``messages``.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from itertools import chain, dropwhile, repeat
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.datatypes import parser, predicates
from resource_api.model.datatypes.predicates import PREDICATES
from resource_api.model.values.errors import DataTypeError, suggestion
from resource_api.model.values.reference import uncapitalize_type
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import counted
from resource_api.model.values.values import UNKNOWN, Sensitive, is_unknown

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator
    from typing import Self

    from resource_api.model.datatypes.parser import TypeTerm
    from resource_api.model.datatypes.predicates import Check

    Limits = tuple[float | None, float | None]

_UNRESTRICTED: Final[dict[str, frozenset[type]]] = {
    "String": frozenset({str}),
    "Integer": frozenset({int}),
    "Boolean": frozenset({bool}),
    "Undef": frozenset({type(None)}),
}


class DataType(NamedTuple):
    """A data type; equal if the canonical ``text`` is.

    ``accepts`` decides about a value; ``check`` does so for values without sensitive wrappers. ``optional``: None is
    accepted. ``sensitive``: it is ``Sensitive[T]`` or contains one. ``parts`` are the types within it: content,
    elements, key and value, alternatives, or the values of a Struct, whose (key, required) pairs are ``fields``.
    ``low`` and ``high`` limit a number or a size; None: no limit. ``words``: the values of an Enum or Boolean, or
    the types of a Reference.
    """

    kind: str
    text: str
    accepts: Check
    optional: bool
    sensitive: bool
    check: Check
    parts: tuple[DataType, ...] = ()
    low: float | None = None
    high: float | None = None
    words: tuple[str | bool, ...] = ()
    patterns: tuple[str, ...] = ()
    fields: tuple[tuple[str, bool], ...] = ()

    def __eq__(self, datatype: object) -> bool:
        """Compare the canonical texts."""
        return isinstance(datatype, DataType) and self.text == datatype.text

    def __ne__(self, datatype: object) -> bool:
        """Compare the canonical texts: a tuple's own method compares the fields."""
        return not self == datatype

    def __hash__(self) -> int:
        """Hash the canonical text."""
        return hash(self.text)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Return the same object, because it is immutable."""
        return self

    def __repr__(self) -> str:
        """Show the canonical text."""
        return f"DataType({self.text!r})"

    def accepts_known(self, value: object) -> bool:
        """Return whether a value may be accepted, by its parts that are known before anything is read.

        So a plan refuses a value with a wrong part early; its unknown parts are checked when they are known.
        """
        if type(value) is Sensitive:
            return self.accepts_known(value.reveal())
        if value is UNKNOWN or not is_unknown(value):
            return value is UNKNOWN or self.accepts(value)
        # From here on ``value`` is a list or mapping of which some parts are unknown.
        if self.kind in {"Any", "Data"}:
            return True
        if self.kind in {"Optional", "NotUndef", "Sensitive", "Variant"}:
            return any(part.accepts_known(value) for part in self.parts)
        # Only sizes and keys of the collection around the unknown part remain to be checked.
        return self._accepts_shape(value) and all(part.accepts_known(item) for _, part, item in self.typed_parts(value))

    def _accepts_shape(self, value: Any) -> bool:
        """Return whether the size and the keys of a value fit this data type, which must be one of lists or mappings.

        The caller checks the parts one by one, because some are unknown and cannot be refused.
        """
        if type(value) is list:
            return self.kind in {"Array", "Tuple"} and self.has_size(value)
        if type(value) is not dict:
            return False
        if self.kind == "Hash":
            return self.has_size(value) and all(map(self.parts[0].accepts, value))
        required = {key for key, needed in self.fields if needed}
        return self.kind == "Struct" and required <= value.keys() <= self.members.keys()

    def typed_parts(self, value: Any) -> Iterator[tuple[Any, DataType, Any]]:
        """Yield (key or index, data type, part) for each part of a list or mapping, to check or conceal part by part.

        Only for an Array, Tuple, Hash or Struct. Keys that a Struct does not declare have no data type, and are left
        out.
        """
        if type(value) is list:
            types = chain(self.parts, repeat(self.parts[-1]))  # an Array's only type, and a Tuple's last one, repeats
            yield from zip(range(len(value)), types, value, strict=False)
        else:
            members = self.members if self.kind == "Struct" else dict.fromkeys(value, self.parts[1])
            yield from ((key, members[key], item) for key, item in value.items() if key in members)

    @property
    def members(self) -> dict[str, DataType]:
        """The data types of the values of a Struct, by key."""
        return dict(zip(dict(self.fields), self.parts, strict=True))

    def has_size(self, value: Any) -> bool:
        """Return whether a collection has neither too few elements nor too many."""
        return (self.low is None or self.low <= len(value)) and (self.high is None or len(value) <= self.high)

    def conceal(self, value: object) -> Any:
        """Return ``value`` with each part wrapped that is secret by this type; all of it if that is ambiguous.

        It is ambiguous in a Variant, unless only one alternative accepts the value and that one is secret, and in a
        Hash with secret keys. None, an unknown value and a wrapped one are returned unchanged.
        """
        if not self.sensitive or value is None or value is UNKNOWN or type(value) is Sensitive:
            return value
        if self.kind in {"Optional", "NotUndef"}:
            return self.parts[0].conceal(value)
        if type(value) is list and self.kind in {"Array", "Tuple"}:
            return [part.conceal(item) for _, part, item in self.typed_parts(value)]
        if type(value) is dict and (self.kind == "Struct" or (self.kind == "Hash" and not self.parts[0].sensitive)):
            # A key that the Struct does not have may be a misspelt secret one.
            undeclared = {key: Sensitive(item) for key, item in value.items()}
            return undeclared | {key: part.conceal(item) for key, part, item in self.typed_parts(value)}
        if self.kind == "Variant":
            fitting = [part for part in self.parts if part.accepts(value)]
            if len(fitting) == 1 and fitting[0].sensitive:
                return fitting[0].conceal(value)
        return Sensitive(value)

    def contains(self, *kinds: str) -> bool:
        """Return whether it is of one of these kinds, or a part of it is, at any depth."""
        return self.kind in kinds or any(part.contains(*kinds) for part in self.parts)

    @property
    def holds_contents(self) -> bool:
        """Whether it is or contains ``Asset`` or ``Archive``."""
        return self.contains("Asset", "Archive")

    @property
    def holds_collections(self) -> bool:
        """Whether it accepts lists or mappings."""
        return self.contains("Any", "Data", "Array", "Tuple", "Hash", "Struct")

    @property
    def refers_to(self) -> frozenset[str] | None:
        """The resource types to which references in a value of this data type may refer, for the check of references.

        Empty: any type. None: the data type contains no ``Reference``.
        """
        if self.kind == "Reference":
            return frozenset(str(word) for word in self.words)
        types = [part.refers_to for part in self.parts if part.refers_to is not None]
        if not types:
            return None
        return frozenset().union(*types) if all(types) else frozenset()  # one for any type includes all others

    @property
    def unrestricted_types(self) -> frozenset[type]:
        """The Python types of which it accepts every value: for these ``accepts`` need not be called."""
        if self.kind in {"Optional", "Variant"}:
            undef = {type(None)} if self.kind == "Optional" else ()
            return frozenset(undef).union(*(part.unrestricted_types for part in self.parts))
        # Limits of a number or a size restrict the values, and so does the single word of ``Boolean[true]``.
        limited = self.low is not None or self.high is not None or len(self.words) == 1
        return frozenset() if limited else _UNRESTRICTED.get(self.kind, frozenset())

    @property
    def branches(self) -> tuple[DataType, ...]:
        """The alternatives of a Variant or Optional, also of nested ones; any other type is its only alternative.

        A value that none accepts is explained by the alternative that is meant for its kind.
        """
        if self.kind not in {"Optional", "Variant"}:
            return (self,)
        undef = (UNDEF,) if self.kind == "Optional" else ()
        return tuple(dict.fromkeys([*undef, *(branch for part in self.parts for branch in part.branches)]))

    @property
    def leaves(self) -> tuple[DataType, ...]:
        """The alternatives, also those within NotUndef and Sensitive: the types to name in a message.

        Of ``Optional[Sensitive[String]]`` they are ``Undef`` and ``String``.
        """
        leaves: list[DataType] = []
        for branch in self.branches:
            leaves += branch.parts[0].leaves if branch.kind in {"NotUndef", "Sensitive"} else [branch]
        return tuple(leaves)


def make(kind: str, check: Check, arguments: list[str], **facts: Any) -> DataType:
    """Return the data type ``kind[arguments]`` that accepts the values of the predicate ``check``.

    All data types are made here, so that each ignores the wrappers of secrets in a value, and is secret if one of its
    parts is. ``arguments`` make its canonical text; ``facts`` are further fields of ``DataType``.
    """
    parts: tuple[DataType, ...] = facts.get("parts", ())
    secret = kind == "Sensitive" or any(part.sensitive for part in parts)
    text = f"{kind}[{', '.join(arguments)}]" if arguments else kind
    accepts = predicates.ignoring_wrappers(check)
    return DataType(kind, text, accepts, optional=check(None), sensitive=secret, check=check, **facts)


ANY: Final = make("Any", predicates.is_json, [])
UNDEF: Final = make("Undef", predicates.absent, [])
STRING: Final = make("String", predicates.string(None, None), [])


@cache
def parse(text: str) -> DataType:
    """Return the data type of an expression. Raise ``DataTypeError`` with the column, ``TypeError`` for no text."""
    if not isinstance(text, str):
        raise TypeError(f"a data type is written as text, not as {type(text).__name__}")
    return _build(parser.read(text))


def _build(term: TypeTerm) -> DataType:
    """Return the data type of a parsed term. Raise ``DataTypeError`` with the column."""
    name, arguments = term.value, term.arguments
    if name not in KINDS:
        raise DataTypeError(f"unknown data type '{name}'; {_advice(name)}", term.column)
    if arguments == ():
        raise DataTypeError(f"the brackets of {name} are empty", term.column + len(name))
    if name in PREDICATES:
        if arguments:
            raise DataTypeError(f"{name} takes no parameters", arguments[0].column)
        return make(name, PREDICATES[name], [])
    if arguments is None and name in _PARAMETERS:
        raise DataTypeError(f"{name} needs parameters: {_PARAMETERS[name]}", term.column)
    return _BUILDERS[name](term, list(arguments or ()))


def _advice(name: str) -> str:
    """Return advice on an unknown data type: its name here, if it is misspelt or of another language, or all names."""
    if instead := _INSTEAD.get(name.lower()):
        return f"write {instead}"
    return suggestion(name[:1].upper() + name[1:], KINDS) or f"known are {', '.join(sorted(KINDS))}"


def _unexpected(term: TypeTerm, expected: str) -> DataTypeError:
    return DataTypeError(f"expected {expected}, got {parser.describe(term)}", term.column)


def _argument_type(term: TypeTerm) -> DataType:
    """Return the data type that is an argument, as in ``Array[String]``. Raise ``DataTypeError`` for any other one."""
    if term.kind not in {"type", "word"}:
        raise _unexpected(term, "a data type")
    return _build(term)


def _refuse_more(term: TypeTerm, arguments: list[TypeTerm], most: int) -> None:
    """Raise ``DataTypeError`` at the first argument beyond ``most``; ``term``: the data type that has them."""
    if len(arguments) > most:
        msg = f"{term.value} takes {counted(most, 'parameter')}, got {len(arguments)}"
        raise DataTypeError(msg, arguments[most].column)


def _limit(term: TypeTerm, *, whole: bool) -> float | None:
    """Return a limit such as the 1 of ``Integer[1]``, or None for the word ``default``, which means no limit.

    ``whole``: accept only whole numbers. Raise ``DataTypeError`` for any other argument.
    """
    if term.kind == "word" and term.value == "default":
        return None
    if term.kind != "number" or (whole and type(term.value) is not int):
        raise _unexpected(term, "a whole number or default" if whole else "a number or default")
    if whole:
        return int(term.value)
    with suppress(OverflowError):  # of an integer beyond all floats
        if predicates.floating(limit := float(term.value)):
            return limit
    raise _unexpected(term, "a finite number")


def _limits(term: TypeTerm, arguments: list[TypeTerm], *, whole: bool = True, least: int | None = None) -> Limits:
    """Return the limits ``min, max`` of a data type, None for no limit. Raise ``DataTypeError`` for invalid ones.

    ``whole``: the limits must be whole numbers. ``least``: the smallest accepted limit, 0 for a size, which cannot be
    negative.
    """
    _refuse_more(term, arguments, 2)
    limits = [_limit(argument, whole=whole) for argument in arguments]
    for argument, value in zip(arguments, limits, strict=True):
        if least is not None and value is not None and value < least:
            raise DataTypeError(f"a size cannot be negative, got {value}", argument.column)
    low, high = [*limits, None, None][:2]  # a missing limit is None
    if low is not None and high is not None and low > high:
        raise DataTypeError(f"min {low} is greater than max {high}", arguments[0].column)
    return low, high


def _limit_texts(low: float | None, high: float | None) -> list[str]:
    """Return limits (None: no limit) as arguments in a data type's canonical text, ``1, 5`` or ``default, 5``."""
    if low is None and high is None:
        return []
    return ["default" if low is None else repr(low), *([] if high is None else [repr(high)])]


# Each of the following builds the data type of a term with these arguments, or raises ``DataTypeError``.


def _string(term: TypeTerm, arguments: list[TypeTerm]) -> DataType:
    """Return ``String``, ``String[min]`` or ``String[min, max]``, which limit the number of characters."""
    low, high = _limits(term, arguments, least=0)
    return make("String", predicates.string(low, high), _limit_texts(low, high), low=low, high=high)


def _number(term: TypeTerm, arguments: list[TypeTerm]) -> DataType:
    """Return ``Integer`` or ``Float``, perhaps with the limits ``[min, max]``."""
    whole = term.value == "Integer"
    low, high = _limits(term, arguments, whole=whole)
    check = predicates.integer(low, high) if whole else predicates.real(low, high)
    return make(term.value, check, _limit_texts(low, high), low=low, high=high)


def _boolean(term: TypeTerm, arguments: list[TypeTerm]) -> DataType:
    """Return ``Boolean``, ``Boolean[true]`` or ``Boolean[false]``."""
    _refuse_more(term, arguments, 1)
    for argument in arguments:
        if argument.kind != "word" or argument.value not in {"true", "false"}:
            raise _unexpected(argument, "true or false")
    words = tuple(argument.value == "true" for argument in arguments)
    return make(
        "Boolean",
        predicates.one_of(bool, words or (True, False)),
        [argument.value for argument in arguments],
        words=words,
    )


def _word(term: TypeTerm) -> str:
    """Return a word of an ``Enum`` or a key of a ``Struct``, with or without quotes.

    Raise ``DataTypeError`` for a Boolean or a data type without quotes, where the author may have meant those.
    """
    if term.kind == "word" and term.value in {"true", "false"}:
        raise DataTypeError(f"{term.value} is a boolean; write '{term.value}' in quotes for the word", term.column)
    if term.kind == "type" and (term.arguments is not None or term.value in KINDS):
        msg = f"{term.value} is a data type; write Variant[...] for alternatives, quotes for the word"
        raise DataTypeError(msg, term.column)
    if term.kind not in {"word", "type", "string"}:
        raise _unexpected(term, "a word, or text in quotes")
    return str(term.value)


def _enum(_term: TypeTerm, arguments: list[TypeTerm]) -> DataType:
    """Return an ``Enum`` of words, each once; also of the one literal string in ``Optional['word']``."""
    words = tuple(dict.fromkeys(map(_word, arguments)))
    return make("Enum", predicates.one_of(str, frozenset(words)), [_word_text(word) for word in words], words=words)


def _reference(_term: TypeTerm, arguments: list[TypeTerm]) -> DataType:
    """Return a Reference to resources of the given types; without arguments, of any type."""
    words = tuple(dict.fromkeys(uncapitalize_type(_word(argument)) for argument in arguments))
    return make("Reference", predicates.identity, [_word_text(word) for word in words], words=words)


def _word_text(word: str) -> str:
    """Return a word as it is written in a data type: in quotes where it would be read as something else."""
    return word if parser.is_bare(word) and word not in {"true", "false", *KINDS} else parser.quote(word)


def _regex(term: TypeTerm) -> re.Pattern[str]:
    """Return the pattern between slashes. Raise ``DataTypeError`` at the column of its mistake."""
    if term.kind != "regex":
        raise _unexpected(term, "a regular expression between slashes")
    try:
        return parser.translate(term.value)
    except parser.PatternError as error:
        msg = f"the regular expression /{term.value}/ is wrong: {error}"
        raise DataTypeError(msg, term.column + 1 + error.offset) from None


def _pattern(_term: TypeTerm, arguments: list[TypeTerm]) -> DataType:
    """Return a ``Pattern``, of which one regular expression must match; ``patterns`` has them in Python's form."""
    regexes = [_regex(argument) for argument in arguments]
    spelt, texts = [f"/{argument.value}/" for argument in arguments], tuple(regex.pattern for regex in regexes)
    return make("Pattern", predicates.matching(regexes), spelt, patterns=texts)


def _wrapper(term: TypeTerm, arguments: list[TypeTerm]) -> DataType:
    """Return ``Optional[T]``, ``NotUndef[T]`` or ``Sensitive[T]``.

    As in Puppet, a string in place of the type, ``Optional['a']``, is the Enum of this word; not for Sensitive.
    """
    _refuse_more(term, arguments, 1)
    if arguments and arguments[0].kind == "string" and term.value != "Sensitive":
        part = _enum(term, arguments)
    else:
        part = _argument_type(arguments[0]) if arguments else ANY
    check = {"Optional": predicates.optional, "NotUndef": predicates.not_undef}.get(term.value)
    # Sensitive[T] has the check of T: a value may also be without its wrapper.
    return make(term.value, check(part.check) if check else part.check, [part.text] if arguments else [], parts=(part,))


def _variant(_term: TypeTerm, arguments: list[TypeTerm]) -> DataType:
    """Return a ``Variant`` of data types, one of which must accept a value."""
    parts = tuple(map(_argument_type, arguments))
    return make(
        "Variant", predicates.any_of([part.check for part in parts]), [part.text for part in parts], parts=parts
    )


def _array(term: TypeTerm, arguments: list[TypeTerm]) -> DataType:
    """Return ``Array``, ``Array[Type]``, or ``Array[Type, min, max]`` with limits of the number of elements."""
    _refuse_more(term, arguments, 3)
    part, (low, high) = _argument_type(arguments[0]) if arguments else ANY, _limits(term, arguments[1:], least=0)
    spelt = [part.text, *_limit_texts(low, high)] if arguments else []
    return make("Array", predicates.array(part.check, low, high), spelt, parts=(part,), low=low, high=high)


def _tuple(term: TypeTerm, arguments: list[TypeTerm]) -> DataType:
    """Return ``Tuple[Type, ..., min, max]``, of which the limits may be missing: then its size is the number of types.

    As in Puppet, the last type repeats up to the size, and ``min`` alone sets no maximum.
    """
    limits = list(dropwhile(lambda argument: not _is_limit(argument), arguments))
    types = arguments[: len(arguments) - len(limits)]
    if not types or not all(map(_is_limit, limits)):
        raise _unexpected(limits[0], "the types of a Tuple before its size")
    parts = tuple(map(_argument_type, types))
    low, high = _limits(term, limits, least=0) if limits else (len(parts), len(parts))
    low = low or 0
    check = predicates.tuple_([part.check for part in parts], low, high)
    spelt = [*(part.text for part in parts), *(_limit_texts(low, high) if limits else [])]
    return make("Tuple", check, spelt, parts=parts, low=low, high=high)


def _is_limit(term: TypeTerm) -> bool:
    """Return whether an argument of a data type is a limit: a number or ``default``."""
    return term.kind == "number" or (term.kind == "word" and term.value == "default")


def _hash(term: TypeTerm, arguments: list[TypeTerm]) -> DataType:
    """Return ``Hash``, or ``Hash[Key, Value, min, max]``. Raise ``DataTypeError`` for a type of keys alone."""
    _refuse_more(term, arguments, 4)
    if len(arguments) == 1:
        raise DataTypeError("Hash takes the type of its keys and the type of its values", arguments[0].column)
    key, item = map(_argument_type, arguments[:2]) if arguments else (STRING, ANY)
    low, high = _limits(term, arguments[2:], least=0)
    spelt = [key.text, item.text, *_limit_texts(low, high)] if arguments else []
    check = predicates.mapping(key.check, item.check, low, high)
    return make("Hash", check, spelt, parts=(key, item), low=low, high=high)


def _struct(term: TypeTerm, arguments: list[TypeTerm]) -> DataType:
    """Return ``Struct[{key => Type, Optional[key] => Type}]``, of mappings with these keys.

    As in Puppet, a key is optional, too, if its value may be undef, unless it is written ``NotUndef[key]``.
    """
    _refuse_more(term, arguments, 1)
    if arguments[0].kind != "pairs":
        raise _unexpected(arguments[0], "keys and types in braces: {key => Type}")
    members: dict[str, DataType] = {}
    required: set[str] = set()
    spelt = []
    for key_term, value_term in arguments[0].value:
        key, wrapper = _struct_key(key_term)
        part = _argument_type(value_term)
        if key in members:
            raise DataTypeError(f"the key '{key}' is given twice", key_term.column)
        members[key] = part
        if wrapper == "NotUndef" or not (wrapper or part.optional):
            required.add(key)
        spelt.append(f"{wrapper}[{_word_text(key)}] => {part.text}" if wrapper else f"{_word_text(key)} => {part.text}")
    check = predicates.struct({key: part.check for key, part in members.items()}, required)
    fields = tuple((key, key in required) for key in members)
    return make("Struct", check, [f"{{{', '.join(spelt)}}}"], parts=tuple(members.values()), fields=fields)


def _struct_key(term: TypeTerm) -> tuple[str, str]:
    """Return a key of a Struct, and its wrapper: ``Optional``, ``NotUndef`` or "". Raise ``DataTypeError``."""
    if term.kind != "type" or not term.arguments:
        return _word(term), ""
    if term.value not in {"Optional", "NotUndef"} or len(term.arguments) != 1:
        raise _unexpected(term, "a key, Optional[key] or NotUndef[key]")
    return _word(term.arguments[0]), term.value


_BUILDERS: Final[dict[str, Callable[[TypeTerm, list[TypeTerm]], DataType]]] = {
    "String": _string,
    "Integer": _number,
    "Float": _number,
    "Boolean": _boolean,
    "Enum": _enum,
    "Pattern": _pattern,
    "Optional": _wrapper,
    "NotUndef": _wrapper,
    "Sensitive": _wrapper,
    "Reference": _reference,
    "Variant": _variant,
    "Array": _array,
    "Tuple": _tuple,
    "Hash": _hash,
    "Struct": _struct,
}
#: The names of all data types.
KINDS: Final = frozenset([*PREDICATES, *_BUILDERS])
#: The data types that need parameters, with these.
_PARAMETERS: Final = {
    "Enum": "Enum[word, ...]",
    "Pattern": "Pattern[/regular expression/, ...]",
    "Optional": "Optional[Type]",
    "Variant": "Variant[Type, ...]",
    "Tuple": "Tuple[Type, ...]",
    "Struct": "Struct[{key => Type}]",
}
#: Names from other languages, in lower case, and the data types to write instead.
_INSTEAD: Final = {
    **dict.fromkeys(("str", "text", "path"), "String"),
    **dict.fromkeys(("dict", "object", "map"), "Hash"),
    **dict.fromkeys(("none", "null", "nil"), "Undef"),
    "datetime": "Timestamp",
    "list": "Array",
    "collection": "Variant[Array, Hash]",
}
