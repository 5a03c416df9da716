"""Evaluate the values of entries, check and canonicalize them, and set identities.

A value that only the state of another resource yields stays pending; the data type of its expression is inferred, to
report references that can never fit. Pure.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from operator import is_
from typing import TYPE_CHECKING, Any, TypeVar

from resource_api.catalog import canonicalize
from resource_api.catalog.expression_scope import InputError
from resource_api.catalog.resource_table import identify
from resource_api.model.attribute import METAPARAMETERS, AttributeSet
from resource_api.model.datatypes import messages, referred_values
from resource_api.model.entry import EMPTY
from resource_api.model.sealed_secrets import referred_value
from resource_api.model.values import expression
from resource_api.model.values.errors import DefinitionError, Problem, hint, suggestion
from resource_api.model.values.expression import Expression, ExpressionPath, parse
from resource_api.model.values.reference import Reference, capitalize_type
from resource_api.model.values.values import UNKNOWN, Sensitive, attribute_of, batches, is_unknown, place_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.catalog.diagnostics import Diagnostics
    from resource_api.catalog.expression_scope import Scope
    from resource_api.catalog.resource_table import ResourceTable
    from resource_api.model.attribute import Attribute
    from resource_api.model.datatypes.referred_values import Kinds
    from resource_api.model.entry import Entry
    from resource_api.model.type_definition import Resource, TypeDefinition

T = TypeVar("T")


def _item(written: Any, key: str) -> Any:
    """Return the item of a mapping or list at one key of a path, to infer its data type; None if there is none.

    The keys of paths are texts, also indices, as ``-1`` in ``${values.hosts[-1]}``.
    """
    if type(written) is dict:
        return written.get(key)
    return written[int(key)] if key.lstrip("-").isdecimal() and -len(written) <= int(key) < len(written) else None


def _key_problem(path: ExpressionPath, attribute: Attribute) -> str:
    """Return the error of a path to a key that its attribute's type rules out, as ``${Type[a].info.nmae}``, or ""."""
    if expression.has_choices(path):  # the keys are not known yet
        return ""
    missing = referred_values.missing_key(attribute.datatype.leaves, path.keys[1:])
    if not missing:
        return ""
    key, kinds = missing
    near = hint(key, [member for kind in kinds if kind.kind == "Struct" for member in kind.members])
    return f"{path}: there is no '{key}'{near or f'; it is {messages.alternatives(kinds)}'}"


def _within(kinds: Kinds, keys: tuple[str, ...]) -> Kinds:
    """Return the possible data types of the part at ``keys`` of a value that has one of the data types ``kinds``.

    The value itself may be unknown until a run: by its types the compiler already reports that ``${Type[a].info.port}``
    cannot fit an attribute.
    """
    for key in keys:
        kinds = referred_values.part_kinds(kinds, key)
    return kinds


class Evaluator:
    """Evaluates the values of a table's entries, and those that belong to no resource."""

    def __init__(self, table: ResourceTable, diagnostics: Diagnostics, scope: Scope) -> None:
        """Prepare to evaluate the entries of ``table``; ``scope`` resolves their expressions."""
        #: Entry → the entries that its values refer to.
        self.references: dict[Entry, list[Entry]] = {}
        self._table = table
        self._diagnostics = diagnostics
        self.scope = scope
        #: The named values that something uses: the rest is checked by ``check_unused_values``.
        self._used: set[str] = set()
        self._resolve = scope.resolver(self._of_resource)
        #: The errors of components' inputs: values that pass these on are not reported too.
        self._of_inputs: set[str] = set()
        #: The same tuple of attribute names for all resources that have them: nearly all of ten thousand do.
        self._attribute_names: dict[tuple[str, ...], tuple[str, ...]] = {}

    def evaluate_entries(self) -> None:
        """Evaluate all entries: those without references by type, then the rest in the order of references.

        One call of a provider canonicalizes many of its entries; an entry with references needs the canonical values of
        those before it.
        """
        independent: dict[str, list[Entry]] = {}  # ``_not_literal`` adds the literal ones
        for entry in self._not_literal(independent):
            values = _written_values(entry)
            if paths := self._resource_paths(entry, values):
                targets = {name: self._targets(attribute_paths) for name, attribute_paths in paths.items()}
                entry.sources = {name: sources for name, sources in targets.items() if sources}
                self.references[entry] = list(chain.from_iterable(map(self._prerequisites, paths.values())))
            else:
                self._evaluate(entry)
                independent.setdefault(entry.instance, []).append(entry)
        for entries in independent.values():
            for batch in batches(entries):
                self._canonicalize(batch)
        for entry in referenced_first(self.references):
            self._evaluate(entry)
            self._canonicalize([entry])

    def _not_literal(self, literal: dict[str, list[Entry]]) -> Iterator[Entry]:
        """Yield the entries with expressions; add the literal ones, without any, to ``literal`` by provider instance.

        One look at all values of a batch is faster than one for each entry, and mostly all of them are literal.
        """
        for batch in batches(self._table.entries):
            all_literal = expression.are_literal(
                [value for entry in batch for value in _written_values(entry).values()]
            )
            for entry in batch:
                if all_literal or all(map(expression.is_literal, _written_values(entry).values())):
                    literal.setdefault(entry.definition.instance, []).append(entry)
                else:
                    yield entry

    def check_calls(self) -> None:
        """Report references in the inputs of functions whose data types can never fit, before a function is called."""
        for name, call in self.scope.calls.items():
            if call is None:
                continue  # it is reported
            inputs = call.function.inputs.attributes
            for key, value in call.arguments.items():
                if key in inputs and not expression.is_literal(value):
                    for message in self.misfits(key, inputs[key], value):
                        self._diagnostics.value_error(name, ("with", key), message)

    def recheck_named_values(self) -> None:
        """Report named values that are invalid now that the outputs of components are known."""
        if self._table.components:
            check_named_values(self._diagnostics, self.scope, self.scope.resolver(self._of_resource, once=True))

    def check_components(self) -> None:
        """Report wrong inputs and outputs of components at their declarations, and not again at each use.

        ``_of_inputs`` gets the messages of wrong inputs, which attributes with the same message then do not repeat. A
        wrong output becomes ``UNKNOWN``, so that values which use it have no error of their own.
        """
        components = list(dict.fromkeys(self._table.components.values()))
        resolve = self.scope.resolver(self._of_resource, once=True)
        for component in components:
            for name, value in component.declaration.attributes.items():
                if (message := self._evaluation_error(value, resolve)) and message not in self._of_inputs:
                    self._diagnostics.resource_error(component, name, message, "expression")
                    self._of_inputs.add(message)
        wrong = []
        for component in reversed(components):  # those within others come first: an output may use their outputs
            for name, value in component.outputs.items():
                if message := self._evaluation_error(value, resolve):
                    wrong.append((component, name, message))
                    component.outputs = {**component.outputs, name: UNKNOWN}
        for component, name, message in reversed(wrong):
            if message not in self._of_inputs:
                self._diagnostics.component_error(component, name, f"output '{name}': {message}", "expression")

    def _evaluation_error(self, value: object, resolve: Callable[[ExpressionPath], Any]) -> str:
        """Return the error of evaluating the expressions in a value, or "", for checks that do not need the result."""
        try:
            if not expression.is_literal(value):
                self.evaluate(value, resolve)
        except ValueError as error:
            return str(error)
        return ""

    def check_unused_values(self) -> None:
        """Report invalid named values that nothing uses: the evaluation of used ones reports their errors."""
        resolve = self.scope.resolver(self._of_resource, once=True)
        for name in self._diagnostics.manifest.values:
            if name not in self._used and (message := self._evaluation_error(named_value(name), resolve)):
                self._diagnostics.value_error(name, (), message, "expression")

    def check_unused_defaults(self) -> None:
        """Report invalid ``defaults`` of types of which the file declares no resource.

        All other defaults are checked as values of the resources that inherit them.
        """
        manifest = self._diagnostics.manifest
        inherited = {(declared.file, declared.type) for declared in manifest.resources} if manifest.defaults else ()
        for file, defaults in manifest.defaults.items():
            for type_name, values in defaults.items():
                if (file, type_name) in inherited:
                    continue
                for problem in self._default_problems(type_name, values):
                    spelt = f"{problem.attribute}_"  # an attribute that is called like a metaparameter
                    key = spelt if spelt in values else problem.attribute
                    position = manifest.defaults_place(file, type_name, *filter(None, [key]))
                    message = f"defaults of {capitalize_type(type_name)}: {problem.message}"
                    self._diagnostics.problems.append(problem._replace(message=message, **position._asdict()))

    def check_without_resource(self) -> None:
        """Report mistakes in the literal values of declarations without resources, because of ``when`` or ``for_each``.

        Otherwise the first machine with such a resource would report them. Named values in these declarations count as
        used: they need not be valid here (contract §10.6).
        """
        declarations = self._table.left_out.declarations() + self._table.empty
        distinct = {(declared.file, declared.key, declared.parent): declared for declared in declarations}
        for declared in distinct.values():
            for value in declared.attributes.values():
                with suppress(ValueError):
                    list(self._paths(value))  # records the named values as used
            for problem in self._default_problems(declared.type, declared.attributes, literal=True):
                self._diagnostics.declaration_error(
                    declared, problem.message, problem.code, problem.attribute, hint=problem.hint
                )

    def _default_problems(
        self, type_name: str, defaults: Mapping[str, object], *, literal: bool = False
    ) -> Iterator[Problem]:
        """Yield the problems of values for attributes of a type that no resource has: otherwise nothing checks them.

        They are unknown and ``read_only`` attributes and invalid values. ``literal``: values with expressions, which
        may be invalid on this host alone, are not checked.
        """
        try:
            declared = AttributeSet(self._table.attributes(type_name))
        except DefinitionError as error:
            yield Problem(None, str(error), code="type")
            return
        for name, written in declared.renamed(defaults).items():
            if name not in declared.attributes:
                advice = suggestion(name, declared.attributes.keys() | METAPARAMETERS, "attribute", type_name)
                yield Problem(name, f"unknown attribute '{name}'", code="unknown_attribute", hint=advice)
            elif declared.attributes[name].kind == "read_only":
                yield Problem(name, f"'{name}' is read_only; it is reported, never set", code="read_only")
            elif written is not None and not (literal and _has_path(written)):
                yield from self._default_value_problems(declared, name, written)

    def _default_value_problems(self, declared: AttributeSet, name: str, written: object) -> Iterator[Problem]:
        """Yield the problems of a value for the attribute ``name`` that no resource has.

        The value is evaluated, and checked by its data type if it is known now.
        """
        try:
            value = self.evaluate(written)
        except ValueError as error:
            yield Problem(name, str(error), code="expression")
            return
        datatype = declared.attributes[name].datatype
        # Assets and archives are made for resources only: a default is still their description.
        if not is_unknown(value) and not datatype.holds_contents:
            yield from canonicalize.check_values(declared, {name: datatype.conceal(value)}, {name: written})

    def evaluate(self, value: object, resolve: Callable[[ExpressionPath], Any] | None = None) -> Any:
        """Return a value that belongs to no resource, such as an output, as far as it is known.

        Raise ``ValueError``, also for a path to an unknown resource, attribute or key: its evaluation alone would yield
        an unknown value without an error.
        """
        for path in self._paths(value):
            if isinstance(path.root, Reference) and (message := self._path_problem(path)):
                raise ValueError(message)
        return expression.evaluate(value, resolve or self._resolve)

    def prerequisites(self, value: object) -> list[Entry]:
        """Return the entries that must come before a value that belongs to no resource."""
        return self._prerequisites([path for path in self._paths(value) if isinstance(path.root, Reference)])

    def _paths(self, value: object) -> Iterator[ExpressionPath]:
        """Yield the paths of a value and of the named values that it uses, and record these as used.

        The error of a used named value is reported with its user; ``check_unused_values`` checks the rest.
        """
        for path in self.scope.paths(value):
            if path.root == "values":
                self._used.add(path.keys[0])
            yield path

    def _resource_paths(self, entry: Entry, values: dict[str, Any]) -> dict[str, list[ExpressionPath]]:
        """Return the paths to other resources in ``values``, by attribute: they order the entry after those resources.

        Report an invalid value, and replace it by ``UNKNOWN``. The error of a component's input has been reported; it
        is not repeated for the attributes that use the input.
        """
        resource_paths = {}
        for name, value in values.items():
            if expression.is_literal(value):
                continue
            try:
                paths = [path for path in self._paths(value) if isinstance(path.root, Reference)]
                message = next(filter(None, map(self._path_problem, paths)), "")
                message = message or self._ephemeral_problem(entry, name, value)
            except ValueError as error:
                paths, message = [], str(error)
            if message:
                if not (entry.declaration.parent and message in self._of_inputs):
                    self._diagnostics.attribute_error(entry, name, message, "expression")
                values[name] = UNKNOWN
            elif paths:
                resource_paths[name] = paths
        return resource_paths

    def _ephemeral_problem(self, entry: Entry, name: str, value: object) -> str:
        """Return the error of an attribute that would record an ephemeral input, or "".

        Only a parameter or a ``write_only`` attribute may use one, because the state needs no value of theirs. The
        attribute is added to ``entry.ephemeral``: it is not recorded, and no other value may refer to it.
        """
        if not (source := self.scope.ephemeral_input(value)):
            return ""
        entry.ephemeral = (*entry.ephemeral, name)
        attribute = entry.definition.attributes.get(name)
        fits = attribute is None or attribute.kind == "parameter" or attribute.write_only
        return "" if fits else _ephemeral(source)

    def refuse_ephemeral(self, value: object) -> None:
        """Raise ``ValueError`` if a value that will be recorded is made from an ephemeral input."""
        if source := self.scope.ephemeral_input(value):
            raise ValueError(_ephemeral(source))

    def _targets(self, paths: Sequence[ExpressionPath]) -> list[Entry]:
        """Return the resources that paths lead to, also through the outputs of components."""
        return list(filter(None, map(self._find, paths)))

    def _prerequisites(self, paths: Sequence[ExpressionPath]) -> list[Entry]:
        """Return the resources that must precede a value with these paths: the resources to which the paths lead.

        A value that uses an output of a component comes after all resources of the component, because the output
        stands for the whole of it.
        """
        components = [self._table.components.get(path.root) for path in paths if isinstance(path.root, Reference)]
        return [
            *self._targets(paths),
            *(member for component in components if component is not None for member in component.members),
        ]

    def _find(self, path: ExpressionPath) -> Entry | None:
        """Return the entry that a path into a resource leads to, or None."""
        assert isinstance(path.root, Reference)
        return self._table.find(path.root)

    def _path_problem(self, path: ExpressionPath) -> str:
        """Return the error of a path to an unknown resource, attribute or key, or "" for none or a reported one."""
        target = self._find(path)
        if target is None:
            assert isinstance(path.root, Reference)
            # An unknown output of a component is reported when it is looked up.
            if self._table.is_broken(path.root.type) or path.root in self._table.components:
                return ""
            if (left_out := self._table.left_out.find(path.root)) is not None:
                return f"{path}: {path.root} is left out: {left_out.located_reason}"
            # The comparison with the names of all resources takes too long for each of many errors.
            names = () if self._diagnostics.many else map(str, self._table.references())
            return f"{path}: unknown resource '{path.root}'{hint(path.root, names)}"
        if path.keys[0] not in target.definition.attributes:
            return f"{path}: unknown attribute '{path.keys[0]}'{hint(path.keys[0], target.definition.attributes)}"
        return "" if len(path.keys) == 1 else _key_problem(path, target.definition.attributes[path.keys[0]])

    def _evaluate(self, entry: Entry) -> None:
        """Evaluate the expressions of an entry in place; values that only a state yields become unknown and pending.

        A pending value is evaluated again in the plan and in the run. A wrong expression is reported and becomes
        unknown too, so that mistakes of other attributes are found.
        """
        values = _written_values(entry)
        pending = {}
        for name, value in values.items():
            if expression.is_literal(value):
                continue
            try:
                result = self.scope.attribute_value(entry, name, value, self._resolve)
            except ValueError as error:
                self._diagnostics.attribute_error(entry, name, str(error), "expression")
                values[name] = UNKNOWN
                continue
            attribute = entry.definition.attributes.get(name) if is_unknown(result) else None
            for message in self.misfits(entry.definition.spelling(name), attribute, value) if attribute else ():
                self._diagnostics.attribute_error(entry, name, message, "type_mismatch")
            if result is not value and is_unknown(result):  # a declared unknown waits for nothing
                pending[name] = value
            values[name] = result
        entry.pending = pending or EMPTY

    def misfits(self, name: str, attribute: Attribute, value: object) -> Iterator[str]:
        """Yield a message for each reference in a value whose data type can never fit the attribute ``name``."""
        for key_path, expected, actual, written in referred_values.misfits(
            attribute.datatype.leaves, value, self._kinds_of
        ):
            wants, is_ = messages.alternatives(expected, attribute.must_be), messages.alternatives(actual)
            yield f"{name}{place_text(key_path)} must be {wants}, and {written} is {is_}"

    def _kinds_of(self, path: ExpressionPath) -> Kinds:
        """Return the possible data types of a path's value, to find misfits; () if they are unknown.

        They follow from the definition of a type or function, or from the expression of a named value or output.
        """
        if expression.has_choices(path):  # other paths give some of its keys, which are not known
            return ()
        if path.root == "values":
            name, call = path.keys[0], self.scope.calls.get(path.keys[0])
            if call is not None:
                return _within(call.function.datatype.leaves, path.keys[1:])
            if name in self.scope.calls:  # an invalid value, which has been reported
                return ()
            return self._written_kinds(self._diagnostics.manifest.values.get(name), path.keys[1:])
        written = path.root if isinstance(path.root, Reference) else None
        root = self.scope.resolve_name(written) if written is not None else None
        if root is None:
            return ()
        if (component := self.scope.components.get(root)) is not None:
            return self._written_kinds(component.outputs.get(path.keys[0]), path.keys[1:])
        target = self._find(path._replace(root=root))
        attribute = target.definition.attributes.get(path.keys[0]) if target is not None else None
        return _within(attribute.datatype.leaves, path.keys[1:]) if attribute is not None else ()

    def _written_kinds(self, written: object, keys: tuple[str, ...]) -> Kinds:
        """Return the possible data types of the part at ``keys`` of a named value or output; () if they are unknown.

        They follow from its expression. If it is a single reference, the keys extend the reference's path: for
        ``${Type[a].info}`` and the key ``port`` the result is that of ``${Type[a].info.port}``.
        """
        while keys and type(written) in {dict, list}:
            written, keys = _item(written, keys[0]), keys[1:]
        parsed = parse(written) if type(written) is str and "${" in written else written
        if type(parsed) is Sensitive:
            return self._written_kinds(parsed.reveal(), keys)
        if not isinstance(parsed, Expression):
            return ()
        first = parsed.parts[0]
        if len(parsed.parts) == 1 and isinstance(first, ExpressionPath):
            return self._kinds_of(first._replace(keys=(*first.keys, *keys)))
        return () if keys else referred_values.kinds_as_written(parsed, self._kinds_of)

    def _of_resource(self, path: ExpressionPath) -> Any:
        """Return the declared value of a path into a resource, or ``UNKNOWN`` if the real value may be another one.

        It may be if the attribute is undeclared, ignored, canonicalized later or completed by the provider: then the
        state yields the value. Raise ``ValueError`` for an ephemeral value, which must not be recorded elsewhere.
        """
        target = self._find(path)
        if target is not None and path.keys[0] in target.ephemeral:
            raise ValueError(f"{path} is ephemeral: write the expression that it is declared with")
        if target is None or path.keys[0] not in target.should:
            return UNKNOWN
        if target.meta.lifecycle.external or path.keys[0] in map(attribute_of, target.meta.lifecycle.ignore_changes):
            # The declared value is not applied: only reading yields the value.
            return UNKNOWN
        if target.instance in self._table.missing:
            # Its canonical form is not known yet.
            return UNKNOWN
        if is_completed(path, target.definition, target.should):
            return UNKNOWN
        value = expression.follow_keys(target.should[path.keys[0]], path, path.keys[1:])
        return referred_value(target.definition, path.keys[0], value)

    def _canonicalize(self, entries: Sequence[Entry]) -> None:
        """Set the desired values of one provider's resources: defaults, checks, canonical form; identify valid ones."""
        provider = self._table.provider(entries[0].instance)
        filled = [self._fill_defaults(entry) for entry in entries]
        canonical, problems = canonicalize.canonicalize(provider, filled, lambda index: self._declared(entries[index]))
        for index, (entry, before, should) in enumerate(zip(entries, filled, canonical, strict=True)):
            entry.should, names = should, entry.written
            # State records the declared values beside the canonical ones. To save memory ``written`` is only a tuple of
            # names while both are the same objects; if canonicalizing has changed any, it becomes a mapping of values.
            has_names = should is not before and type(names) is tuple
            if has_names and not all(map(is_, map(should.get, names), map(before.get, names))):
                entry.written = {name: before.get(name) for name in names}
            if index not in problems or not self._report(entry, problems[index]):
                identify(entry, self._table, self._diagnostics, self.scope)

    def _report(self, entry: Entry, problems: Sequence[Problem]) -> bool:
        """Report the problems of an entry. Return whether any is an error: such an entry gets no identity.

        A missing attribute is not reported if it was the suggestion for an unknown one, since that is the same mistake;
        it counts as an error all the same.
        """
        suggested = self._diagnostics.suggested(entry)
        hidden = [canonicalize.missing_attribute(entry.definition, name) for name in suggested]
        for problem in problems:
            if problem not in hidden:
                self._diagnostics.add_of_attribute(entry, problem)
        return any(problem.severity == "error" for problem in problems)

    def _declared(self, entry: Entry) -> Mapping[str, Any]:
        """Return the declared values of an entry, with their references, for messages."""
        values = {**self._diagnostics.manifest.defaults_of(entry.declaration), **entry.declaration.attributes}
        return entry.definition.renamed(values) if entry.definition.spelt else values

    def _fill_defaults(self, entry: Entry) -> Resource:
        """Return an entry's values with defaults, and set ``written``, the declared values that state records.

        To save memory ``written`` holds only the attributes' names, as the values are in ``should`` too. An entry with
        pending or sensitive values needs a copy, because these are replaced or wrapped in ``should``.
        """
        values = _written_values(entry)
        if entry.pending or entry.definition.sensitive:
            entry.written = values.copy()
        else:
            names = tuple(values)
            entry.written = self._attribute_names.setdefault(names, names)
        return canonicalize.fill_defaults(entry.definition, values)


def _ephemeral(name: str) -> str:
    """Return the message that an ephemeral input would be recorded."""
    rule = "only parameters, write_only attributes and configurations of providers can be made from it"
    return f"the input '{name}' is ephemeral, so that nothing of it is recorded: {rule}"


def _has_path(value: object) -> bool:
    """Return whether a value contains an expression, valid or not.

    What it yields may depend on the host, so it is not checked for a declaration without resources on this host.
    """
    try:
        return next(expression.find_paths(value), None) is not None
    except ValueError:
        return True


def _written_values(entry: Entry) -> Resource:
    """Return the mapping, not a copy, of an entry's written values, to change it in place before canonicalizing."""
    assert type(entry.written) is dict
    return entry.written


def is_completed(path: ExpressionPath, definition: TypeDefinition, should: Mapping[str, object]) -> bool:
    """Return whether a path leads to a key that the declared value does not have, but its provider may add.

    Only a provider with the feature ``plan`` completes declared values: the path's value is unknown until its answer.
    For all others such a path is an error.
    """
    if len(path.keys) == 1 or "plan" not in definition.features:
        return False
    try:
        expression.follow_keys(should[path.keys[0]], path, path.keys[1:])
    except expression.EvaluationError:
        return True
    return False


def check_named_values(diagnostics: Diagnostics, scope: Scope, resolve: Callable[[ExpressionPath], Any]) -> None:
    """Report invalid named values, as far as ``resolve`` yields their parts; ``scope.calls`` marks them by None.

    A value comes after the values that it refers to, so a mistake is reported at its own position only. The result of
    a pure function of known inputs never changes (contract §10.12): ``scope.constants`` caches it.
    """
    written = diagnostics.manifest.values
    for name in referenced_first({name: _used_names(value) for name, value in written.items()}):
        if scope.calls.get(name, name) is None:  # it is invalid, and reported
            continue
        try:
            value = expression.evaluate(named_value(name), resolve)
        except ValueError as error:
            path = ("with", error.key) if isinstance(error, InputError) and error.key else ()
            diagnostics.value_error(name, path, str(error), "expression")
            scope.calls = {**scope.calls, name: None}  # wherever it is used it is ``UNKNOWN``, not reported again
        else:
            if name in scope.calls and not is_unknown(value):
                scope.constants[name] = value


def named_value(name: str) -> Expression:
    """Return the expression ``${values.name}``, whose evaluation also checks for cycles and limits."""
    return Expression((ExpressionPath("values", (name,)),))


def _used_names(value: object) -> list[str]:
    """Return the named values that a value refers to, which are evaluated before it.

    Return none for an invalid value, which is reported on evaluation.
    """
    try:
        return [path.keys[0] for path in expression.find_paths(value) if path.root == "values"]
    except ValueError:
        return []


def referenced_first(references: Mapping[T, Sequence[T]]) -> list[T]:
    """Return the keys of ``references`` in the order to evaluate them: each after the keys that it refers to.

    Keys in a cycle come in any order. The search in depth uses a stack, because chains of references may be longer than
    Python's limit of recursion.
    """
    ordered: dict[T, None] = {}
    for start in references:
        stack = [start]
        inside = {start}
        while stack:
            following = next(
                (t for t in references[stack[-1]] if t in references and t not in ordered and t not in inside), None
            )
            if following is None:
                ordered[stack.pop()] = None
            else:
                inside.add(following)
                stack.append(following)
    return list(ordered)
