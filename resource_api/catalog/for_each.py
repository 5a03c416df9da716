"""Make the declarations of ``for_each`` and ``when``: one for each element, none where the condition does not hold.

The result is as if it were written by hand: references to the element are replaced by its values, everything else stays
as written. A declaration that is left out is kept with the reason (contract §10.5, §10.6). Pure.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog.resource_table import LeftOut
from resource_api.manifest import conditions, metaparameters
from resource_api.manifest.conditions import ConditionError, NotKnownError
from resource_api.model.attribute import CARDINALITY, EVALUATED, MISSING
from resource_api.model.datatypes.referred_values import with_texts
from resource_api.model.declaration import Declaration, Derivation, Element
from resource_api.model.values import document, expression
from resource_api.model.values.errors import DefinitionError, hint
from resource_api.model.values.expression import ChosenKey, EvaluationError, Expression, ExpressionPath
from resource_api.model.values.reference import Reference, child_reference
from resource_api.model.values.values import (
    SCALAR_TYPES,
    UNKNOWN,
    Sensitive,
    as_list,
    escape_expressions,
    is_secret,
    is_unknown,
    leaves,
    literal,
    map_leaves,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.catalog.diagnostics import Diagnostics
    from resource_api.catalog.expression_scope import Scope
    from resource_api.catalog.resource_table import ResourceTable
    from resource_api.model.attribute import Attribute
    from resource_api.model.declaration import Manifest

    #: Returns a value with the references to an element replaced.
    Template = Callable[[Element], Any]
    Resolve = Callable[[ExpressionPath], Any]

_EACH: Final = "each."
#: The metaparameters that are texts: a number or a Boolean is written as in texts.
_TEXT_METAPARAMETERS: Final = frozenset({"tag", "alias"})
#: The types of values whose text holds no secret and no path.
_IN_TEXTS: Final = frozenset({str, int, float, bool})
#: The types of elements of a list that are their own keys.
_KEY_TYPES: Final = frozenset({str, int, float})


class DeclarationMaker:
    """Makes the declarations of one manifest or component, and reports mistakes."""

    def __init__(
        self, table: ResourceTable, diagnostics: Diagnostics, scope: Scope, inputs: Mapping[str, object] | None = None
    ) -> None:
        """Evaluate collections and conditions in ``scope``; omitted declarations are added to ``table``.

        ``inputs`` are the inputs of the component that contains the declarations, to which ``${inputs.x}`` in them
        refers. They are None outside of components, where it refers to the manifest's inputs.
        """
        self._table = table
        self._diagnostics = diagnostics
        self._scope = scope
        self._inputs = inputs
        self._resolve_path = scope.resolver(_refuse_resource)

    def _resolve(self, path: ExpressionPath) -> Any:
        """Return the value of a path in a collection or condition. Raise ``ValueError`` if it cannot be known yet.

        In a component ``inputs`` are the component's own. Such an input is ``UNKNOWN`` as long as it holds an
        expression that waits for a resource.
        """
        if path.root != "inputs" or self._inputs is None:
            return self._resolve_path(path)
        if path.keys[0] not in self._inputs:
            raise ValueError(f"{path}: the component has no input '{path.keys[0]}'{hint(path.keys[0], self._inputs)}")
        chosen, secret = expression.with_choices(path, self._resolve)
        if chosen is None:
            return UNKNOWN
        path, value = chosen, self._inputs[path.keys[0]]
        pending = any(isinstance(leaf, Expression) for _, leaf in leaves(value))
        value = UNKNOWN if pending else expression.follow_keys(value, path, path.keys[1:])
        return Sensitive(value) if secret else value

    def make(self, written: Declaration) -> Iterator[Declaration]:
        """Yield the declarations that a ``written`` one with ``for_each`` or ``when`` stands for, possibly none.

        The expressions in their names are evaluated later. A condition without ``each`` is judged before the
        collection: where it does not hold, the collection need not be valid.
        """
        loop, when = map(written.meta.get, ("for_each", "when"))
        meta = {name: value for name, value in written.meta.items() if name not in CARDINALITY}
        plain = written._replace(meta=meta, derivation=Derivation())
        try:
            condition = _parse(True if when is None else when, has_elements=loop is not None)
            at_once = not condition.uses_each  # then it is judged once, for all elements
            reason = condition.judge(self._resolve) if at_once else ""
        except ConditionError as error:
            self._error(plain, "when", error)
            return
        if reason:
            self._leave_out(plain, reason)
        elif loop is None:
            yield plain
        elif (elements := self._valid_elements(plain, loop)) is not None:
            yield from self._repeated(plain, elements, conditions.TRUE if at_once else condition)

    def _leave_out(self, declared: Declaration, reason: str) -> None:
        """Record a declaration whose condition does not hold, so that errors of references to it have the ``reason``.

        It is recorded by all names that a reference may use: title, aliases and namevar. If its title cannot be
        evaluated, as without an element of ``for_each``, a pattern stands for the names.
        """
        try:
            name = self._scope.resolve_name(Reference(declared.type, declared.title))
        except ValueError:
            name = None
        position = self._diagnostics.manifest.place(declared, "when")
        if name is None:
            left_out = LeftOut(str(declared.reference), reason, position, declared)
            self._table.left_out.add(left_out, (), _title_pattern(declared))
            return
        declared = declared._replace(title=name.title)
        titles = [name.title, *as_list(declared.meta.get("alias")), *self._namevar_title(declared)]
        names = [str(child_reference(declared.parent, declared.type, title)) for title in titles]
        self._table.left_out.add(LeftOut(names[0], reason, position, declared), names)

    def _namevar_title(self, declared: Declaration) -> list[str]:
        """Return the literal value of a declaration's only namevar: references may use it as a title."""
        namevars = self._namevars(declared)
        value = declared.attributes.get(namevars[0]) if len(namevars) == 1 else None
        return [value] if type(value) is str and expression.is_literal(value) else []

    def _attributes(self, declared: Declaration) -> Mapping[str, Attribute]:
        """Return the attributes of a type, or the inputs of a component, to convert elements' values to their types.

        Return none for an unknown type, which is reported where its resources are built.
        """
        try:
            return self._table.attributes(declared.type)
        except DefinitionError:
            return {}

    def _namevars(self, declared: Declaration) -> Sequence[str]:
        """Return the namevars of a resource, which may stand in place of its title.

        Return none for a component, and for an unknown type, which is reported where its resources are built.
        """
        try:
            component = self._table.component(declared.type)
            return () if component is not None else self._table.provider(declared.type).definition.namevars
        except DefinitionError:
            return ()

    def _valid_elements(self, declared: Declaration, written: object) -> list[Element] | None:
        """Return the elements of the collection ``written`` in ``for_each``, or None for an invalid one, reported.

        The type of the declaration then becomes incomplete, so that references to its missing resources are no
        further errors.
        """
        try:
            value = expression.evaluate(written, self._resolve)
            if self._scope.uses_invalid(written):
                self._table.incomplete.add(declared.type)
                return None
            return list(_elements(value))
        except ValueError as error:
            cause = error if isinstance(error, ConditionError) else ConditionError(str(error))
            self._error(declared, "for_each", _explain_each(written) or cause)
        return None

    def _repeated(
        self, declared: Declaration, elements: Sequence[Element], condition: conditions.Condition
    ) -> Iterator[Declaration]:
        """Yield the declaration of each element that fulfils the condition; record the others as left out.

        Names must depend on the element: otherwise all would declare the same resource. A wrong attribute is reported
        for the first element only.
        """
        namevars = [str(declared.attributes.get(name)) for name in self._namevars(declared)]
        if not any(_EACH in text for text in (declared.title, *namevars)):
            message = "each is in neither the title nor a namevar, so that all elements make the same resource"
            self._error(declared, "for_each", ConditionError(message, (), "write ${each.key} into the title"))
            return
        if not elements:
            self._table.empty.append(declared)
        templates = _Templates(declared, elements, self._resolve, self._attributes(declared))
        wrong = set[str | None]()  # attributes, or None for the title: the first wrong element is reported
        for element in elements:
            try:
                declaration = templates.declaration(element)
                is_met = condition is conditions.TRUE
                reason = "" if is_met else condition.judge(partial(templates.resolve, element))
            except _TemplateError as error:
                if error.attribute not in wrong:
                    wrong.add(error.attribute)
                    self._error(declared._replace(derivation=Derivation(element)), error.attribute, error.cause)
            except ConditionError as error:
                self._error(declared._replace(derivation=Derivation(element)), "when", error)
            else:
                if reason:
                    self._leave_out(declaration, reason)
                else:
                    self._check_meta(declaration, templates.names)
                    yield declaration

    def _check_meta(self, declared: Declaration, names: Sequence[str]) -> None:
        """Report metaparameters that an element's values make invalid.

        ``names``: the metaparameters that depend on the element; the rest was checked when the manifest was read.
        """
        for name in names:
            value = declared.meta.get(name)
            if value is None or (name in EVALUATED and expression.holds_expressions(value)):
                continue  # checked once it is known
            for violation in metaparameters.violations(name, value):
                self._error(declared, name, ConditionError(violation.message, violation.path[1:], violation.hint))

    def _error(self, declared: Declaration, attribute: str | None, error: ValueError) -> None:
        """Report a mistake in ``for_each``, ``when`` or an element's value, unless an invalid input is its cause.

        The type becomes incomplete: references to its missing resources are not reported too.
        """
        self._table.incomplete.add(declared.type)
        if is_reported(error, self._scope):
            return
        path, advice = (error.path, error.hint) if isinstance(error, ConditionError) else ((), "")
        code = attribute if attribute in CARDINALITY else "expression"
        self._diagnostics.declaration_error(declared, str(error), str(code), attribute, *path, hint=advice)


def is_reported(error: ValueError, scope: Scope) -> bool:
    """Return whether the error of a condition may only follow from an invalid input, which is reported itself."""
    return isinstance(error, NotKnownError) and any(value is UNKNOWN for value in scope.inputs.values())


def unmet_condition(when: object, scope: Scope) -> str:
    """Return the reason that a condition outside of ``for_each`` does not hold, or "". Raise ``ConditionError``."""
    return _parse(when, has_elements=False).judge(scope.resolver(_refuse_resource))


def _parse(when: object, *, has_elements: bool) -> conditions.Condition:
    """Return the parsed condition ``when``. Raise ``ConditionError`` for an invalid one.

    ``each`` is valid only if ``has_elements``, which is true beside ``for_each``.
    """
    condition = conditions.parse(when)
    if condition.uses_each and not has_elements:
        raise ConditionError("each is known only beside for_each")
    return condition


def choose_outputs(manifest: Manifest, table: ResourceTable, diagnostics: Diagnostics, scope: Scope) -> Manifest:
    """Return a manifest without the outputs whose ``when`` does not hold; report an invalid ``when``.

    The omitted outputs are recorded in ``table.left_out``, so that the plan can show the reasons.
    """
    outputs = dict(manifest.outputs)
    for name, when in manifest.output_conditions.items():
        try:
            reason = unmet_condition(when, scope)
        except ConditionError as error:
            if not is_reported(error, scope):
                diagnostics.output_error(name, str(error), "when", *error.path, hint=error.hint)
            continue
        if reason:
            table.left_out.add(LeftOut(f"output {name}", reason, manifest.place(("outputs", name, "when"))))
            del outputs[name]
    return manifest._replace(outputs=outputs)


def _refuse_resource(path: ExpressionPath) -> Any:
    """Raise ``ConditionError``: collections and conditions are judged before any resource is read."""
    msg = f"{path}: it decides which resources there are, and cannot depend on a resource"
    raise ConditionError(msg, (), "use an input, a value or a fact")


def _elements(value: Any) -> Iterator[Element]:
    """Yield the elements of the collection in ``for_each``; none for null, as of an optional input.

    A text or number in a list is its own key, so that a title with ``${each.key}`` stays when the list is reordered.
    Raise ``ConditionError`` for a secret or unknown value, and one that is no mapping or list.
    """
    if isinstance(value, Sensitive):
        msg = "the collection is a secret, and its keys would be shown in titles"
        raise ConditionError(msg, (), "mark only the secret members as Sensitive: Hash[String, Struct[{...}]]")
    if is_unknown(value):
        msg = "the collection is not known before anything is read"
        raise ConditionError(msg, (), "use inputs, facts, and values that are made of them alone")
    if value is not None and type(value) not in {dict, list}:
        msg = f"for_each must be a mapping or a list, and its value is {expression.kind_of(value)}"
        advice = 'a list of one is ["..."]'
        if type(value) is str and value.lstrip().startswith(("[", "{")):
            # A shell has taken the double quotes away, or YAML within a text is meant.
            advice = 'it is no JSON, which has texts in double quotes; on a command line write -i \'NAME=["a", "b"]\''
        raise ConditionError(msg, (), advice)
    mapping = type(value) is dict
    for index, item in enumerate(value or ()):  # of a mapping these are its keys
        member = value[item] if mapping else item
        if isinstance(member, Sensitive):
            msg = f"the element [{index}] is a secret as a whole"
            raise ConditionError(msg, (), "mark only its secret members as Sensitive")
        key = item if mapping or type(item) in _KEY_TYPES else MISSING
        yield Element(key, member, index)


def _title_pattern(declared: Declaration) -> re.Pattern[str] | None:
    """Return the pattern of the references to a left-out declaration and its parts; None for an invalid title.

    The title ``web-${each.key}`` of a service fits ``Service[web-1]``: such an unknown reference is explained by the
    condition. A component's also fits the resources within it, as ``Site[a]/File[b]``.
    """
    try:
        parsed = expression.parse(declared.title)
    except ValueError:
        return None
    parts = parsed.parts if isinstance(parsed, Expression) else (parsed,)
    title = "".join(re.escape(part) if isinstance(part, str) else ".*" for part in parts)
    head = re.escape(str(child_reference(declared.parent, declared.type, "")).removesuffix("]"))
    return re.compile(rf"{head}{title}\](?:/.*)?\Z", re.DOTALL)


class _TemplateError(Exception):
    """A value that cannot be made for an element; ``attribute`` is the one that holds the reference, None the title."""

    def __init__(self, attribute: str | None, cause: ValueError) -> None:
        super().__init__(str(cause))
        self.attribute = attribute
        self.cause = cause


class _Templates:
    """A declaration whose references to an element are found once, for all elements."""

    def __init__(
        self, declared: Declaration, elements: Sequence[Element], resolve: Resolve, definitions: Mapping[str, Attribute]
    ) -> None:
        """Parse a declaration once for all ``elements``; ``definitions`` are the type's attributes by name.

        ``resolve`` returns the value of a path in any scope but the element's.
        """
        self._declared = declared
        self._definitions = definitions
        self._resolve = resolve
        self._elements = elements
        self._title = self._template(declared.title)
        self._attributes = self._of_mapping(declared.attributes)
        self._meta = self._of_mapping(declared.meta)
        #: The attributes that depend on the element, parsed once.
        self._written = {name: map_leaves(declared.attributes[name], _parsed) for name, _ in self._attributes}
        #: The metaparameters that depend on the element.
        self.names = [name for name, _ in self._meta]
        #: Keys of a path into an element → whether at least one element has its member; computed when needed.
        self._existing: dict[tuple[str, ...], bool] = {}

    def _of_mapping(self, values: dict[str, Any]) -> list[tuple[str, Template]]:
        """Return the keys whose values depend on the element, each with the template of its value."""
        pairs = ((name, self._template(value)) for name, value in values.items())
        return [(name, template) for name, template in pairs if template is not None]

    def declaration(self, element: Element) -> Declaration:
        """Return an element's declaration. Raise ``_TemplateError``, with the attribute, if it cannot be made.

        Only the title, attributes and metaparameters with ``each`` are made anew; all elements share the rest.
        """
        declared, name = self._declared, ""
        title, attributes, meta = declared.title, declared.attributes, declared.meta
        try:
            if self._title is not None:
                title = _title_text(declared.title, self._title(element))
            if self._attributes:
                attributes = attributes.copy()
                for name, template in self._attributes:
                    value = template(element)
                    # A number or a Boolean becomes text where the attribute accepts only text.
                    if type(value) is not str and value is not None and name in self._definitions:
                        value = with_texts(self._definitions[name].datatype, self._written[name], value)
                    attributes[name] = value
            if self._meta:
                meta = meta.copy()
                for name, template in self._meta:
                    meta[name] = _metaparameter(name, template(element))
        except ValueError as error:
            raise _TemplateError(name or None, error) from error
        # ``_replace`` would take twice as long.
        return Declaration(
            declared.type,
            title,
            attributes,
            meta,
            declared.document,
            declared.key,
            declared.parent,
            Derivation(element, declared.key),
        )

    def _template(self, value: object) -> Template | None:
        """Return the function, parsed once, that makes ``value`` for an element, or None if it is the same for all.

        In a mapping or list only the parts with ``each`` are made anew.
        """
        if type(value) is str:
            return self._of_text(value) if _EACH in value and "${" in value else None
        if type(value) is dict:
            members = self._of_mapping(value)
            return (lambda element: {**value, **{key: part(element) for key, part in members}}) if members else None
        if type(value) is list:
            items = [self._template(item) for item in value]
            if not any(items):
                return None
            pairs = list(zip(value, items, strict=True))
            return lambda element: [item if part is None else part(element) for item, part in pairs]
        return None

    def _of_text(self, text: str) -> Template | None:
        """Return the function that makes a text with ``${each...}`` for an element, or None for a text without it.

        ``${each.value}`` alone becomes the value itself, of any type; in a longer text it is joined. Expressions
        without ``each`` are evaluated later.
        """
        try:
            parsed = expression.parse(text)
        except ValueError:
            return None  # reported where the value is evaluated
        if not isinstance(parsed, Expression):
            return None
        parts = [part if isinstance(part, str) else self._of_path(part) for part in parsed.parts]
        if not any(map(callable, parts)):
            return None
        if len(parts) == 1:
            return self._whole(parsed.parts[0])
        sources = parsed.parts

        def joined(element: Element) -> Any:
            """Return the text for an element, joined from ``parts``: literal texts, and functions of the element.

            Plain values are joined here, which is fast; ``_joined`` handles secrets and paths that are evaluated later.
            """
            pieces = [part(element) if callable(part) else part for part in parts]  # a str is no callable
            if _IN_TEXTS.issuperset(map(type, pieces)):
                text = "".join(map(expression.text_of, pieces))
                # A value may hold the characters ``${``: they must not become an expression.
                return text if "${" not in text else escape_expressions(text)
            return _joined(pieces, sources)

        return joined

    def _of_path(self, path: ExpressionPath) -> Template | ExpressionPath:
        """Return a path that no element changes, or the function that makes a part of a text from an element.

        The part is the value of ``${each...}``, or a path with the element's values in its title or keys.
        """
        if path.root == "each":
            return self._getter(path, whole=False)
        title = self._template(path.root.title) if isinstance(path.root, Reference) else None
        if title is None and not any(isinstance(key, ChosenKey) and key.path.root == "each" for key in path.keys):
            return path

        def path_of(element: Element) -> ExpressionPath:
            """Return the path with the element's values in its title and keys, to be evaluated later."""
            root = path.root
            if title is not None:
                root = Reference(path.root[0], _title_text(path.root[1], title(element)))
            return path._replace(root=root, keys=tuple(self._key(key, element) for key in path.keys))

        return path_of

    def _key(self, key: str, element: Element) -> str:
        """Return a key of a path; for ``[each.value]`` the element's value. Raise ``ValueError`` for a secret."""
        if not isinstance(key, ChosenKey) or key.path.root != "each":
            return key
        value = self.member(key.path, element, whole=True)
        if is_secret(value):  # a message about a missing key would show it
            raise ValueError(f"{key.path} is a secret, which cannot choose a key; name the key")
        return expression.chosen_key(value, key.path)

    def _whole(self, path: str | ExpressionPath) -> Template:
        """Return the function that makes a value that is a single reference: it need not be a text.

        ``${each...}`` becomes the element's value. Another path, with ``each`` in its title or keys, stays an
        expression.
        """
        assert isinstance(path, ExpressionPath)
        part = self._of_path(path)
        assert callable(part)
        if path.root != "each":
            return lambda element: Expression((part(element),))
        get = self._getter(path, whole=True)
        return lambda element: _literal(get(element))

    def _getter(self, path: ExpressionPath, *, whole: bool) -> Template:
        """Return the function that follows a path such as ``${each.value.port}`` into an element.

        Keys of mappings are followed here, which is fast for thousands of elements. ``self.member`` does the rest: list
        indices, chosen keys and errors. ``whole``: the path is the whole value, and may then be null.
        """
        general = partial(self.member, path, whole=whole)
        if expression.has_choices(path) or path.keys[0] not in conditions.ELEMENT_KEYS:
            return general
        part, keys = conditions.ELEMENT_KEYS.index(path.keys[0]), path.keys[1:]

        def member(element: Element) -> Any:
            """Return the value at the path in an element; ``general`` handles all but the keys of mappings."""
            value = element[part]  # ``element.value`` for ``${each.value.port}``, whose ``keys`` are ("port",)
            for key in keys:
                if type(value) is not dict or key not in value:
                    return general(element)  # which also raises the errors
                value = value[key]
            return general(element) if value is MISSING else value  # an element without a key: an error

        return member

    def resolve(self, element: Element, path: ExpressionPath) -> Any:
        """Return the value of a path in a condition for an element. Raise ``ValueError``."""
        return self.member(path, element, whole=True) if path.root == "each" else self._resolve(path)

    def member(self, written: ExpressionPath, element: Element, *, whole: bool) -> Any:
        """Return the value of a path into an element; a secret if a secret chooses one of its keys.

        ``whole``: the path is the whole value, not a part of a text, and may be null. Raise ``ValueError``.
        """
        chosen, secret = expression.with_choices(written, partial(self.resolve, element))
        # A path is None if one of its keys is not known yet, because only a resource yields it: an error.
        value = self._member(chosen or _refuse_resource(written), element, whole=whole)
        return Sensitive(value) if secret and not isinstance(value, Sensitive) else value

    def _member(self, path: ExpressionPath, element: Element, *, whole: bool) -> Any:
        """Return the value of ``${each...}`` in an element, or None if only other elements have it.

        None leaves the attribute undeclared for this element. It is possible only if the path is the ``whole`` value,
        because a longer text would have a gap. Raise ``ValueError`` otherwise, and if no element has the value, because
        the path is then a typing mistake.
        """
        first = path.keys[0]
        if first == "key" and element.key is MISSING:
            msg = f"{path}: the element [{element.number}] is neither a text nor a number, so that it has no key"
            raise ConditionError(msg, (), "use a member, such as ${each.value.name}, or ${each.index}")
        if first not in conditions.ELEMENT_KEYS:
            raise ValueError(f"{path}: each has key, value and index{hint(first, conditions.ELEMENT_KEYS)}")
        try:
            return expression.follow_keys(_part(element, first), path, path.keys[1:])
        except EvaluationError as error:
            if not self._any_element_has(path):
                raise
            if whole:
                return None
            msg = f"{path} has no value for this element, and has one for others"
            raise ConditionError(msg, (), "give it to all elements, or make it the whole value") from error

    def _any_element_has(self, path: ExpressionPath) -> bool:
        """Return whether any element has a value at a path; otherwise the path is a typing mistake."""
        if path.keys not in self._existing:
            self._existing[path.keys] = any(_has_value(element, path) for element in self._elements)
        return self._existing[path.keys]


def _title_text(written: str, value: object) -> str:
    """Return the title of an element's declaration as text, in which expressions without ``each`` remain for later.

    Raise ``ValueError`` for a secret, an empty title and characters that a title cannot have.
    """
    if type(value) is str and value.isprintable() and value:
        return value  # nearly all titles, without the slower checks
    if is_secret(value):
        raise ValueError("a title cannot hold a secret")
    title = str(value) if isinstance(value, (str, Expression)) else expression.text_of(value, written)
    problem = document.character_problem(title, key=True, noun="a title") or ("" if title else "the title is empty")
    if problem:
        raise ValueError(problem)
    return title


def _parsed(leaf: Any) -> Any:
    """Return the parsed expression of a text; return other values, and text without a valid expression, unchanged.

    ``with_texts`` needs the parsed form: it converts a number to text only if the number comes from a reference.
    """
    try:
        parsed = expression.parse(leaf) if type(leaf) is str else leaf
    except ValueError:
        return leaf
    return parsed if isinstance(parsed, Expression) else leaf


def _explain_each(written: object) -> ConditionError | None:
    """Return the error of ``each`` in ``for_each``, which is clearer than that of an unknown name; None without it."""
    if not expression.uses_scope(written, "each"):
        return None
    msg = "a collection cannot depend on each, which is one of its own elements"
    return ConditionError(msg, (), "use inputs, facts, and values that are made of them alone")


def _part(element: Element, name: str) -> Any:
    """Return the key, the value or the index of an element, by the ``name`` that it has in ``${each.NAME}``."""
    return element[conditions.ELEMENT_KEYS.index(name)]


def _has_value(element: Element, path: ExpressionPath) -> bool:
    """Return whether an element has a value at a path ``${each...}``: if none has, the path is a typing mistake."""
    try:
        expression.follow_keys(_part(element, path.keys[0]), path, path.keys[1:])
    except EvaluationError:
        return False
    return True


def _metaparameter(name: str, value: object) -> Any:
    """Return an element's metaparameter in the form of a manifest, because it is later evaluated like a declared one.

    An expression that does not depend on the element, as ``${inputs.x}``, is parsed by now and becomes text again.
    Raise ``ConditionError`` for a secret.
    """
    if is_secret(value):
        path = next(path for path, leaf in leaves(value) if isinstance(leaf, Sensitive))
        msg = f"{name}: its value is sensitive, and a metaparameter is shown and recorded"
        raise ConditionError(msg, path, "use what is no secret")

    def written(part: object) -> Any:
        """Return a part of the value in the form of a manifest: an expression becomes text again.

        A number or Boolean becomes text too if the metaparameter takes only text, as ``tag`` does.
        """
        if isinstance(part, Expression):  # ``map_leaves`` would make a list of this tuple
            return str(part)
        if isinstance(part, (dict, list)):
            return {key: written(part[key]) for key in part} if isinstance(part, dict) else list(map(written, part))
        return expression.text_of(part) if name in _TEXT_METAPARAMETERS and type(part) in {int, bool} else part

    return written(value)


def _literal(value: object) -> Any:
    """Return an element's value with ``${`` escaped: it is data, and must not be evaluated as an expression."""
    if type(value) is str:
        return escape_expressions(value) if "${" in value else value
    return value if type(value) in SCALAR_TYPES else literal(value)


def _joined(parts: list[Any], sources: Sequence[Any]) -> Any:
    """Join the parts of a text: literal texts, values of an element, and paths that are evaluated later.

    With such a path the result is an expression, which is joined when the path has a value. Otherwise it is a text, and
    a secret one if a part is secret. ``sources``: each part as written, for the error that a value cannot be in a text.
    """
    pieces = []
    for part, source in zip(parts, sources, strict=True):
        is_finished = isinstance(source, str) or isinstance(part, (Sensitive, ExpressionPath))
        pieces.append(part if is_finished else expression.text_of(part, source))
    if any(isinstance(piece, ExpressionPath) for piece in pieces):
        return Expression(tuple(pieces))
    text = _literal("".join(map(expression.text_of, pieces)))
    return Sensitive(text) if any(isinstance(piece, Sensitive) for piece in pieces) else text
