"""Render the documentation of types and components as text, Markdown or data, from their definitions alone."""

from __future__ import annotations

import re
import textwrap
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.datatypes import messages
from resource_api.model.datatypes.json_schema import schema
from resource_api.model.type_definition import ComponentDefinition, TypeDefinition, template
from resource_api.model.values.errors import DefinitionError, UsageError, hint
from resource_api.model.values.reference import Reference
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import escape, escape_lines, show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api.model.attribute import Attribute, Kind
    from resource_api.model.datatypes.datatype import DataType
    from resource_api.model.type_definition import Function
    from resource_api.plugins.implementations import Suitability
    from resource_api.plugins.module_path import Origin
    from resource_api.plugins.registry import Registry

    Definition = TypeDefinition | ComponentDefinition
    #: One line of a section, in pieces; those that are code are marked as such.
    Item = Sequence[str]

#: Feature → its meaning for authors of manifests.
FEATURES: Final[Mapping[str, str]] = {
    "refreshable": "can be refreshed: it reacts to notify and subscribe",
    "imperative": "runs when it is due; its effect cannot be read back or verified",
    "canonicalize": "accepts several spellings of a value, and shows the canonical one",
    "custom_insync": "compares values by its own rule",
    "validate": "checks combinations of values before anything is changed",
    "noop_handler": "reports more details under noop",
    "plan": "predicts values and replacements in the plan",
    "preflight": "warns in the plan if something is missing on this machine",
    "preflight_of_removals": "warns in the plan if something prevents a removal",
    "side_effects": "shows side effects of changes in the plan, and refuses those that undo other declarations",
    "side_effects_of_removals": "has side effects only when it removes something",
    "simple_get_filter": "reads only declared resources",
    "parallel": "changes several resources at the same time with --parallel",
    "upgrade": "converts records of older versions",
    "moved_from_types": "takes over resources of other types, where `moved` names one",
    "not_rehearsable": "acts outside of the machine's files; `rehearse` leaves it out",
    "import": "imports existing resources by an id of their own system",
    "private_secrets": "stores secrets of its own in state, which needs a key",
}
_ENSURABLE: Final = {True: "can be created and deleted", False: "is configured only: never created or deleted"}
_RELATIONS: Final[Mapping[str, str]] = {
    "require": "comes after",
    "before": "comes before",
    "subscribe": "comes after, and is refreshed by",
    "notify": "comes before, and refreshes",
}
#: The order of attributes on a page; None is a property.
_KINDS: Final[Sequence[Kind | None]] = ("namevar", None, "init_only", "parameter", "read_only")
#: Kind of attribute → its meaning for authors of manifests.
KINDS: Final[Mapping[str, str]] = {
    "namevar": "identifies the resource, taken from the title",
    "init_only": "set at creation only",
    "parameter": "controls how changes are made, never a reason for one",
    "read_only": "reported, never set",
}
#: The properties of an attribute that its line names.
_MARKS: Final = ("write_only", "stable", "merged", "mandatory")
_MARGIN: Final = "    "
#: A title pattern for all remaining titles.
_ANY_TITLE: Final = r"[\s\S]+\Z"
#: A link to another page of the documentation, which a terminal shows as its words.
_LINK: Final = re.compile(r"\[([^\]]+)\]\(\.\.?/[^)\s]+\)")
#: The widest column of names; longer names stand on a line of their own.
_MAX_NAME_COLUMN: Final = 20
#: The columns that text is wrapped at, unless the terminal is narrower.
COLUMNS: Final = 80
#: The fewest columns that text is wrapped at.
_MIN_COLUMNS: Final = 40


class _Code(str):
    """A piece of an item that Markdown shows as code."""

    __slots__ = ()


class _Words(str):
    """A piece of an item with the words of a type, in which no character has a meaning in Markdown."""

    __slots__ = ()


class _Example(str):
    """The last pieces of an item: lines that stand below it as they are."""

    __slots__ = ()


class FunctionPage(NamedTuple):
    """A function as the subject of a page, rendered like a type: its inputs stand for the attributes."""

    name: str
    function: Function

    @property
    def docs(self) -> str:
        """The documentation of the function, under the name that definitions of types have for theirs."""
        return self.function.docs

    @property
    def attributes(self) -> Mapping[str, Attribute]:
        """The inputs by name, under the name that definitions of types have for their attributes."""
        return self.function.inputs.attributes


def types_list(registry: Registry) -> tuple[list[Definition], dict[str, str]]:
    """Return all types and components on the module path, sorted by name, and the errors of broken ones, by name.

    A broken type does not prevent a list of the others: the caller warns of it.
    """
    definitions: list[Definition] = []
    broken: dict[str, str] = {}
    for name in sorted({*registry.names(), *registry.component_names()}):
        try:
            definitions.append(definition_of(registry, name))
        except DefinitionError as error:
            broken[name] = str(error)
    return definitions, broken


def definition_of(registry: Registry, name: str) -> Definition:
    """Return the definition of a component, or else of a type. Raise ``DefinitionError``."""
    component = registry.component(name)
    return registry.type(name) if component is None else component[0]


def function_of(definition: TypeDefinition, name: str) -> FunctionPage:
    """Return a type's function as the subject of a page, for ``describe TYPE.FUNCTION``. Raise ``UsageError``."""
    if name not in definition.functions:
        raise UsageError(f"type '{definition.name}' has no function '{name}'{hint(name, definition.functions)}")
    return FunctionPage(f"{definition.name}.{name}", definition.functions[name])


def summary(definition: Definition) -> str:
    """Return the first sentence of the documentation, on one line."""
    paragraph = " ".join(cleandoc(definition.docs).split("\n\n")[0].split())
    return escape(re.split(r"(?<=[.!?])\s+(?=[A-Z`])", paragraph, maxsplit=1)[0])


def ordered(definition: Definition | FunctionPage) -> list[tuple[str, Attribute]]:
    """Return the attributes by their names in manifests, in the order of pages and JSON.

    A reader first needs the namevars and ``ensure``, then other properties, then the rest by kind. Inputs of a function
    stay in the order of their declaration.
    """
    pairs = list(definition.attributes.items())
    if isinstance(definition, FunctionPage):
        return pairs
    if isinstance(definition, TypeDefinition):
        pairs = [(definition.spelling(name), attribute) for name, attribute in pairs]
    return sorted(pairs, key=lambda pair: (_KINDS.index(pair[1].kind), pair[0] != "ensure"))


def attribute_facts(attribute: Attribute, noun: str = "property") -> str:
    """Return an attribute's kind, or ``noun`` without one, its marks and its default: ``property, default present``."""
    return "".join(_facts(attribute, noun))


def _facts(attribute: Attribute, noun: str) -> Item:
    """Return an attribute's kind, marks and default as pieces: ``["property, mandatory", ", default ", "present"]``.

    The default is a piece of its own because Markdown shows it as code. ``noun``: the word for the kind of an attribute
    without a kind; "" leaves the word out.
    """
    words = [word for word in (attribute.kind or noun,) if word]
    words += [mark.replace("_", " ") for mark in _MARKS if getattr(attribute, mark)]
    separator = ", " if words else ""
    default = [f"{separator}default ", _Code(_default(attribute))] if attribute.has_default else []
    return [", ".join(words), *default]


def datatype_words(attribute: Attribute, *, expressions: bool = False) -> Item:
    """Return an attribute's data type in words that a user understands: the author's, ``must_be``, if there are some.

    Without them it is the data type as it is, but for ``Optional``. With ``expressions`` the whole data type follows,
    whose regular expressions are hard to read, but exact.
    """
    whole = attribute.datatype
    datatype = whole.parts[0] if whole.kind == "Optional" and whole.parts else whole
    if not attribute.must_be:
        return [_Code(whole.text if expressions else datatype.text)]
    more = [", ", _Code(whole.text)] if expressions else []
    if words := _alternatives(datatype, attribute.must_be):
        return [_Words(words), *more]
    # The words describe only the patterns in the data type, such as those of a hash's keys: ``Hash[String, Integer]``
    # is shown with the words behind it.
    text = datatype.text
    for pattern in sorted(_patterns(datatype), key=len, reverse=True):
        text = text.replace(pattern, "String")
    return [_Code(text), ": ", _Words(attribute.must_be), *more]


def _alternatives(datatype: DataType, must_be: str) -> str:
    """Return a data type in words, such as ``auto or a port, or a list of them``; "" if words alone cannot express it.

    The author's words ``must_be`` describe a text with a pattern: ``a port``. They suffice for that text, alone or
    beside other scalars, and for lists of these. For a hash and the like the caller puts them behind the data type.
    """
    scalars = [leaf for leaf in datatype.leaves if leaf.kind != "Array"]
    arrays = [leaf for leaf in datatype.leaves if leaf.kind == "Array"]
    kinds = {leaf.kind for leaf in scalars}
    if datatype.sensitive or "Pattern" not in kinds or kinds & {"Hash", "Struct"}:
        return ""
    # With a Boolean, the author's words are for all scalars: "a text, a number or a boolean".
    words = must_be if "Boolean" in kinds else messages.alternatives(scalars, must_be)
    elements = {leaf.text for array in arrays for leaf in array.parts[0].leaves}
    if not elements <= {leaf.text for leaf in scalars}:
        return ""
    return f"{words}, or a list of them" if elements else words


def _patterns(datatype: DataType) -> set[str]:
    """Return the texts of the patterns, ``Pattern[/.../]``, in a data type, at any depth.

    The caller replaces them: a reader understands the author's words more easily than regular expressions.
    """
    if datatype.kind == "Pattern":
        return {datatype.text}
    return {text for part in datatype.parts for text in _patterns(part)}


def _default(attribute: Attribute) -> str:
    """Return the default as manifests write it, or ``<sensitive>`` in place of a secret."""
    return "<sensitive>" if attribute.datatype.sensitive else show(attribute.default)


def _heading(definition: Definition | FunctionPage) -> str:
    """Return the heading of a type's attributes, or of the inputs of a component or function."""
    return "Attributes" if isinstance(definition, TypeDefinition) else "Inputs"


def _sections(
    definition: Definition | FunctionPage,
    providers: Sequence[Suitability],
    origin: Origin | None,
    *,
    expressions: bool,
    explained: bool = True,
) -> Iterator[tuple[str, Sequence[Item]]]:
    """Yield the sections of a page below the attributes: heading and items, the same for text and Markdown.

    ``expressions``: with data types in full. ``explained``: with the meanings of features and kinds, which the pages of
    the reference omit, because it explains them once for all types. ``origin``: the origin of the type, or None.
    """
    if isinstance(definition, TypeDefinition):
        yield from _feature_sections(definition, explained=explained)
    else:
        yield _results(definition)
    if origin is not None:
        yield "Origin", [[str(origin)]]
    if isinstance(definition, TypeDefinition):
        yield from _type_sections(definition, providers, expressions=expressions)
        kinds = [kind for kind in _KINDS if kind and definition.names_of_kind(kind)]
        if kinds and explained:
            yield "Kinds", [[f"{kind}: {KINDS[kind]}"] for kind in kinds]


def _type_sections(
    definition: TypeDefinition, providers: Sequence[Suitability], *, expressions: bool
) -> Iterator[tuple[str, Sequence[Item]]]:
    """Yield the sections that only a type has, on its providers, functions, relationships and titles.

    ``providers``: with their suitability on this machine, or none. A section without content is left out.
    """
    if definition.timeout is not None:
        limits = definition.timeout if isinstance(definition.timeout, dict) else {"each change": definition.timeout}
        yield "Time limits", [[f"{name}: {f'{limit:g} s' if limit else 'none'}"] for name, limit in limits.items()]
    if providers:
        yield "Providers", [[words] for words in implementations(providers)]
    if definition.config.attributes:
        pairs = definition.config.attributes.items()
        yield "Configuration", [_config(*pair, expressions=expressions) for pair in pairs]
    if definition.functions:
        # The mark of pure functions stands only where others are not pure.
        mixed = len({function.pure for function in definition.functions.values()}) > 1
        yield "Functions", [_function(*pair, mixed=mixed) for pair in definition.functions.items()]
    if relations := relationships(definition):
        yield "Automatic relationships", relations
    if definition.titles.regexes:
        yield "Titles", [_title(regex, expressions=expressions) for regex in definition.titles.regexes]


def _feature_sections(definition: TypeDefinition, *, explained: bool) -> Iterator[tuple[str, Sequence[Item]]]:
    """Yield the sections on a type's features and versions.

    ``explained``: with the meaning of each feature, and with a schema version of 1, which the reference omits.
    """
    items = [[words] for words in features(definition)] if explained else _short_capabilities(definition)
    if items and definition.attributes:
        yield "Features", items
    version = [] if definition.version is None else [[definition.version]]
    if version or explained or definition.schema_version > 1:
        yield "Version", [*version, [f"schema version {definition.schema_version}"]]


def _results(definition: ComponentDefinition | FunctionPage) -> tuple[str, Sequence[Item]]:
    """Return the section on the value that a manifest gets: a component's outputs, or a function's result."""
    if isinstance(definition, ComponentDefinition):
        return "Outputs", [[f"{name}: {docs}"] for name, docs in definition.outputs.items()] or [["none"]]
    pure = ", computed from the inputs alone, when the manifest is compiled" if definition.function.pure else ""
    secrecy = "; secret parts of the inputs stay secret in it" if definition.function.keeps_secrets else ""
    return "Result", [[_Code(definition.function.datatype.text), pure, secrecy]]


def features(definition: TypeDefinition) -> list[str]:
    """Return the capabilities of resources of a type, in words."""
    names = (name for name in FEATURES if name in definition.features)
    return [_ENSURABLE[definition.ensurable], *(f"{FEATURES[name]} ({name})" for name in names)]


def _short_capabilities(definition: TypeDefinition) -> list[Item]:
    """Return the names of a type's features as one item, for a page of the reference, which does not explain them.

    A type whose resources are never created or deleted has a sentence about that before the names.
    """
    items: list[Item] = [] if definition.ensurable else [[_ENSURABLE[False]]]
    names: list[str] = []
    for name in FEATURES:
        if name in definition.features:
            names += [", " if names else "", _Code(name)]
    return [*items, names] if names else items


def implementations(providers: Sequence[Suitability]) -> list[str]:
    """Return a line on each provider of a type: whether it is suitable on this machine, or the reason why not.

    The first suitable one is marked ``used here``, as it is the default.
    """
    chosen = next((provider.name for provider in providers if not provider.reason), "")
    return [
        f"{provider.name}: {f'not suitable: {provider.reason}' if provider.reason else 'suitable'}"
        + (", used here" if provider.name == chosen else "")
        for provider in providers
    ]


def _title(pattern: re.Pattern[str], *, expressions: bool) -> Item:
    """Return the line on a title pattern: ``{name}@{host} gives name and host``.

    In place of a template it has the regular expression if that is too complex for one, or with ``expressions``.
    """
    names, form = " and ".join(pattern.groupindex) or "nothing", template(pattern)
    if expressions or not (form or pattern.pattern == _ANY_TITLE):
        return [_Code(pattern.pattern), f" gives {names}"]
    return [_Code(form), f" gives {names}"] if form else [f"any other title gives {names}"]


def _config(name: str, attribute: Attribute, *, expressions: bool) -> Item:
    """Return the line on a key of a provider's configuration: data type, default and documentation."""
    default = [", default ", _Code(_default(attribute))] if attribute.has_default else []
    needed = ", mandatory" if attribute.mandatory and not default else ""
    words = datatype_words(attribute, expressions=expressions)
    return [f"{name} (", *words, *default, f"{needed}): {' '.join(cleandoc(attribute.docs).split())}"]


def _function(name: str, function: Function, *, mixed: bool) -> Item:
    """Return the line on a function in the page of its type: inputs, result, docs and examples.

    ``mixed``: the type has pure functions and others, so that pure ones are marked; a mark on all would say nothing.
    """
    inputs: list[str] = []
    for key, attribute in function.inputs.attributes.items():
        inputs += [", " if inputs else "", f"{key}: ", _Code(attribute.datatype.text)]
    docs, *examples = _blocks(function.docs) or [[]]
    pure = ", pure" if mixed and function.pure else ""
    summary = " ".join(" ".join(docs).split())
    head = [f"{name}(", *inputs, ") gives ", _Code(function.datatype.text), f"{pure}: {summary}"]
    return [*head, *(_Example(textwrap.dedent("\n".join(lines))) for lines in examples)]


def relationships(definition: TypeDefinition) -> list[Item]:
    """Return a line for each kind of automatic relationship of a type, with the resources that it refers to.

    In ``User[$owner]``, ``$owner`` stands for the value of that attribute.
    """
    items: list[Item] = []
    for word, types in definition.automatic.items():
        item: list[str] = []
        for type_name, title in _targets(types):
            item += [", " if item else f"{_RELATIONS[word]} ", _Code(Reference(type_name, title))]
        if item:
            items.append(item)
    return items


def _targets(types: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the type and title of each resource that one kind of relationship refers to, for the documentation.

    A title that a function computes from the values of a resource is unknown here, and shown as ``...``.
    """
    for type_name, titles in types.items():
        for title in [titles] if isinstance(titles, str) or callable(titles) else titles:
            yield type_name, "..." if callable(title) else title


def _cleaned(docs: str) -> str:
    """Return documentation without the indentation of its lines in the author's source."""
    # Beside the opening quotes: the bar stands for the closing ones, as all other lines may be an indented example.
    return cleandoc(docs) if docs[:1].isspace() else cleandoc(f"{docs}|").removesuffix("|").rstrip()


def _blocks(docs: str) -> list[list[str]]:
    """Return the lines of each part of documentation, split at its empty lines, without terminal controls."""
    return [block.splitlines() for block in re.split(r"\n\s*\n", escape_lines(_cleaned(docs))) if block.strip()]


def text(
    definition: Definition | FunctionPage,
    width: int = COLUMNS,
    providers: Sequence[Suitability] = (),
    origin: Origin | None = None,
    *,
    expressions: bool = False,
) -> str:
    """Return the page of ``describe`` for a terminal of ``width`` columns, without a last line break.

    ``providers``: with their suitability here. ``origin``: of the type. ``expressions``: with data types in full.
    """
    width = max(width, _MIN_COLUMNS)
    lines = [definition.name, "", *_wrapped_paragraphs(definition.docs, width, _MARGIN)]
    lines += [_heading(definition).upper(), ""] if definition.attributes else []
    column = min(max(map(len, definition.attributes), default=0), _MAX_NAME_COLUMN) + 2
    noun = "property" if isinstance(definition, TypeDefinition) else "input"
    for name, attribute in ordered(definition):
        words = "".join(datatype_words(attribute, expressions=expressions))
        lines += _attribute_lines(name, attribute, words, _MARGIN + " " * column, width, noun=noun)
    for heading, items in _sections(definition, providers, origin, expressions=expressions):
        lines += [heading.upper(), ""]
        for item in items:
            examples = [piece for piece in item if isinstance(piece, _Example)]
            lines += wrapped("".join(item[: len(item) - len(examples)]), width, _MARGIN + "  ", _MARGIN + "- ")
            for example in examples:
                lines += ["", *textwrap.indent(example, _MARGIN * 2).splitlines(), ""]
        lines.append("")
    return "\n".join(lines).rstrip()


def _attribute_lines(
    name: str, attribute: Attribute, words: str, margin: str, width: int, *, noun: str
) -> Iterator[str]:
    """Yield the lines of an attribute: its name in the first column, its facts, documentation and data type beside it.

    ``margin``: the spaces before the second column; a name that is too long for the first column has a line of its own.
    ``words``: the data type. ``noun``: the word for the kind of an attribute without a kind.
    """
    head = f"{_MARGIN}{name}"
    if len(head) < len(margin):
        first = head.ljust(len(margin))
    else:
        yield head
        first = margin
    yield from wrapped(attribute_facts(attribute, noun), width, margin, first)
    yield from _wrapped_paragraphs(attribute.docs, width, margin)[:-1]  # without the empty line
    yield from wrapped(words, width, margin)
    yield ""


def wrapped(line: str, width: int, margin: str, first: str | None = None) -> list[str]:
    """Return the lines of a text that is wrapped at spaces for a terminal, which shows a link only as its words.

    The first line begins with ``first``, such as ``- ``, by default ``margin``; the others begin with ``margin``.
    """
    return textwrap.wrap(
        _LINK.sub(r"\1", escape(line)),
        width,
        initial_indent=margin if first is None else first,
        subsequent_indent=margin,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _wrapped_paragraphs(docs: str, width: int, margin: str) -> list[str]:
    """Return the paragraphs of documentation wrapped at ``width``, each with an empty line below it.

    Examples, which are indented, and lists are not wrapped: their line breaks have a meaning.
    """
    lines: list[str] = []
    for block in _blocks(docs):
        verbatim = any(line[:1] in {" ", "\t", "-"} for line in block)
        lines += [margin + line for line in block] if verbatim else wrapped(" ".join(block), width, margin)
        lines.append("")
    return lines


def markdown(
    definition: Definition | FunctionPage,
    providers: Sequence[Suitability] = (),
    origin: Origin | None = None,
    *,
    expressions: bool = False,
    explained: bool = True,
) -> str:
    """Return documentation as a Markdown page, without a last line break, for ``describe`` and the reference.

    ``explained``: as for ``_sections``. ``expressions``: with data types in full.
    """
    parts = [f"# {definition.name}", *_markdown_blocks(definition.docs)]
    parts += [f"## {_heading(definition)}"] if definition.attributes else []
    for name, attribute in ordered(definition):
        words = datatype_words(attribute, expressions=expressions)
        facts = _facts(attribute, "")
        separator = ""
        if any(facts):
            separator = "; " if attribute.must_be else ", "  # the author's words may contain commas
        parts += [f"### {name}", _markdown_item([*words, separator, *facts])]
        parts += _markdown_blocks(attribute.docs)
    for heading, items in _sections(definition, providers, origin, expressions=expressions, explained=explained):
        parts += [f"## {heading}", "\n".join(f"- {_markdown_item(item)}" for item in items)]
    return "\n\n".join(parts)


def _markdown_item(item: Item) -> str:
    """Return an item as Markdown, for a page of the reference or of ``describe``.

    By the class of each piece, code is in backticks, an example is fenced, and in an author's words the characters with
    a meaning in Markdown are escaped. Other pieces are Markdown already.
    """
    written = ""
    for piece in item:
        if isinstance(piece, _Example):
            written += textwrap.indent(f"\n\n```yaml\n{piece}\n```\n", "  ")
            continue
        if not isinstance(piece, _Code):
            written += re.sub(r"[*<_`]", r"\\\g<0>", piece) if isinstance(piece, _Words) else piece
            continue
        # CommonMark: code with backticks is within more of them, and a space separates a backtick at its end.
        fence = "`" * (1 + max(map(len, re.findall("`+", piece)), default=0))
        space = " " if piece[:1] == "`" or piece[-1:] == "`" else ""
        written += f"{fence}{space}{escape(piece)}{space}{fence}"
    return written


def _markdown_blocks(docs: str) -> Iterator[str]:
    """Yield the blocks of documentation as Markdown.

    An indented example is fenced as YAML, and ``<`` outside of code is escaped, as it would begin a tag of HTML.
    """
    for block in _blocks(docs):
        if any(line[:1] in {" ", "\t"} for line in block) and not block[0].startswith("-"):
            yield f"```yaml\n{textwrap.dedent(chr(10).join(block))}\n```"
        else:
            # A match is code, which stays, or "<".
            yield re.sub(r"(`[^`]*`)|<", lambda match: match[1] or "&lt;", "\n".join(block))


def document(
    definition: Definition | FunctionPage, providers: Sequence[Suitability] = (), origin: Origin | None = None
) -> dict[str, Any]:
    """Return the document of ``describe --json`` for a type, a component or a function.

    A function and a component have fewer fields than a type. Keys that most types lack, such as ``timeout``, stand only
    where there is a value.
    """
    origin_fields = {"origin": origin_document(origin)} if origin is not None else {}
    if isinstance(definition, FunctionPage):
        return {**_function_document(*definition), **origin_fields}
    if isinstance(definition, ComponentDefinition):
        head = {"name": definition.name, "docs": _cleaned(definition.docs), "component": True, **origin_fields}
        return {**head, "inputs": _inputs(dict(ordered(definition))), "outputs": dict(definition.outputs)}
    document: dict[str, object] = {
        "name": definition.name,
        "docs": _cleaned(definition.docs),
        **origin_fields,
        "schema_version": definition.schema_version,
        "ensurable": definition.ensurable,
        "features": sorted(definition.features),
        "attributes": [_attribute_document(*pair) for pair in ordered(definition)],
        "relationships": {
            word: [{"type": type_name, "title": title} for type_name, title in _targets(types)]
            for word, types in definition.automatic.items()
            if types
        },
    }
    rare = {
        "version": definition.version,
        "timeout": definition.timeout,
        "providers": provider_documents(providers) or None,
        "config": _inputs(definition.config.attributes) or None,
        "functions": [_function_document(*pair) for pair in definition.functions.items()] or None,
    }
    document |= {name: value for name, value in rare.items() if value is not None}
    document["title_patterns"] = [
        {"pattern": regex.pattern, "namevars": list(regex.groupindex)} for regex in definition.titles.regexes
    ]
    return document


def origin_document(origin: Origin) -> dict[str, Any]:
    """Return the origin of a type or component as data: the directory or the distribution that defines it."""
    return {
        "kind": origin.kind,
        "directory": origin.directory or None,
        "distribution": origin.distribution or None,
        "version": origin.version or None,
    }


def provider_documents(providers: Sequence[Suitability]) -> list[dict[str, Any]]:
    """Return the suitability of providers as data; the reason is null for a suitable one."""
    return [
        {"name": provider.name, "suitable": not provider.reason, "reason": provider.reason or None}
        for provider in providers
    ]


def _function_document(name: str, function: Function) -> dict[str, Any]:
    """Return a function of a type as ``describe --json`` shows it."""
    return {
        "name": name,
        "docs": _cleaned(function.docs),
        "pure": function.pure,
        "inputs": _inputs(function.inputs.attributes),
        "output": function.datatype.text,
        "output_schema": schema(function.datatype),
    }


def _inputs(attributes: Mapping[str, Attribute]) -> list[dict[str, Any]]:
    """Return inputs of a function, component or configuration as ``describe --json`` shows them."""
    return [_attribute_document(*pair) | {"kind": "input"} for pair in attributes.items()]


def _attribute_document(name: str, attribute: Attribute) -> dict[str, Any]:
    """Return an attribute as ``describe --json`` shows it; a secret default stays hidden."""
    document: dict[str, object] = {
        "name": name,
        "kind": attribute.kind or "property",
        "type": attribute.datatype.text,
        "schema": schema(attribute.datatype),
        "mandatory": attribute.mandatory,
        "sensitive": attribute.datatype.sensitive,
        "write_only": attribute.write_only,
        "stable": attribute.stable,
        "merged": attribute.merged,
        "docs": _cleaned(attribute.docs),
    }
    if attribute.must_be:
        document["must_be"] = attribute.must_be
    if attribute.has_default:
        document["default"] = "<sensitive>" if attribute.datatype.sensitive else attribute.default
    return document
