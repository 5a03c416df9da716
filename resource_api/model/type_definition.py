"""The definitions that authors write: types with their attributes, features, functions and titles; and components.

Each is checked when it is created (Puppet Resource API, "Resource Definition") and not changed afterwards. Reading and
changing resources is for the provider, expanding components for the catalog.
"""

from __future__ import annotations

import re
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

from resource_api.model import attribute as attributes_
from resource_api.model.action import PARTICIPLES
from resource_api.model.attribute import (
    OPERATIONS,
    RESERVED,
    AttributeSet,
    flag_problems,
    input_problems,
    keyword_problems,
    text_problems,
)
from resource_api.model.datatypes import datatype as datatypes
from resource_api.model.values.errors import DataTypeError, DefinitionError, hint
from resource_api.model.values.reference import TYPE_NAME, type_name_problem
from resource_api.model.values.start_up import NamedTuple, regex

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Never

    from resource_api.model.attribute import Attribute, Kind
    from resource_api.model.datatypes.datatype import DataType
    from resource_api.model.values.document import Document
    from resource_api.model.values.values import Values


#: The versions that a type may have: releases and pre-releases as in PEP 440.
VERSION: Final = regex(r"\d+(\.\d+)*((a|b|rc|\.dev|\.post)\d+)?\Z")
#: One resource, read or declared: attribute → value.
Resource = dict[str, Any]
#: The identity of a resource within its type: the value of its namevar, or a tuple for more than one.
Name = Any

#: Features of Puppet's Resource API that have another name, or none → advice.
_OF_PUPPET: Final = {
    "supports_noop": "; it is 'noop_handler' here",
    "remote_resource": "; a type with 'config' is one that manages something elsewhere",
}
#: Feature of a type → the method that its provider must have.
FEATURE_METHODS: Final[Mapping[str, str]] = {
    "canonicalize": "canonicalize",
    "custom_insync": "insync",
    "refreshable": "refresh",
    "imperative": "due",
    "validate": "validate",
    "plan": "plan",
    "upgrade": "upgrade",
    "preflight": "preflight",
    "side_effects": "side_effects",
    "import": "import_",
}
FEATURES: Final = frozenset(
    {
        *FEATURE_METHODS,
        "simple_get_filter",
        "noop_handler",
        "parallel",
        "preflight_of_removals",
        "side_effects_of_removals",
        "moved_from_types",
        "not_rehearsable",
        "private_secrets",
    }
)
#: The most seconds that a change may take to become visible.
MAX_SETTLE: Final = 3600


class Function:
    """A function that a type's provider implements: documentation, inputs by name, data type of the result.

    ``inputs`` are attributes without a kind; the ``TypeDefinition`` that holds the function checks it.
    """

    datatype: DataType

    def __init__(
        self,
        docs: str = "",
        *,
        inputs: Mapping[str, Attribute] | None = None,
        output: str = "Any",
        pure: bool = False,
        keeps_secrets: bool = False,
        **unknown: Never,
    ) -> None:
        """Declare a function; the provider's method of that name takes the context, and its inputs by name.

        ``pure``: the result depends on the inputs alone, so it is computed when the manifest is compiled.
        ``keeps_secrets``: it gets secret parts of lists and mappings as ``Sensitive`` and passes them on unopened, so
        that only these parts of its result are secret; any other result is secret as a whole if an input is.
        """
        self.docs = docs
        self.pure = pure
        self.keeps_secrets = keeps_secrets
        self.inputs = AttributeSet({} if inputs is None else inputs)
        self.output = output
        #: Keyword arguments that do not exist, which the ``TypeDefinition`` reports with all other mistakes.
        self.unknown: Mapping[str, object] = unknown

    def __repr__(self) -> str:
        """Show the inputs and the output."""
        inputs = self.inputs.attributes
        return f"Function({', '.join(map(str, inputs)) if isinstance(inputs, dict) else inputs} → {self.output})"


class FunctionCall(NamedTuple):
    """One call in a manifest: ``values: {address: {invoke: ..., with: {...}}}``."""

    #: The configured provider, as ``inventory_host@lab``.
    instance: str
    name: str
    function: Function
    #: Its inputs as written, by name.
    arguments: Values

    def __str__(self) -> str:
        """Return the function's name as manifests write it."""
        return f"{self.instance.partition('@')[0]}.{self.name}"


class TypeDefinition(AttributeSet):
    """A resource type: name, documentation, attributes, automatic relationships, features.

    >>> from resource_api import Attribute, TypeDefinition
    >>> queue = TypeDefinition(
    ...     name="queue",
    ...     attributes={
    ...         "name": Attribute("String[1]", "The name.", kind="namevar"),
    ...         "ensure": Attribute("Enum[present, absent]", default="present"),
    ...         "length": Attribute("Integer[1]", "The most messages."),
    ...     },
    ...     autorequires={"package": "broker"},
    ... )
    >>> queue.namevars, queue.mandatory, queue.ensurable
    (('name',), ('length',), True)
    >>> TypeDefinition(name="queue", attributes={"length": Attribute("Integer[1")})
    Traceback (most recent call last):
    resource_api.model.values.errors.DefinitionError: type 'queue': attribute 'length': data type 'Integer[1': ...

    ``config`` declares the configuration of its provider; ``version`` is the type's own, such as ``1.2.0``. In
    ``automatic`` are ``autorequires`` and its kin: relationship → type → titles, ``$attribute`` for its value, or a
    function that returns titles. Raises ``DefinitionError`` with all problems. ``warnings`` lists unusual but accepted
    parts.
    """

    def __init__(
        self,
        *,
        name: str,
        docs: str = "",
        attributes: Mapping[str, Attribute] | None = None,
        features: Iterable[str] = (),
        autorequires: Mapping[str, object] | None = None,
        autobefore: Mapping[str, object] | None = None,
        autosubscribe: Mapping[str, object] | None = None,
        autonotify: Mapping[str, object] | None = None,
        title_patterns: Sequence[Mapping[str, str]] = (),
        schema_version: int = 1,
        isolation: Literal["process"] | None = None,
        timeout: float | Mapping[str, float] | None = None,
        version: str | None = None,
        config: Mapping[str, Attribute] | None = None,
        functions: Mapping[str, Function] | None = None,
        verbs: Mapping[str, str] | None = None,
        settle: float = 0,
        brought_by: Mapping[str, str] | None = None,
        identity: Literal["title"] | None = None,
        **unknown: Never,
    ) -> None:
        """Declare the type ``name`` in ``types/<name>.py``; its wrong values are reported together, in one error."""
        super().__init__({} if attributes is None else attributes)
        self.name = name
        #: The provider of its resources: ``vm_host@lab``, or the type's name for the default provider.
        self.instance = name
        self.docs = docs
        self.features, feature_problems = _checked_features(features)  # the capabilities of its provider
        self.automatic: Mapping[str, Mapping[str, object]] = {  # relationship → type → titles
            "require": autorequires or {},
            "before": autobefore or {},
            "subscribe": autosubscribe or {},
            "notify": autonotify or {},
        }
        self.title_patterns = title_patterns  # regular expressions that split a title into namevars
        self.schema_version = schema_version  # greater where ``upgrade`` must convert recorded values of the former one
        self.isolation = isolation  # "process": its provider runs in a worker process
        #: The time limit of its resources' changes, in seconds or by operation; the metaparameter takes precedence.
        self.timeout = timeout
        #: Compared with ``version:`` of a configured provider (PEP 440); None: not declared.
        self.version = version
        #: The attributes of its provider's configuration.
        self.config = AttributeSet({} if config is None else config)
        #: The functions of its provider, by name.
        self.functions: Mapping[str, Function] = functions or {}
        #: Action → its participle in progress messages, where the general words do not fit.
        self.verbs: Mapping[str, str] = {} if verbs is None else verbs
        #: Seconds until a change must be visible to ``get``; a key ``settle`` of the configuration takes precedence.
        self.settle = settle
        #: Type → the read_only attribute with the name of the resource that brings those of this type, as a package.
        self.brought_by: Mapping[str, str] = {} if brought_by is None else brought_by
        #: ``title``: the namevar exists in manifests only, and nothing on the system has that name (contract §10.9).
        self.identity = identity
        self.warnings: tuple[str, ...] = tuple(_feature_warnings(name, self.features))
        problems = [*keyword_problems(TypeDefinition, unknown), *_type_problems(self), *feature_problems]
        if problems:
            raise DefinitionError("\n".join(f"type '{name}': {problem}" for problem in problems))

    def __repr__(self) -> str:
        """Show the name."""
        return f"TypeDefinition(name={self.name!r})"

    def takes_over(self, type_name: str) -> bool:
        """Return whether a resource of another type, as of one Terraform provider, may be ``moved:`` to this one."""
        return "moved_from_types" in self.features and type_name.partition("_")[0] == self.name.partition("_")[0]

    def for_instance(self, name: str) -> TypeDefinition:
        """Return a copy of this type for the resources of one configured provider, ``vm_host@lab``."""
        if name == self.instance:
            return self
        definition = copy(self)
        definition.instance = name
        return definition

    def asks_side_effects(self, is_: Mapping[str, object] | None, should: Mapping[str, object]) -> bool:
        """Return whether the provider is asked for the side effects of a change, to show them in the plan.

        The type's features determine whether any change has side effects, or only the removal of a present resource,
        which includes a change of its ``ensure``.
        """
        if "side_effects_of_removals" in self.features:
            return is_ is not None and is_.get("ensure") not in {"absent", should.get("ensure")}
        return "side_effects" in self.features

    def verb(self, actions: Iterable[str]) -> str:
        """Return the participle for one or more ``actions``, ``installing``; ``changing`` if they differ."""
        words = {self.verbs.get(action) or PARTICIPLES.get(action, "changing") for action in actions}
        return words.pop() if len(words) == 1 else "changing"

    def names_of_kind(self, kind: Kind | None) -> tuple[str, ...]:
        """Return the names of the attributes of one kind (None: properties) in the order of declaration."""
        return tuple(name for name, attribute in self.attributes.items() if attribute.kind == kind)

    @cached_property
    def namevars(self) -> tuple[str, ...]:
        """The attributes that identify a resource."""
        return self.names_of_kind("namevar")

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The attributes that control how changes are made."""
        return self.names_of_kind("parameter")

    @cached_property
    def managed(self) -> tuple[str, ...]:
        """The attributes that are compared and set: properties and init_only attributes, ``ensure`` first."""
        names = [*self.names_of_kind(None), *self.names_of_kind("init_only")]
        return tuple(sorted(names, key=lambda name: name != "ensure"))

    @cached_property
    def ensurable(self) -> bool:
        """Whether resources of this type can be created and deleted: ``ensure`` accepts ``absent``."""
        return "ensure" in self.attributes and self.attributes["ensure"].datatype.accepts("absent")

    @cached_property
    def read_only(self) -> frozenset[str]:
        """The attributes that are read and never set."""
        return frozenset(self.names_of_kind("read_only"))

    @cached_property
    def compared(self) -> tuple[str, ...]:
        """The managed attributes that ``get`` returns."""
        return tuple(name for name in self.managed if name not in self.write_only)

    @cached_property
    def recorded_attributes(self) -> frozenset[str]:
        """The attributes that are recorded although they are not declared."""
        return frozenset({*self.namevars, *self.read_only, "ensure"})

    @cached_property
    def reference_types(self) -> Mapping[str, frozenset[str]]:
        """Attribute → types of the resources that its value may refer to; an empty set means any type."""
        types = {name: attribute.datatype.refers_to for name, attribute in self.attributes.items()}
        return {name: referred for name, referred in types.items() if referred is not None}

    @cached_property
    def special(self) -> frozenset[str]:
        """The attributes whose values are checked one by one: ``read_only``, which refuse any, and references."""
        return self.read_only.union(self.reference_types)

    @cached_property
    def derived_from(self) -> Mapping[str, str]:
        """Attribute → the attribute from which it is computed and whose secrecy it shares."""
        return {name: attribute.derived_from for name, attribute in self.attributes.items() if attribute.derived_from}

    @cached_property
    def stable(self) -> frozenset[str]:
        """The ``read_only`` attributes that keep their values over an update."""
        return frozenset(name for name, attribute in self.attributes.items() if attribute.stable)

    @cached_property
    def merged(self) -> frozenset[str]:
        """The properties of which only the declared members are compared."""
        return frozenset(name for name, attribute in self.attributes.items() if attribute.merged)

    @cached_property
    def write_only(self) -> frozenset[str]:
        """The properties that ``get`` does not return."""
        return frozenset(name for name, attribute in self.attributes.items() if attribute.write_only)

    @cached_property
    def secret(self) -> frozenset[str]:
        """The attributes whose values are secrets, or contain one: by their data types, or as ``write_only``."""
        return self.sensitive | self.write_only

    def name_of(self, resource: Mapping[str, object]) -> Name:
        """Return the name by which a resource's row and record are looked up: the value of its namevar.

        With two or more namevars it is the tuple of their values. Raise ``KeyError`` for an unset namevar.
        """
        if len(self.namevars) == 1:
            return resource[self.namevars[0]]
        return tuple(resource[namevar] for namevar in self.namevars)

    def title_of(self, row: Mapping[str, object]) -> str:
        """Return a title from which the title patterns read a row's namevars again, or else the namevars' values.

        Commands show a resource under this title, so that a manifest can declare it with it. Each pattern is tried as a
        template, ``{path}:{name}``, and reading the result is the test: a value may contain the separator.
        """
        namevars = {namevar: _text(row[namevar]) for namevar in self.namevars}
        for template in self.titles.templates:
            title = template.format_map(namevars)
            read = self.namevars_from_title(title) or {}
            if {namevar: _text(value) for namevar, value in read.items()} == namevars:
                return title
        return " ".join(map(str, namevars.values()))

    @cached_property
    def titles(self) -> TitlePatterns:
        """The patterns that split titles into namevars; often there are none."""
        return TitlePatterns(self.title_patterns)

    def named_row(self, name: Name) -> dict[str, Any]:
        """Return the namevars of the resource with a name, of which ``name_of`` is the inverse."""
        return dict(zip(self.namevars, name if isinstance(name, tuple) else (name,), strict=True))

    def absent_row(self, name: Name) -> dict[str, Any]:
        """Return the row of a resource that does not exist."""
        row = self.named_row(name)
        return {**row, "ensure": "absent"} if self.ensurable else row

    def accepted_row(self, row: Mapping[str, object]) -> dict[str, Any] | None:
        """Return a row of another program without values that the type refuses; None if a namevar is among them."""
        accepted = {key: value for key, value in row.items() if self.accepts[key](value)}
        return accepted if all(name in accepted for name in self.namevars) else None

    @cached_property
    def title_is_name(self) -> bool:
        """Whether the title is the name unless the namevar is declared."""
        return not self.title_patterns and len(self.namevars) == 1

    def namevars_from_title(self, title: str) -> dict[str, Any] | None:
        """Return the namevars that a title contains, and the defaults of other namevars; None if no pattern matches.

        Without patterns the title is the only namevar; with two or more namevars and no patterns, a title contains
        no namevar.
        """
        if self.title_is_name:
            return {self.namevars[0]: title}
        defaults = {name: attribute.fresh_default() for name, attribute in self.defaults if name in self.namevars}
        captured = self.titles.split(title) if self.title_patterns else {}
        return None if captured is None else defaults | captured


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _checked_features(declared: Any) -> tuple[frozenset[str], list[str]]:
    """Return the names of features that a type declares, and the problem of a value that is no set of names."""
    names = [] if isinstance(declared, str) or not hasattr(declared, "__iter__") else list(declared)
    features = frozenset(name for name in names if isinstance(name, str))
    if (declared and not names) or not all(isinstance(name, str) for name in names):
        return features, [f"features must be a set of names, such as {{'canonicalize'}}, not {declared!r}"]
    return features, []


def _feature_warnings(name: str, features: Iterable[str]) -> Iterator[str]:
    """Yield a warning for each unknown feature, which is ignored: types of Puppet may declare such."""
    for feature in sorted(set(features) - FEATURES):
        suggestion = _OF_PUPPET.get(feature) or hint(feature, FEATURES)
        yield f"type '{name}': unknown feature '{feature}' is ignored{suggestion}"


def _type_problems(definition: TypeDefinition) -> list[str]:
    """Return the problems of a definition; those of namevars and relationships only if all else is valid.

    These checks use the attributes, which must be valid for them.
    """
    problems = [*filter(None, [type_name_problem(definition.name)]), *text_problems(docs=definition.docs)]
    if type(definition.schema_version) is not int or definition.schema_version < 1:
        problems.append(f"schema_version must be a whole number from 1, not {definition.schema_version!r}")
    if definition.isolation not in (None, "process"):
        problems.append(f"isolation must be 'process' or None, not {definition.isolation!r}")
    if definition.identity not in (None, "title"):
        problems.append(f"identity must be 'title' or None, not {definition.identity!r}")
    problems += _time_problems(definition.timeout, definition.settle)
    problems += _provider_problems(definition) + _verb_problems(definition.verbs)
    if not isinstance(definition.attributes, dict):
        return [*problems, f"attributes must be a mapping, not {type(definition.attributes).__name__}"]
    problems += _attribute_problems(definition)
    if problems:
        return problems
    # A type of functions alone has no resources, and needs no attributes.
    if not definition.namevars and not (definition.functions and not definition.attributes):
        problems.append("no attribute is a namevar; one of the attributes must identify the resource")
    if definition.identity and len(definition.namevars) != 1:
        problems.append("a type with identity='title' has one namevar, which is the title")
    problems += definition.titles.problems(definition.namevars)
    return [*problems, *_automatic_problems(definition), *_origin_problems(definition)]


def _attribute_problems(definition: TypeDefinition) -> list[str]:
    """Return the problems of a type's attributes, each with the attribute's name."""
    problems, attributes = list[str](), definition.attributes
    for name, attribute in attributes.items():
        problems += [f"attribute '{name}': {problem}" for problem in attributes_.attribute_problems(name, attribute)]
        source = getattr(attribute, "derived_from", "")
        if source and isinstance(source, str) and source not in attributes:
            near = hint(source, attributes)
            problems.append(f"attribute '{name}': derived_from names the unknown attribute '{source}'{near}")
    # For an attribute ``tag`` manifests write ``tag_``, as ``tag`` is a metaparameter: no attribute may have that name.
    reserved = [spelt for spelt in definition.spelt.values() if spelt in attributes]
    return problems + [f"attribute '{spelt}': manifests write the attribute '{spelt[:-1]}' so" for spelt in reserved]


def _time_problems(timeout: Any, settle: Any) -> list[str]:
    """Return the problems of the time limits, seconds or seconds by operation (0: no limit), and the time to settle."""
    limits = timeout
    if not isinstance(timeout, dict):
        limits = {} if timeout is None else {"timeout": timeout}
    problems = [
        f"timeout: unknown operation {name!r}{hint(name, OPERATIONS)}; there are {', '.join(OPERATIONS)}"
        for name in limits
        if name not in (*OPERATIONS, "timeout")
    ]
    # By ``type``, as True is an ``int`` too.
    wrong = [name for name, value in limits.items() if type(value) not in (int, float) or not 0 <= value < 2**63]
    problems += [f"{name} must be a number of seconds, or 0 for no limit, not {limits[name]!r}" for name in wrong]
    if type(settle) not in (int, float) or not 0 <= settle <= MAX_SETTLE:
        problems.append(f"settle must be a number of seconds from 0 to {MAX_SETTLE}, not {settle!r}")
    return problems


def _verb_problems(verbs: object) -> list[str]:
    """Return the problems of ``verbs``, which maps an action to its participle for progress messages."""
    if not isinstance(verbs, dict):
        return [f"verbs must be a mapping, not {type(verbs).__name__}"]
    actions = ", ".join(PARTICIPLES)
    unknown = [
        f"verbs: unknown action {action!r}{hint(action, PARTICIPLES)}; there are {actions}"
        for action in verbs
        if action not in PARTICIPLES
    ]
    wrong = [verb for verb in verbs.values() if not (isinstance(verb, str) and verb and verb.isprintable())]
    return unknown + [f"verbs: a verb is a word such as 'installing', not {verb!r}" for verb in wrong]


def _provider_problems(definition: TypeDefinition) -> list[str]:
    """Return the problems of the version, the configuration and the functions."""
    version, problems = definition.version, input_problems(definition.config.attributes, "config")
    if version is not None and not (isinstance(version, str) and VERSION.match(version)):
        problems.append(f"version must be text such as '1.2.0', not {version!r}")
    if not hasattr(definition.functions, "items"):
        return [*problems, f"functions must be a mapping of Function(...), not {type(definition.functions).__name__}"]
    for name, function in definition.functions.items():
        problems += [f"function '{name}': {problem}" for problem in _function_problems(name, function)]
    return problems


def _function_problems(name: object, function: object) -> list[str]:
    """Return the problems of an author's function, as the ends of sentences; set the ``datatype`` of its result."""
    if not isinstance(function, Function):
        return [f"must be a Function(...), not {type(function).__name__}"]
    problems = keyword_problems(Function, function.unknown)
    if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
        problems.append("the name must be that of a method, without a leading underscore")
    problems += input_problems(function.inputs.attributes, "input")
    problems += text_problems(docs=function.docs)
    problems += flag_problems(pure=function.pure, keeps_secrets=function.keeps_secrets)
    try:
        function.datatype = datatypes.parse(function.output)
    except (DataTypeError, TypeError) as error:
        problems.append(f"output {function.output!r}: {error}")
    return problems


def _origin_problems(definition: TypeDefinition) -> list[str]:
    """Return the problems of ``brought_by``: an existing resource is ours if a resource of ours has brought it.

    It maps a type to a read_only attribute of this type, such as ``package`` to the attribute with the package's name.
    """
    if not isinstance(definition.brought_by, dict):
        return [f"brought_by must be a mapping such as {{'package': 'package'}}, not {definition.brought_by!r}"]
    return [
        f"brought_by of '{type_name}': {name!r} is not a read_only attribute"
        for type_name, name in definition.brought_by.items()
        if not isinstance(name, str) or name not in definition.read_only
    ]


def _automatic_problems(definition: TypeDefinition) -> list[str]:
    """Return the errors of ``autorequire`` and its kin: each maps names of types to titles or ``$attribute``.

    The titles of a type are one text or function, or a list of them.
    """
    problems = []
    example = "{'file': '$path'} or {'file': ['/etc', '$path']}"
    for word, types in definition.automatic.items():
        keyword = "autorequires" if word == "require" else f"auto{word}"
        if not hasattr(types, "items"):
            problems.append(f"{keyword} must be a mapping of types to titles, such as {example}, not {types!r}")
            continue
        for type_name, titles in types.items():
            if not isinstance(type_name, str) or not TYPE_NAME.match(type_name):
                problems.append(f"{keyword}: {type_name!r} is no name of a type; titles are written as {example}")
            listed = [titles] if isinstance(titles, str) or callable(titles) else titles
            if hasattr(listed, "__iter__"):
                wrong = filter(None, [_automatic_title_problem(definition, title) for title in listed])
                problems += [f"auto{word} of '{type_name}': {problem}" for problem in wrong]
            else:
                problems.append(f"{keyword}: titles are written as {example}, not {titles!r}")
    return problems


def _automatic_title_problem(definition: TypeDefinition, title: object) -> str:
    """Return the problem of a title in ``autorequires`` or its kin, or "": a text, ``$attribute``, or a function."""
    if callable(title):
        return ""
    if not isinstance(title, str):
        return f"a title must be a string, not {title!r}"
    if title.startswith("$") and title[1:] not in definition.attributes:
        return f"unknown attribute '{title}'{hint(title[1:], definition.attributes)}"
    return ""


#: The parts of a pattern, as ``template`` reads them.
_TITLE_PIECE: Final = regex(
    r"""(?P<anchor>\\[AZ]|\^|\$)|\(\?P<(?P<group>\w+)>|(?P<open>\()|(?P<close>\))
    |\\(?P<escaped>[\W_])|\[(?P<single>[^]\\^])\]|(?P<set>\[\^?\]?(?:\\.|[^\]])*\])
    |(?P<special>[\\.*+?|\[]|\{\d*,?\d+\}|\{\d+,\})|(?P<literal>.)""",
    re.DOTALL | re.VERBOSE,
)


class TitlePatterns:
    """The title patterns of a type, in the order in which they are tried."""

    def __init__(self, declared: Sequence[Mapping[str, Any]]) -> None:
        """Use a type's declaration, a list of ``{'pattern': REGEX}``, which ``problems`` checks."""
        self._declared = declared

    @cached_property
    def regexes(self) -> tuple[re.Pattern[str], ...]:
        """The compiled patterns."""
        return tuple(_compile(pattern["pattern"]) for pattern in self._declared)

    @cached_property
    def templates(self) -> tuple[str, ...]:
        """The titles that the patterns describe, as format strings such as ``{path}:{name}``."""
        return tuple(filter(None, map(template, self.regexes)))

    def split(self, title: str) -> dict[str, str] | None:
        """Return the namevars that the first matching pattern finds in a title; None: no pattern matches.

        A namevar in an optional part of the pattern that the title lacks is left out, and gets its default.
        """
        for pattern in self.regexes:
            if match := pattern.match(title):
                return {name: text for name, text in match.groupdict().items() if text is not None}
        return None

    def problems(self, namevars: Collection[str]) -> list[str]:
        """Return the problems of the patterns of a type with these namevars."""
        if not isinstance(self._declared, (list, tuple)):
            return [f"title_patterns must be a list, not {type(self._declared).__name__}"]
        return [
            f"title_patterns[{index}]{problem}"
            for index, pattern in enumerate(self._declared)
            for problem in _title_pattern_problems(pattern, namevars)
        ]


def _title_pattern_problems(pattern: Any, namevars: Collection[str]) -> list[str]:
    """Return the problems of one title pattern, each as the rest of a sentence."""
    if not hasattr(pattern, "get") or not isinstance(pattern.get("pattern"), str):
        return [" must be a mapping, {'pattern': REGEX}"]
    try:
        groups = _compile(pattern["pattern"]).groupindex
    except re.error as error:
        return [f": {error}"]
    return [f": '{group}' is not a namevar{hint(group, namevars)}" for group in groups if group not in namevars]


def _compile(text: str) -> re.Pattern[str]:
    """Return the compiled pattern; named groups and the end may be written as in Ruby. Raises ``re.error``."""
    return re.compile(re.sub(r"\(\?<(?=[A-Za-z_])", "(?P<", text).replace(r"\z", r"\Z"))


def template(pattern: re.Pattern[str]) -> str:
    """Return the format string of a pattern's titles, with which ``title_of`` makes a title of namevars, or "".

    For ``^(?P<path>.+):(?P<name>.+)$`` it is ``{path}:{name}``. A pattern with anything beside named groups and fixed
    text, such as an alternative, has none.
    """
    titles, depth = "", 0  # ``depth``: the number of open groups
    for piece in _TITLE_PIECE.finditer(pattern.pattern):
        kind, depth_before = piece.lastgroup, depth
        depth += {"group": 1, "open": 1, "close": -1}.get(kind or "", 0)
        if depth_before or kind == "anchor":  # the pattern within a named group does not matter
            continue
        if kind == "group":
            titles += f"{{{piece['group']}}}"
        elif kind in {"literal", "escaped", "single"}:
            titles += piece[kind].replace("{", "{{").replace("}", "}}")
        else:
            return ""
    return titles


class ComponentDefinition:
    """A group of resources that is declared like one. Raises ``DefinitionError`` with everything that is wrong.

    ``inputs``: name → ``Attribute`` without a kind; ``outputs``: name → documentation.
    """

    def __init__(
        self,
        *,
        name: str,
        docs: str = "",
        inputs: Mapping[str, Attribute] | None = None,
        outputs: Mapping[str, str] | None = None,
        **unknown: Never,
    ) -> None:
        """Declare the component ``name``; its file is ``components/<name>.py``."""
        self.name = name
        self.docs = docs
        self.attributes: Mapping[str, Attribute] = {} if inputs is None else inputs
        self.outputs: Mapping[str, str] = {} if outputs is None else outputs
        if problems := [*keyword_problems(ComponentDefinition, unknown), *_component_problems(self)]:
            raise DefinitionError("\n".join(f"component '{name}': {problem}" for problem in problems))

    def __repr__(self) -> str:
        """Show the name."""
        return f"ComponentDefinition(name={self.name!r})"


class LoadedComponent(NamedTuple):
    """A component with its ``build`` function: (parent, title, inputs) → document with ``resources`` and ``outputs``.

    ``build`` raises ``ManifestError`` with the position in the component's file.
    """

    definition: ComponentDefinition
    build: Callable[[str, str, Mapping[str, Any]], Document]


def _component_problems(definition: ComponentDefinition) -> list[str]:
    """Return the mistakes in the definition of a component, which its author gets together in one error."""
    problems = [*filter(None, [type_name_problem(definition.name)]), *text_problems(docs=definition.docs)]
    for word, mapping in (("inputs", definition.attributes), ("outputs", definition.outputs)):
        if not hasattr(mapping, "items"):
            return [*problems, f"{word} must be a mapping, not {type(mapping).__name__}"]
    problems += input_problems(definition.attributes, "input", RESERVED)
    for name, docs in definition.outputs.items():
        if not isinstance(name, str) or not TYPE_NAME.match(name):
            problems.append(f"output {name!r}: the name must be lower case letters, digits and underscores")
        elif not isinstance(docs, str):
            problems.append(f"output '{name}': the documentation must be a string, not {type(docs).__name__}")
    return problems
