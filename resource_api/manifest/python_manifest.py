"""Python manifests (``site.py``) and components (``components/NAME.py``): their execution, and the API of ``m``.

Only they have logic: each call is recorded as plain data with references in it, in the form that YAML has, which every
later stage treats like a YAML file's. Problems have the Python line. In a component, ``m`` has the inputs and the title
of one use; a reference in a relationship means one of the component's resources, or else one of the whole manifest.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from string import Formatter
from typing import TYPE_CHECKING, Any, Final, NoReturn

from resource_api.manifest.input_values import input_values
from resource_api.manifest.python_positions import (
    CONSTANTS,
    constant_position,
    current_call,
    positions,
    raised_at,
    source,
)
from resource_api.manifest.read import read_mapping
from resource_api.manifest.sections import assemble
from resource_api.model.attribute import RELATIONSHIPS
from resource_api.model.type_definition import LoadedComponent
from resource_api.model.values import document
from resource_api.model.values.assets import Content
from resource_api.model.values.document import Document
from resource_api.model.values.errors import ManifestError, Problem, library_hint, reason, suggestion
from resource_api.model.values.expression import Expression, ExpressionPath, Index, text_of
from resource_api.model.values.reference import Reference, capitalize_type, child_reference, parse, uncapitalize_type
from resource_api.model.values.values import Sensitive, escape_expressions, map_leaves, unwrapped
from resource_api.system.process_guard import read_only

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from types import CodeType

    from resource_api.manifest.python_positions import CallSite
    from resource_api.model.type_definition import ComponentDefinition

_OTHER_NAME: Final = "give it another name"
#: Constants that are called like a section, and are not one → the remedy.
_UNREAD: Final = {
    "RESOURCES": f"declare resources in manifest(m), with m.resource('file', '/etc/motd', ...); or {_OTHER_NAME}",
    "OUTPUTS": f"declare outputs in manifest(m), with m.output('name', value); or {_OTHER_NAME}",
}


def read(
    raw: bytes,
    file: str,
    inputs: Mapping[str, object],
    facts: object,
    on_inputs: Callable[[Any], None] = lambda _inputs: None,
    *,
    builtin_names: Mapping[str, object] = vars(builtins),
) -> Document:
    """Execute a Python manifest and return its declarations as a document. Raise ``ManifestError`` with its line.

    The module is executed first, because its constant ``INPUTS`` declares the inputs of the function ``manifest(m)``.
    ``facts`` has ``[name]`` and ``names()``. ``on_inputs`` receives the checked inputs before that call, to mask their
    secrets in the log. ``builtin_names``: Python's built-in names, with an ``__import__`` that also imports ``lib``.
    """
    module = _execute(raw, file, builtin_names)  # name → value
    _check_constants(module, file, raw)
    data = {key: module[name] for name, key in CONSTANTS.items() if name in module}
    function = module.get("manifest")
    if not callable(function):
        raise document.manifest_error(file, (1, 1), "manifest", "it defines no function manifest(m)")
    checked = _inputs(_document(data, file, raw, {}), inputs)
    on_inputs(checked)
    values = data.get("values") or {}
    m = ManifestApi(file, {**checked, **_ephemeral(data)}, facts, values)
    _run_author_code(file, raw, lambda: _check_executed(function, function(m)))
    declared, calls = m.data()
    if values and "values" in declared:  # m.invoke has added named values to those of the constant VALUES
        declared["values"] = {**values, **declared["values"]}
    return _document({**data, **declared}, file, raw, calls)


def _check_constants(module: Mapping[str, object], file: str, raw: bytes) -> None:
    """Raise ``ManifestError`` for constants such as ``RESOURCES``: named like a section, they would be ignored."""
    problems = [
        Problem(None, f"{name} is not read", "error", "", file, *constant_position(raw, name), "constant", advice)
        for name, advice in _UNREAD.items()
        if name in module
    ]
    if problems:
        raise ManifestError(problems)


def _document(
    data: Mapping[str, object], file: str, raw: bytes, calls: Mapping[str, Mapping[str, CallSite]]
) -> Document:
    """Return checked ``data`` as a document like a YAML file's, for the later stages.

    ``calls``: section → key → the author's call; positions are only computed from them for a problem.
    """
    index = partial(positions, calls, raw)
    return Document(read_mapping(data, file, index).data, file, raw, index)


def _inputs(constants: Document, arguments: Mapping[str, object]) -> Mapping[str, Any]:
    """Return the values of the inputs that the constant ``INPUTS`` declares, coerced, with defaults, as ``m.inputs``.

    ``arguments`` without a declaration are no problem here, since another file of the manifest may declare them; they
    are reported for the whole manifest. Raise ``ManifestError`` for an invalid value.
    """
    manifest = assemble([constants])
    declared = {name: value for name, value in arguments.items() if name in manifest.inputs}
    values, problems = input_values(manifest, declared)
    if problems:
        raise ManifestError(problems)
    return values


def _ephemeral(constants: Mapping[str, Any]) -> dict[str, PendingValue]:
    """Return the ephemeral inputs as pending values, which replace their values for ``manifest(m)``.

    An ephemeral value must not be recorded: where the author uses a reference to it, the compiler can check that.
    """
    inputs = constants.get("inputs") or {}
    return {name: _pending("inputs", name) for name, body in inputs.items() if body and body.get("ephemeral")}


def _execute(raw: bytes, file: str, builtin_names: Mapping[str, object]) -> dict[str, Any]:
    """Execute the code of a manifest, not yet its ``manifest(m)``; return the module's names with their values."""
    module: dict[str, object] = {"__name__": "__manifest__", "__file__": file, "__builtins__": builtin_names}

    def run() -> None:
        code: CodeType = compile(raw, file, "exec", dont_inherit=True)
        exec(code, module)  # noqa: S102 - a Python manifest is a program of its user

    _run_author_code(file, raw, run)
    return module


def _run_author_code(file: str, raw: bytes | None, run: Callable[[], object]) -> None:
    """Call ``run``, which executes the author's code; make an exception a ``ManifestError`` at its line.

    ``raw``: the file's bytes, or None to read them when needed.
    """
    try:
        run()
    except (ManifestError, KeyboardInterrupt):
        raise
    except (Exception, SystemExit) as error:
        position = raised_at(error, file, source(file) if raw is None else raw)
        message = error.msg if isinstance(error, SyntaxError) else reason(error, with_origin=False)
        message += library_hint(error, os.path.dirname(file) or ".", os.path.exists)
        raise document.manifest_error(file, position, "python", message) from error


def _check_executed(function: Callable[..., object], answer: Any) -> None:
    """Raise ``ManifestError`` if the author's ``manifest(m)`` returned a value: only calls of ``m`` are declarations.

    The code of a generator or a coroutine was not even executed by the call. A declared resource is accepted as the
    value, because a ``lambda`` with one call of ``m`` returns it.
    """
    kind, name = type(answer), getattr(function, "__name__", "manifest")
    if hasattr(kind, "__next__") or hasattr(kind, "__await__"):
        if hasattr(kind, "close"):
            answer.close()  # otherwise Python warns of a coroutine that was never awaited
        message = "must be a plain function: it has a yield, or is async, and has declared nothing"
    elif answer is None or isinstance(answer, DeclaredResource):
        return
    else:
        message = f"returns a value of the type {kind.__name__}, which declares nothing; call m.resource(...)"
    code = getattr(function, "__code__", None)
    file, line = (code.co_filename, code.co_firstlineno) if code is not None else ("", 0)
    raise document.manifest_error(file, (line, 1), "python", f"{name}(m) {message}")


def blueprint(
    definition: ComponentDefinition,
    function: Callable[[ComponentApi], object],
    facts: object,
    on_inputs: Callable[[Any], None],
) -> LoadedComponent:
    """Return a component that is ready for use: ``build`` is called for each of its resources in a manifest.

    ``function``: the author's ``build(m)``, which declares the resources within. ``on_inputs`` receives the inputs
    before each call of that function, to mask their secrets in the log.
    """
    code = getattr(function, "__code__", None)
    file, line = (code.co_filename, code.co_firstlineno) if code is not None else (definition.name, 1)

    def build(parent: str, title: str, inputs: Mapping[str, object]) -> Document:
        """Return the declarations within one resource of the component, ``Site[a]`` (``parent``) with its title.

        Every plan executes the author's code, which therefore must not change files.
        """
        on_inputs({name: value for name, value in inputs.items() if not _is_pending(value)})
        m = ComponentApi(file, parent, title, inputs, facts)
        with read_only("a component"):
            _run_author_code(file, None, lambda: _check_executed(function, function(m)))
        declared, calls = m.data()
        return read_mapping(
            declared, file, lambda: positions(calls, source(file), (line, 1)), scalars=(Sensitive, Content)
        )

    return LoadedComponent(definition, build)


def _is_pending(value: object) -> bool:
    """Return whether an input of a component is an expression without a value: there is nothing to mask."""
    return isinstance(unwrapped(value), Expression)


def _refusing(message: str) -> Callable[..., NoReturn]:
    """Return a method that raises ``TypeError``, for an operation that would silently have a wrong result.

    In ``if value:``, for example, a value that is not known yet would count as true, like any object in Python.
    """

    def refuse(self: object, *_arguments: object) -> NoReturn:
        raise TypeError(message.format(self))

    return refuse


class PendingValue:
    """A value that is not known while the manifest is executed: an attribute of a resource, or a function's result.

    It can be assigned to an attribute, indexed, and put into ``m.text``; any other use of the value raises
    ``TypeError``.
    """

    __slots__ = ("expression",)

    def __init__(self, expression: Expression) -> None:
        """Wrap the expression that yields the value."""
        self.expression = expression

    def __getitem__(self, key: str | int) -> PendingValue:
        """Return the pending value of a key or index in this value: ``${values.a}`` becomes ``${values.a.key}``.

        Raise ``TypeError`` for a key that cannot be written in an expression, and if this value is a text.
        """
        *before, last = self.expression.parts  # one path such as ``${values.a}``; with more parts it is a text
        if before or isinstance(last, str):
            raise TypeError(f"{self.expression} is text, and has no '{key}'")
        if isinstance(key, bool) or not isinstance(key, (str, int)):
            raise TypeError(f"{self.expression}: {_key_problem(key)}")
        step = Index(key) if isinstance(key, int) else key  # ``Index`` is written ``[0]``, a text ``.key``
        return PendingValue(Expression((last._replace(keys=(*last.keys, step)),)))

    def __repr__(self) -> str:
        """Return the expression."""
        return str(self.expression)

    __str__ = __format__ = __add__ = __radd__ = _refusing(
        "{0!r} is not known yet; write m.text('... {{0}} ...', value)"
    )
    #: With ``__getitem__`` alone, iteration would not end.
    __iter__ = __len__ = _refusing("{0!r} is not known yet: its items cannot be counted or iterated over")
    #: A manifest cannot branch on it; equality would be false, whatever the value will be.
    __bool__ = __contains__ = __eq__ = _refusing("{0!r} is not known yet and cannot be tested")
    __int__ = __float__ = __index__ = _refusing("{0!r} is not known yet and is no number")
    __hash__ = object.__hash__


def _pending(root: str | Reference, *keys: str) -> PendingValue:
    """Return the pending value of a reference, such as ``${values.address}``: a scope or a resource, and keys."""
    return PendingValue(Expression((ExpressionPath(root, keys),)))


def _key_problem(key: object) -> str:
    """Return why an object cannot be the key of a pending value, as in ``value[key]``.

    The key is written into an expression, such as ``${values.a.key}``, and must be a known text or integer.
    """
    if isinstance(key, PendingValue):
        return f"the key {key!r} is not known yet; use an input or a fact"
    if isinstance(key, Sensitive):
        return "a secret cannot be a key; write the reference in a YAML manifest, or use a value that is no secret"
    return f"a key is text or an integer, not of the type {type(key).__name__}"


class SecretInput(Sensitive[Any]):
    """A secret input: used unchanged, or in ``m.text``; any other text made of it raises ``TypeError``."""

    __slots__ = ()

    #: The text would not hold the secret, and be applied all the same.
    __str__ = __format__ = _refusing(
        "a secret cannot be formatted, the text would hold <sensitive>; write m.text('... {{0}} ...', value)"
    )


def _viewed(value: object) -> Any:
    """Return an input or a fact in the form for authors, at any depth.

    Mappings become a ``View``, whose keys are also attributes, and secrets a ``SecretInput``, which cannot become text.
    """
    if isinstance(value, dict):
        return View({key: _viewed(item) for key, item in value.items()})
    if isinstance(value, list):
        return [_viewed(item) for item in value]
    return SecretInput(value) if isinstance(value, Sensitive) else value


class DeclaredResource:
    """A declared resource: its attributes are pending values; the object itself is a reference in relationships."""

    _reference: Reference

    def __init__(self, reference: Reference) -> None:
        """Wrap ``reference``."""
        self.__dict__["_reference"] = reference

    def __getattr__(self, attribute: str) -> PendingValue:
        """Return an attribute's pending value; an attribute that the type lacks is reported when compiling."""
        if attribute.startswith("_"):  # no type has one: Python itself looks for such names, to copy for instance
            raise AttributeError(attribute)
        type_name, title = self._reference
        # Within an expression a ``${`` of the title must not begin another one.
        return _pending(Reference(type_name, escape_expressions(title)), attribute)

    __getitem__ = _refusing("{0} is a resource; write .NAME for an attribute of it, not ['NAME']")
    #: The declaration would not change.
    __setattr__ = __setitem__ = _refusing("{0} is declared already; give its attributes in the call that declares it")

    def __str__(self) -> str:
        """Return ``Type[title]``."""
        return str(self._reference)


class _MissingKeyError(KeyError):
    """A key that a mapping does not have; the text is a sentence."""

    def __str__(self) -> str:
        """Return the text as it is; ``KeyError`` would quote it."""
        return str(self.args[0])


def _key_as_attribute(self: Any, name: str) -> Any:
    """Return the value of a mapping's key, for ``__getattr__``. Raise ``AttributeError`` with the existing keys.

    Each class has a ``__getattr__`` of its own for it: type checkers do not accept an assigned one.
    """
    try:
        return self[name]
    except KeyError as error:
        raise AttributeError(str(error)) from None


class View(dict[str, Any]):
    """A mapping whose keys are attributes too: ``m.host.name``; mapping methods take precedence."""

    #: The key would keep its value.
    __setattr__ = _refusing("inputs, values and facts are not assigned to; use a variable")

    def __getattr__(self, name: str) -> Any:
        """Return the value of a key."""
        return _key_as_attribute(self, name)

    def __missing__(self, name: str) -> Any:
        """Raise ``KeyError`` with the keys that exist."""
        raise _MissingKeyError(f"there is no '{name}'; there is {', '.join(sorted(self)) or 'nothing'}")


class Inputs(View):
    """The inputs by name: ``m.inputs.domain``; inputs take precedence over mapping methods."""

    def __getattribute__(self, name: str) -> Any:
        """Return an input, or the mapping's attribute of that name."""
        return self[name] if name in self and not name.startswith("__") else super().__getattribute__(name)

    def __missing__(self, name: str) -> Any:
        """Raise ``KeyError`` with the declared inputs."""
        raise _MissingKeyError(f"there is no input '{name}'; declared are {', '.join(sorted(self)) or 'none'}")


class ManifestFacts(Mapping[str, Any]):
    """Facts by name, each read at its first use: ``m.facts.os.name``."""

    def __init__(self, facts: Any) -> None:
        """Read from ``facts``, which has ``[name]`` and ``names()``."""
        self._facts = facts

    def __getitem__(self, name: str) -> Any:
        """Return a fact, which is read at its first use. Raise ``KeyError`` with advice for an unknown name."""
        try:
            return _viewed(self._facts[name])
        except KeyError:
            names = self._facts.names()
            # ``os.name`` is a path into the fact ``os``, and no fact.
            part = f"write m.facts.{name}" if name.partition(".")[0] in names else ""
            advice = part or suggestion(name, names, "fact") or f"there is {', '.join(names)}"
            raise _MissingKeyError(f"there is no fact '{name}'; {advice}") from None

    def __getattr__(self, name: str) -> Any:
        """Read a fact."""
        return _key_as_attribute(self, name)

    def __iter__(self) -> Iterator[str]:
        """Yield the names, without reading facts."""
        return iter(self._facts.names())

    def __len__(self) -> int:
        """Return the number of facts."""
        return len(self._facts.names())


class ManifestApi:
    """The ``m`` of ``def manifest(m)``: declares resources, values and outputs; holds inputs and facts."""

    def __init__(self, file: str, inputs: Mapping[str, object], facts: object, values: Iterable[str] = ()) -> None:
        """Begin with no declarations; ``file`` is the author's, for line numbers.

        ``inputs``: name → value. ``values``: the names in the constant ``VALUES``, whose values are not known yet.
        """
        self.inputs = Inputs(_viewed(inputs))
        #: The values that ``VALUES`` names, pending: ``m.values.address``.
        self.values = View({name: _pending("values", name) for name in values})
        self.facts = ManifestFacts(facts)
        #: The name, groups and address of the host, as ``${host.name}`` has them.
        self.host = View(_viewed(getattr(facts, "host", {})))
        self._file = file
        #: Section → key → the value as a YAML manifest has it.
        self._sections: dict[str, dict[str, object]] = {"resources": {}, "outputs": {}, "values": {}}
        #: Section → key → the author's call that declared it, for the positions of problems.
        self._calls: dict[str, dict[str, CallSite]] = {"resources": {}, "outputs": {}, "values": {}}

    def resource(
        self, type_name: str, title: str, attributes: Mapping[str, object] | None = None, **more: object
    ) -> DeclaredResource:
        """Declare a resource; keywords are attributes or metaparameters. Return it, for relationships and attributes.

        Raises ``ManifestError`` for a second resource of the same name, and ``TypeError`` for a type or a title that is
        no text; numbers and paths may be titles.
        """
        _check_type_name(type_name)
        reference = Reference(uncapitalize_type(type_name), _title(type_name, title))
        body = {**(attributes or {}), **more}
        self._declare("resources", escape_expressions(f"{capitalize_type(reference.type)}[{title}]"), _plain(body))
        return DeclaredResource(self._qualified(reference))

    def _qualified(self, reference: Reference) -> Reference:
        """Return the name of a resource declared here in the whole manifest; in a component it has a prefix."""
        return reference

    def asset(self, **origin: object) -> dict[str, Any]:
        """Return the description of an asset, the value of an attribute: the same mapping as in a YAML manifest.

        ``origin`` is ``text=``, ``file=`` relative to the manifest, or ``url=`` with ``sha256=``. A later stage checks
        it, and reads the content.
        """
        return {"asset": origin}

    def archive(self, **origin: object) -> dict[str, Any]:
        """Return the description of an archive, the value of an attribute: the same mapping as in a YAML manifest.

        ``origin`` is ``file=``, ``url=`` with ``sha256=``, ``directory=`` or ``files=``. A later stage checks it, and
        reads the content.
        """
        return {"archive": origin}

    def output(self, name: str, value: object, *, sensitive: bool = False) -> None:
        """Declare an output of the stack, a value for users and other stacks.

        ``sensitive``: it is a secret, even if its value contains none. Raises ``TypeError`` for a name that is no text.
        """
        if not isinstance(name, str):
            raise TypeError(f"the name of an output must be text, not {name!r:.80}")
        plain = _plain(value)
        self._declare("outputs", name, {"value": plain, "sensitive": True} if sensitive else plain)

    def stack_output(self, stack: str, name: str) -> PendingValue:
        """Return an output of another stack, as a pending value; ``stack``: of this project, or ``PROJECT/STACK``."""
        return _pending("stacks", stack, name)

    def invoke(
        self, function: str, given: Mapping[str, object] | None = None, *, provider: str | None = None, **more: object
    ) -> PendingValue:
        """Call a provider's function; keywords are inputs, as the members of ``given`` are.

        ``provider`` is a configured provider, otherwise the type's default one. Return the pending answer, which can be
        indexed: ``answer["address"]``.
        """
        # Each call is a named value, as in YAML: ``address-1``, or the next number that no name in VALUES has.
        number, word = len(self._sections["values"]) + 1, function.rpartition(".")[2]
        while (name := f"{word}-{number}") in self.values:
            number += 1
        call = {"invoke": function, "with": _plain({**(given or {}), **more})}
        self._declare("values", name, call if provider is None else {**call, "provider": provider})
        return _pending("values", name)

    def text(self, template: str, *values: object) -> PendingValue | Sensitive[PendingValue]:
        """Return ``template`` with ``{0}``, ``{1}``, ... replaced by values, pending or not.

        Python's own formatting would need the values now. The result is sensitive if one of the values is. Raises
        ``ValueError`` for other fields, and for values that are no texts: null, lists and mappings.
        """
        parts: list[str | ExpressionPath] = []
        secret = False
        for literal, field in _fields(template):
            parts.append(literal)
            if field is not None:
                if field >= len(values):
                    raise ValueError(f"m.text has no value for {{{field}}}; the first one is {{0}}")
                value = values[field]
                secret = secret or isinstance(value, Sensitive)
                parts += _parts(unwrapped(value), f"{{{field}}}")
        result = PendingValue(Expression(tuple(part for part in parts if part != "")))
        return Sensitive(result) if secret else result

    def __getattr__(self, type_name: str) -> Callable[..., DeclaredResource]:
        """Return the function that declares a resource of a type, so that authors write ``m.file("/etc/motd", ...)``.

        Any name is accepted, also of an unknown type, which is reported when compiling.
        """
        if type_name.startswith("_"):  # no type has one: Python itself looks for such names
            raise AttributeError(type_name)

        def declare(
            title: Any = ..., attributes: Mapping[str, object] | None = None, **more: object
        ) -> DeclaredResource:
            """Declare a resource of the type. Raise ``TypeError`` with the correct form for a call without a title."""
            if title is ...:
                raise TypeError(f"the title is missing; write m.{type_name}('TITLE', ...)")
            return self.resource(type_name, title, attributes, **more)

        return declare

    def _declare(self, section: str, key: str, value: object) -> None:
        """Record a declaration, ``value`` as in YAML, with the author's call. Raise ``ManifestError`` if repeated."""
        call = current_call(self._file)
        first = self._calls[section].setdefault(key, call)
        if key in self._sections[section]:
            message = f"{key}: declared twice; first at {self._file}:{first.line}"
            raise document.manifest_error(self._file, call.position(source(self._file)), "duplicate", message)
        self._sections[section][key] = value

    def data(self) -> tuple[dict[str, Any], dict[str, dict[str, CallSite]]]:
        """Return the declarations as the data of a YAML manifest, and by section the call that declared each key."""
        data = {name: section for name, section in self._sections.items() if section or name != "values"}
        return data, self._calls


class ComponentApi(ManifestApi):
    """The ``m`` of ``def build(m)``: declares resources and outputs; holds its inputs, its title, and facts."""

    def __init__(self, file: str, parent: str, title: str, inputs: Mapping[str, object], facts: object) -> None:
        """Begin with no declarations for a resource of the component, with the reference ``parent`` and its ``title``.

        ``inputs`` may contain expressions, whose values are not known yet: for the author they are pending values.
        """
        super().__init__(file, {name: _as_pending(value) for name, value in inputs.items()}, facts)
        self._parent = parent
        self.title = title

    def _qualified(self, reference: Reference) -> Reference:
        return child_reference(self._parent, *reference)

    def invoke(self, function: str, *_given: object, **_more: object) -> NoReturn:
        """Raise ``TypeError``: a manifest calls functions and passes the answer as an input."""
        msg = f"a component cannot call '{function}'; call it in the manifest and pass the answer as an input"
        raise TypeError(msg)

    def data(self) -> tuple[dict[str, Any], dict[str, dict[str, CallSite]]]:
        """Return the sections as ``ManifestApi.data`` does, with references to the component's own resources qualified.

        Authors write ``File[/x]``, which is ``Site[a]/File[/x]`` in the whole manifest.
        """
        data, calls = super().data()
        declared = data["resources"]
        for body in declared.values():
            self._qualify(body, RELATIONSHIPS, declared)
            if isinstance(lifecycle := body.get("lifecycle"), dict):
                self._qualify(lifecycle, ("replace_triggered_by", "deleted_with"), declared)
        return data, calls

    def _qualify(self, body: dict[str, object], keys: Collection[str], declared: Mapping[str, object]) -> None:
        """Qualify, in place, the references under ``keys`` of a body: ``File[/x]`` becomes ``Site[a]/File[/x]``.

        Only references to ``declared`` resources of the component are changed; ``keys`` may have one or a list each.
        """
        for key in keys:
            if body.get(key) is not None:
                body[key] = self._resolved(body[key], declared)

    def _resolved(self, value: object, declared: Mapping[str, object]) -> Any:
        """Return references to ``declared`` resources with their names in the whole manifest, others as written.

        In the component ``Site[a]`` its own ``File[/x]`` becomes ``Site[a]/File[/x]``.
        """
        if isinstance(value, list):
            return [self._resolved(item, declared) for item in value]
        with suppress(ValueError):  # a text that is no reference is reported later
            if isinstance(value, str) and str(reference := parse(value)) in declared:
                return str(child_reference(escape_expressions(self._parent), *reference))
        return value


def _check_type_name(type_name: object) -> None:
    """Raise ``TypeError`` for a type that is no text, or a whole reference, as in ``m.resource('File[/a]')``."""
    if not isinstance(type_name, str):
        raise TypeError(f"the type must be text such as 'file', not {type_name!r:.80}")
    name, bracket, title = type_name.partition("[")
    if bracket:
        msg = f"type and title are two arguments: write m.resource({name.lower()!r}, {title.removesuffix(']')!r}, ...)"
        raise TypeError(msg)


def _title(type_name: str, title: object) -> str:
    """Return the title of a resource as text, also an integer or path. Raise ``TypeError`` with advice for others."""
    if isinstance(title, str):
        return title
    if type(title) is int or hasattr(title, "__fspath__"):
        return str(title)
    many = "; a resource is one thing: write a loop" if isinstance(title, (list, tuple, set)) else ""
    raise TypeError(f"the title must be text, not {title!r:.80}; write m.resource({type_name!r}, 'TITLE', ...){many}")


def _plain(value: object) -> Any:
    """Return a value of the author as YAML manifests write it, the only form for later stages.

    Pending values become ``${...}``, resources their names, and a ``${`` of a text is escaped. Raise ``ValueError`` for
    a value nested beyond Python's stack, such as a list that contains itself.
    """
    try:
        return map_leaves(value, _plain_leaf, _plain_key)
    except RecursionError:
        raise ValueError(f"a value is nested deeper than {document.MAX_DEPTH}") from None


def _plain_key(key: object) -> Any:
    """Return the key of a mapping as YAML manifests write it, where a ``${`` is escaped.

    Raise ``TypeError`` for a pending value and a secret, which YAML cannot have as a key either.
    """
    if isinstance(key, str):
        return escape_expressions(key)
    if isinstance(key, (PendingValue, Sensitive)):
        words = "a secret" if isinstance(key, Sensitive) else f"{key!r}, which is not known yet"
        advice = "make the whole mapping one value, such as the answer of m.invoke"
        raise TypeError(f"the key of a mapping cannot be {words}; {advice}")
    return key


def _plain_leaf(leaf: object) -> Any:
    """Return a single value, no list or mapping, as YAML manifests write it; see ``_plain``."""
    if isinstance(leaf, PendingValue):
        return str(leaf.expression)
    _check_method(leaf)
    return escape_expressions(str(leaf)) if isinstance(leaf, (str, DeclaredResource)) else leaf


def _check_method(value: Any) -> None:
    """Raise ``TypeError`` for a method of a mapping, as ``m.inputs.site.items``, if the mapping has that key.

    The author means the value under the key, and Python returns the method.
    """
    mapping = getattr(value, "__self__", None)
    if isinstance(mapping, View) and (name := value.__name__) in mapping:
        raise TypeError(f"'.{name}' is a method of mappings; write [{name!r}] for the value under that key")


def _parts(value: object, label: str) -> tuple[str | ExpressionPath, ...]:
    """Return a value of ``m.text`` as parts of an expression: the parts of a pending value, or a known value as text.

    Raise ``TypeError`` for a function, and ``ValueError`` with the field ``label`` for null and collections.
    """
    _check_method(value)
    if callable(value):
        raise TypeError(document.type_problem(value))
    if isinstance(value, PendingValue):
        return value.expression.parts
    return (text_of(value, label) if value is None or isinstance(value, (bool, list, dict)) else str(value),)


def _fields(template: str) -> list[tuple[str, int | None]]:
    """Split the template of ``m.text`` into literal texts, each with the number of the value after it, or None.

    Raise ``ValueError`` for fields such as ``{name}`` or ``{0:>5}``: an unknown value has no format.
    """
    fields: list[tuple[str, int | None]] = []
    for literal, field, spec, conversion in Formatter().parse(template):
        if field is None:
            fields.append((literal, None))
        elif field.isdecimal() and not spec and not conversion:
            fields.append((literal, int(field)))
        else:
            written = f"{field}{f'!{conversion}' if conversion else ''}{f':{spec}' if spec else ''}"
            raise ValueError(f"m.text takes {{0}}, {{1}}, ... only, not {{{written}}}")
    return fields


def _as_pending(value: object) -> Any:
    """Return an input of a component in the form for authors: each expression in it, at any depth, as a pending value.

    The value of an expression, such as another resource's attribute, is not known while the author's code is executed.
    """
    if isinstance(value, Expression):
        return PendingValue(value)
    if isinstance(value, dict):
        return {key: _as_pending(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_pending(item) for item in value]
    return Sensitive(_as_pending(value.reveal())) if isinstance(value, Sensitive) else value
