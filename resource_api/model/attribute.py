"""Attributes of types, provider configurations and function inputs: data type, kind, default, documentation.

An ``Attribute`` does not contain its name, so the definition that holds it checks it with ``attribute_problems``.
Checks that span several attributes of a type are in ``type_definition``.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingABC
from copy import deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

from resource_api.model.datatypes import datatype as datatypes
from resource_api.model.values.errors import DataTypeError, hint
from resource_api.model.values.reference import TYPE_NAME
from resource_api.model.values.values import UNKNOWN, Sensitive

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from typing import Never

    from resource_api.model.datatypes.datatype import DataType

Kind = Literal["namevar", "init_only", "read_only", "parameter"]
KINDS: Final = ("namevar", "init_only", "read_only", "parameter")
#: The metaparameters that order resources.
RELATIONSHIPS: Final = frozenset({"require", "before", "notify", "subscribe", "on_failure"})
#: The metaparameters that decide how many resources a declaration makes.
CARDINALITY: Final = frozenset({"for_each", "when"})
#: The metaparameters whose values may be made from inputs, values, facts and the host (contract §2, "Metaparameters").
EVALUATED: Final = frozenset({"noop", "tag", "loglevel", "timeout", "retry", "lifecycle"})
#: The keys of a resource that are not attributes.
METAPARAMETERS: Final = RELATIONSHIPS | CARDINALITY | EVALUATED | {"alias", "provider", "implementation"}
#: The operations that can have a time limit of their own.
OPERATIONS: Final = ("create", "update", "delete")
#: The names that inputs of components must not have.
RESERVED: Final = METAPARAMETERS | {"title"}
#: Keyword of a definition in Puppet → the one here.
_RENAMED: Final = {"desc": "docs", "behaviour": "kind", "behavior": "kind"}


class NoDefault:
    """The absence of a default, where None would be a default; one instance, ``MISSING``."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Show the constant's name."""
        return "MISSING"


MISSING: Final = NoDefault()


class Attribute:
    """One attribute of a type.

    >>> from resource_api import Attribute
    >>> Attribute("String[1]", "The name.", kind="namevar")
    Attribute('String[1]', kind='namevar')
    >>> Attribute("Integer[0]", "The most messages.", default=100).fresh_default()
    100

    The ``TypeDefinition`` that contains it checks it, because it alone has the attribute's name.
    """

    datatype: DataType

    def __init__(
        self,
        type: str,  # noqa: A002 - the Puppet Resource API's word
        docs: str = "",
        *,
        kind: Kind | None = None,
        default: object = MISSING,
        write_only: bool = False,
        derived_from: str = "",
        must_be: str = "",
        stable: bool = False,
        merged: bool = False,
        **unknown: Never,
    ) -> None:
        """Declare an attribute of data type ``type``; without ``kind`` it is a property.

        ``default`` is used where the manifest has no value. ``write_only``: ``get`` does not return it.
        ``derived_from``: name of the attribute from which this ``read_only`` one is computed; it is secret if that is.
        ``must_be``: the values of a ``Pattern`` in the data type, in words for messages: ``an absolute path``.
        ``stable``: an update does not change the value of this ``read_only`` attribute, only a replacement does.
        ``merged``: only the declared members of this property's value are compared; the rest stays unchanged.
        """
        self.type = type
        self.docs = docs
        self.kind = kind
        self.default = default
        self.write_only = write_only
        self.derived_from = derived_from
        self.must_be = must_be
        self.stable = stable
        self.merged = merged
        #: Keyword arguments that do not exist, which ``attribute_problems`` reports with all other mistakes.
        self.unknown: Mapping[str, object] = unknown

    def fresh_default(self) -> Any:
        """Return the default; a list or mapping as a copy, because resources must not share it."""
        default = self.default
        return deepcopy(default) if isinstance(default, (list, dict)) else default

    @property
    def has_default(self) -> bool:
        """Whether there is a default."""
        return self.default is not MISSING

    def conceal(self, value: object) -> Any:
        """Return a value of this attribute with every secret in it wrapped in ``Sensitive``, so that nothing shows it.

        A ``write_only`` value is secret as a whole; otherwise its data type determines the secret parts.
        """
        if self.write_only and value is not None and value is not UNKNOWN:
            return Sensitive(value)
        return self.datatype.conceal(value)

    @property
    def mandatory(self) -> bool:
        """Whether a manifest must have a value (namevars come from the title, read_only attributes are never set)."""
        return not (self.kind in {"namevar", "read_only"} or self.datatype.optional or self.default is not MISSING)

    def __repr__(self) -> str:
        """Show the data type and the kind."""
        kind = f", kind={self.kind!r}" if self.kind else ""
        return f"Attribute({self.type!r}{kind})"


class AttributeSet:
    """Attributes by name, as declared."""

    def __init__(self, attributes: Mapping[str, Attribute]) -> None:
        """Store the attributes; the definition that has them reports a value that is no mapping."""
        self.attributes = dict(attributes) if hasattr(attributes, "items") else attributes

    @cached_property
    def accepts(self) -> Mapping[str, Callable[[Any], bool]]:
        """Attribute → predicate that accepts its values."""
        return {name: attribute.datatype.accepts for name, attribute in self.attributes.items()}

    @cached_property
    def unrestricted_types(self) -> Mapping[str, frozenset[type]]:
        """Attribute → the Python types of which it accepts every value, so that ``accepts`` need not be called."""
        return {name: attribute.datatype.unrestricted_types for name, attribute in self.attributes.items()}

    @cached_property
    def defaults(self) -> tuple[tuple[str, Attribute], ...]:
        """The attributes that have a default, with their names."""
        return tuple((name, attribute) for name, attribute in self.attributes.items() if attribute.has_default)

    @cached_property
    def mandatory(self) -> tuple[str, ...]:
        """The attributes that a resource must declare."""
        return tuple(name for name, attribute in self.attributes.items() if attribute.mandatory)

    @cached_property
    def sensitive(self) -> frozenset[str]:
        """The attributes that are secrets by their data type, or contain one."""
        return frozenset(name for name, attribute in self.attributes.items() if attribute.datatype.sensitive)

    @cached_property
    def spelt(self) -> Mapping[str, str]:
        """Attribute → its name in manifests, of those that are called like a metaparameter (contract §10.8)."""
        return {name: f"{name}_" for name in self.attributes if name in METAPARAMETERS}

    def spelling(self, name: str) -> str:
        """Return the name of an attribute in manifests."""
        return self.spelt.get(name, name)

    def attribute_spelt(self, written: str) -> str:
        """Return the attribute that a manifest means by a name, ``tag`` for ``tag_``; any other name stays."""
        return written[:-1] if written[-1:] == "_" and written[:-1] in self.spelt else written

    def renamed(self, values: Mapping[str, object]) -> dict[str, Any]:
        """Return values under the names of their attributes, from their names in manifests."""
        return {self.attribute_spelt(name): value for name, value in values.items()}

    @cached_property
    def content_attributes(self) -> frozenset[str]:
        """The attributes whose values may contain assets and archives."""
        return frozenset(name for name, attribute in self.attributes.items() if attribute.datatype.holds_contents)


def keyword_problems(declaration: type, unknown: Iterable[str]) -> list[str]:
    """Return a problem, with the nearest keyword, for each ``unknown`` keyword of a call of the class ``declaration``.

    Authors' mistakes are collected so, and reported together, where Python would raise an error for the first one.
    """
    code = declaration.__init__.__code__  # type: ignore[misc] # of the class itself
    # The names of its parameters, without ``self`` and ``unknown``.
    keywords = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    return [
        f"'{word}' is not a keyword here, write '{_RENAMED[word]}'"
        if word in _RENAMED
        else f"unknown keyword '{word}'{hint(word, keywords)}"
        for word in unknown
    ]


def text_problems(**texts: object) -> list[str]:
    """Return a problem for each keyword whose value is not text."""
    return [f"{word} must be text, not {text!r}" for word, text in texts.items() if not isinstance(text, str)]


def flag_problems(**flags: object) -> list[str]:
    """Return a problem for each keyword whose value is not a boolean."""
    return [f"{word} must be True or False, not {flag!r}" for word, flag in flags.items() if type(flag) is not bool]


def attribute_problems(name: object, attribute: object, reserved: Collection[str] = ()) -> list[str]:
    """Return the problems of an author's attribute, to be reported behind its ``name``: ``must be an Attribute(...)``.

    Its ``datatype``, the parsed data type, is set here. ``reserved``: names that it must not have.
    """
    if not isinstance(attribute, Attribute):
        return [f"must be an Attribute(...), not {type(attribute).__name__}"]
    problems = keyword_problems(Attribute, attribute.unknown)
    if not isinstance(name, str) or not TYPE_NAME.match(name):
        problems.append("the name must be lower case letters, digits and underscores")
    if name in reserved:
        problems.append("the name is reserved; a type must not define it")
    problems += text_problems(docs=attribute.docs, derived_from=attribute.derived_from, must_be=attribute.must_be)
    problems += flag_problems(write_only=attribute.write_only, stable=attribute.stable, merged=attribute.merged)
    problems += _kind_problems(name, attribute)
    try:
        attribute.datatype = datatypes.parse(attribute.type)
    except (DataTypeError, TypeError) as error:
        return [*problems, f"data type {attribute.type!r}: {error}"]
    if attribute.must_be and not attribute.datatype.contains("Pattern"):
        problems.append(f"must_be says what a Pattern accepts, and there is none in its data type {attribute.type}")
    return [*problems, *_value_problems(attribute)]


def _kind_problems(name: object, attribute: Attribute) -> list[str]:
    """Return the problems of the kind, and of the keywords that only some kinds may have."""
    problems = []
    if attribute.kind is not None and attribute.kind not in KINDS:
        advice = "; a property has none" if str(attribute.kind) == "property" else hint(attribute.kind, KINDS)
        problems.append(f"'{attribute.kind}' is not a kind{advice}; one of {', '.join(KINDS)}")
    if attribute.write_only and attribute.kind is not None:
        problems.append(f"only a property can be write_only, not a {attribute.kind}")
    if attribute.derived_from and attribute.kind != "read_only":
        problems.append("only a read_only attribute is derived_from another")
    if attribute.stable and attribute.kind != "read_only":
        problems.append("only a read_only attribute can be stable: what is set changes when it is set")
    if name == "ensure" and (attribute.kind is not None or attribute.write_only):
        problems.append("ensure must be a property that get returns")
    return problems


def _value_problems(attribute: Attribute) -> list[str]:
    """Return the problems of an attribute's default, and of a namevar that is secret or a collection."""
    problems: list[str] = []
    if attribute.kind == "namevar" and attribute.datatype.sensitive:
        problems.append("a namevar cannot be sensitive; it is shown in every message")
    if attribute.kind == "namevar" and attribute.datatype.holds_collections:
        problems.append(
            f"a namevar cannot be a list or a mapping, which its data type {attribute.type} accepts; "
            "write one such as String, Integer or Scalar, or make several attributes namevars"
        )
    if attribute.default is MISSING:
        return problems
    if attribute.kind == "read_only":
        problems.append("a read_only attribute cannot have a default; it is never set")
    elif not attribute.datatype.accepts(attribute.default):
        spelling = "given" if attribute.datatype.sensitive else repr(attribute.default)  # a secret is not shown
        problems.append(f"the default {spelling} is not of its data type {attribute.type}")
    return problems


def input_problems(attributes: object, noun: str, reserved: Collection[str] = ()) -> list[str]:
    """Return the problems of attributes that are no state of a resource: a configuration, or inputs of a function.

    They are never read back, so that they have no kind and are not ``write_only``. ``noun`` names one of them in
    messages: ``config``, ``input``. ``reserved``: names that none of them must have.
    """
    if not isinstance(attributes, MappingABC):
        return [f"{noun} must be a mapping of Attribute(...), not {type(attributes).__name__}"]
    problems = []
    for name, attribute in attributes.items():
        wrong = attribute_problems(name, attribute, reserved)
        if not wrong and (attribute.kind or attribute.write_only):
            wrong = ["an input has no kind: it is given and never read back"]
        problems += [f"{noun} '{name}': {problem}" for problem in wrong]
    return problems
