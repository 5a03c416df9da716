"""Resources to test a type with: the author's, similar ones, and ones generated from the data types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from resource_api.model.values.assets import Archive, Asset
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.values import Sensitive, is_secret, leaves, reveal

if TYPE_CHECKING:
    from collections.abc import Callable

    from resource_api.model.attribute import Attribute
    from resource_api.model.datatypes.datatype import DataType
    from resource_api.model.type_definition import Resource, TypeDefinition

    Values = st.SearchStrategy[object]

#: The number of resources beside the example in laws about several resources.
OTHERS: Final = 2


#: Objects in place of a file, which no user can read then, not even root.
OBSTACLES: Final = ("link", "directory link", "directory", "fifo", "oversized")


class Neighbour(NamedTuple):
    """A file of another user of the machine that the type reads; its directory exists, and it does not.

    ``content``: records of the same names as the examples, with values that would help that user.
    ``resources``: resources that are read from it, present or absent; each must fail while it cannot be read.
    ``obstacles``: the members of ``OBSTACLES`` that keep the type from reading it.
    """

    path: str
    content: bytes
    user: str = "nobody"
    resources: Sequence[Mapping[str, object]] = ()
    obstacles: Sequence[str] = OBSTACLES


class Examples(NamedTuple):
    """The examples of an author.

    ``present``: a resource. ``updated``: the same resource with other values, or None. ``others``: more resources.
    ``world``: a function whose result noop must not change, beside the rows of ``get``.
    """

    present: Resource
    updated: Resource | None = None
    others: Sequence[Resource] = ()
    world: Callable[[], object] | None = None
    #: The configuration of the provider as in a manifest.
    config: Mapping[str, object] = {}
    #: The files of other users that the type reads, or the reason for which it reads none; None: not tested.
    neighbours: Sequence[Neighbour] | str | None = None
    #: The number of resources in the test of a listing; None: by the type.
    listing_size: int | None = None
    #: Seconds in which ``get`` must return the examples; None: not timed.
    slowest_get: float | None = None

    @property
    def all(self) -> list[Resource]:
        """``present`` and ``others``, which can exist together."""
        return [self.present, *self.others]


def example_problem(definition: TypeDefinition, examples: Examples) -> str:
    """Return the mistake in the form of the author's examples, for an error before any law uses them, or ""."""
    if not isinstance(examples.others, Sequence):
        return f"'others' must be a list of resources, not {type(examples.others).__name__}"
    updated = [] if examples.updated is None else [("updated", examples.updated)]
    resources = [("present", examples.present), *updated, *(("others", resource) for resource in examples.others)]
    problems = [_resource_problem(definition, fixture, resource) for fixture, resource in resources]
    if updated and examples.updated == examples.present:
        problems.append("'updated' must differ from 'present', and not change it: {**present, 'ATTRIBUTE': VALUE}")
    return next(filter(None, problems), "")


def _resource_problem(definition: TypeDefinition, fixture: str, resource: object) -> str:
    """Return the mistake in the form of a resource that the author's fixture returns, or "".

    ``fixture``: its name, for the message. The laws need a mapping with every namevar that has no default.
    """
    if not isinstance(resource, Mapping):
        return f"'{fixture}' must be a resource, a mapping of attribute to value, not {type(resource).__name__}"
    for namevar in definition.namevars:
        if namevar not in resource and not definition.attributes[namevar].has_default:
            held = ", ".join(map(repr, resource)) or "nothing"
            return f"'{fixture}' must have the namevar '{namevar}', and has {held}"
    return ""


def similar_resources(definition: TypeDefinition, present: Mapping[str, object], count: int = OTHERS) -> list[Resource]:
    """Return ``count`` copies of ``present`` under similar names: for laws that need more than the author's example.

    The list is empty if the namevar's data type refuses such names.
    """
    for namevar in definition.namevars:
        if namevar not in present:
            continue
        names = _names(definition.attributes[namevar].datatype, present[namevar], count)
        if len(names) >= count:
            return [{**present, namevar: name} for name in names[:count]]
    return []


def _names(datatype: DataType, name: object, count: int) -> list[object]:
    """Return names that resemble ``name`` and are valid: ``app-2.conf``, ``app2.conf``, ``2app.conf`` for ``app.conf``.

    There are up to ``count`` names of each form. A number, such as a port, is followed by the next numbers.
    """
    near: list[object] = []
    if isinstance(name, str):
        numbers = range(2, count + 2)
        stem, suffix = _split_suffix(name)
        near = [
            form.format(stem, number, suffix) for form in ("{0}-{1}{2}", "{0}{1}{2}", "{1}{0}{2}") for number in numbers
        ]
    elif type(name) is int:
        near = [name + number for number in range(1, count + 1)]
    return [name for name in near if datatype.accepts(name)]


def _split_suffix(name: str) -> tuple[str, str]:
    """Return a name as two parts, ``a`` and ``.conf``: the second begins at the first dot of its last component.

    Similar names have a number between the two, so that ``a.conf`` and ``a-2.conf`` are of one kind.
    """
    # A dot at the beginning of the component is that of a hidden file.
    dot = name.find(".", name.rfind("/") + 2)
    return (name, "") if dot < 0 else (name[:dot], name[dot:])


def minimal_resource(definition: TypeDefinition, present: Mapping[str, object]) -> Resource:
    """Return the name, the mandatory attributes and ``ensure`` of ``present``."""
    needed = {*definition.namevars, *definition.mandatory, "ensure"}
    return {name: value for name, value in present.items() if name in needed}


def secret_texts(attributes: Mapping[str, Attribute], resource: Mapping[str, object]) -> set[str]:
    """Return the texts in ``resource`` that are secret by data type, to search for them in all output."""
    concealed = [attributes[name].datatype.conceal(value) for name, value in resource.items() if name in attributes]
    secrets = [part for _, part in leaves(concealed) if isinstance(part, Sensitive)]
    # The leaves of a secret are searched, not its own text, ``<sensitive>``; a boolean's text is everywhere.
    return {str(part) for _, part in leaves(secrets) if part is not None and not isinstance(part, (bool, Sensitive))}


def generated_resources(definition: TypeDefinition, examples: Sequence[Mapping[str, object]]) -> Values:
    """Return a hypothesis strategy of valid resources, to find one for which ``canonicalize`` breaks a law.

    It yields the ``examples``, and resources with the namevars and any other attributes, whose values are generated
    from their data types or taken from the examples.
    """
    attributes = {
        name: _attribute(attribute.datatype, [example[name] for example in examples if example.get(name) is not None])
        for name, attribute in definition.attributes.items()
        if attribute.kind != "read_only"
    }
    namevars = {name: attributes[name] for name in attributes if name in definition.namevars}
    optional = {name: attributes[name] for name in attributes if name not in namevars}
    valid = st.fixed_dictionaries(namevars, optional=optional)
    return st.sampled_from([dict(example) for example in examples]) | valid


def _attribute(datatype: DataType, examples: Sequence[object]) -> Values:
    """Return a strategy of values for one attribute: those of the examples, and any that its data type accepts.

    Of a data type with a pattern hardly any other value may be found.
    """
    accepted = values(datatype).filter(lambda value: reveal(value) is not None and datatype.accepts(value))
    accepted = st.sampled_from(examples) | accepted if examples else accepted
    return accepted.map(datatype.conceal) if datatype.sensitive else accepted


def respelled_resources(definition: TypeDefinition, example: Mapping[str, object]) -> list[Resource]:
    """Return copies of the example, each with one value spelled differently but accepted by its data type.

    With such resources ``canonicalize`` is most likely to break a law.
    """
    return [
        {**example, name: Sensitive(spelling) if isinstance(value, Sensitive) else spelling}
        for name, value in example.items()
        for spelling in _spellings(reveal(value))
        if definition.attributes[name].datatype.accepts(spelling)
    ]


def _spellings(value: object) -> list[object]:
    """Return other spellings of a value, such as in upper case, that a provider may or may not take for the same."""
    if isinstance(value, str):
        return [value.upper(), value.lower(), f" {value} ", f"{value}/", f"{value}\n", f"0{value}", " ", ""]
    # Of a list: another order, its items twice, none.
    return [value[::-1], value * 2, []] if isinstance(value, list) else []


def values(datatype: DataType) -> Values:
    """Return a strategy of values for a data type; a few of them may exceed a limit."""
    make = _VALUES.get(datatype.kind)
    return make(datatype) if make else _SCALARS


def _size(datatype: DataType) -> dict[str, Any]:
    """Return the bounds of a length as arguments of a strategy: few elements where the data type has no upper one."""
    low = int(datatype.low or 0)
    return {"min_size": low, "max_size": low + 3 if datatype.high is None else int(datatype.high)}


def _tuples(datatype: DataType) -> Values:
    """Return a strategy of lists for a Tuple, of the allowed lengths; its last data type repeats."""
    parts, size = [values(part) for part in datatype.parts], _size(datatype)
    lengths = st.integers(size["min_size"], size["max_size"])
    # ``Tuple[Integer, String]`` of length 4: an integer and three strings.
    return lengths.flatmap(lambda n: st.tuples(*[parts[min(i, len(parts) - 1)] for i in range(n)])).map(list)


def _structs(datatype: DataType) -> Values:
    """Return a strategy of mappings with the required keys of a Struct and any of its optional ones."""
    parts = {key: values(part) for (key, _), part in zip(datatype.fields, datatype.parts, strict=True)}
    must = {key: parts[key] for key, required in datatype.fields if required}
    return st.fixed_dictionaries(must, optional={key: part for key, part in parts.items() if key not in must})


def _hashes(datatype: DataType) -> Values:
    """Return mappings of a Hash whose keys are plain texts, as in manifests."""
    keys = values(datatype.parts[0]).filter(lambda key: isinstance(key, str) and not is_secret(key))
    return st.dictionaries(keys, values(datatype.parts[1]), **_size(datatype))


def _times(datatype: DataType) -> Values:
    """Return a strategy of values of a Timespan or a Timestamp, with at least one in each form that it accepts."""
    if datatype.kind == "Timespan":
        return st.integers(0) | st.sampled_from([1.5, "1-02:03:04", "00:01"])
    return st.sampled_from(["2000-02-29", "1999-12-31T23:59:59Z", "2026-01-01 12:00:00.25+01:00"])


#: Few characters: generated texts often contain those that providers strip, fold and split.
_PLAIN: Final = " \taA0/.:"
_SCALARS: Final[Values] = st.text(max_size=8) | st.integers() | st.booleans()
_VALUES: Final[Mapping[str, Callable[[DataType], Values]]] = {
    "Undef": lambda _: st.none(),
    "Integer": lambda t: st.integers(None if t.low is None else int(t.low), None if t.high is None else int(t.high)),
    "Float": lambda t: st.floats(t.low, t.high, allow_nan=False, allow_infinity=False),
    "Numeric": lambda _: st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    "Boolean": lambda t: st.sampled_from(t.words or (True, False)),
    "String": lambda t: st.text(_PLAIN, **_size(t)) | st.text(**_size(t)),
    "Enum": lambda t: st.sampled_from(t.words),
    "Pattern": lambda t: st.one_of([st.from_regex(pattern) for pattern in t.patterns]),
    "Archive": lambda _: st.sampled_from([Archive(digit * 64) for digit in "01"]),
    "Asset": lambda _: st.sampled_from([Asset(digit * 64) for digit in "01"]),
    "Reference": lambda _: st.text(_PLAIN, min_size=1) | st.integers(),
    "Regexp": lambda _: st.sampled_from(["a", "^a.*", "[0-9]+"]),
    "Timestamp": _times,
    "Timespan": _times,
    "Optional": lambda t: st.none() | values(t.parts[0]),
    "NotUndef": lambda t: values(t.parts[0]),
    "Sensitive": lambda t: values(t.parts[0]),
    "Variant": lambda t: st.one_of([values(part) for part in t.parts]),
    "Array": lambda t: st.lists(values(t.parts[0]), **_size(t)),
    "Tuple": _tuples,
    "Hash": _hashes,
    "Struct": _structs,
}
