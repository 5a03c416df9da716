"""Convert expressions of Jinja2: to references and function calls of a manifest, and to conditions.

A value is plain data of a manifest, in which texts have escaped ``${``, or a ``ValueReference``. An expression without
a counterpart raises ``Unconvertible`` with the reason.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, Protocol

from jinja2 import Environment, TemplateSyntaxError, meta, nodes

from resource_api.convert.ansible_yaml import Raw, Vault
from resource_api.convert.condition_algebra import all_of, any_of, negated
from resource_api.model.values import values
from resource_api.model.values.start_up import regex
from resource_api.model.values.values import leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping

    from resource_api.convert.condition_algebra import Condition

_EXPRESSION: Final = regex(r"(\{\{.*?\}\})", re.DOTALL)
_NAME: Final = regex(r"[A-Za-z0-9_-]+\Z")
_ENVIRONMENT: Final = Environment(keep_trailing_newline=True, autoescape=False)  # noqa: S701 - texts, not HTML
#: Filters of the type `template`, which gives the same text in every run.
_TEMPLATE_FILTERS: Final = frozenset(_ENVIRONMENT.filters) - {"random", "pprint", "tojson"}
#: Filter → function of `std`, the name of its first input, and those of its arguments in order.
_FUNCTIONS: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "lower": ("lower", "text", ()),
    "upper": ("upper", "text", ()),
    "trim": ("trim", "text", ()),
    "replace": ("replace", "text", ("from", "to")),
    "split": ("split", "text", ("by",)),
    "join": ("join", "list", ("by",)),
    "int": ("to_integer", "text", ()),
    "string": ("to_text", "value", ()),
    "length": ("length", "of", ()),
    "count": ("length", "of", ()),
    "flatten": ("flatten", "list", ()),
    "sort": ("sort", "list", ()),
    "unique": ("unique", "list", ()),
    "to_json": ("to_json", "value", ()),
    "from_json": ("from_json", "text", ()),
    "from_yaml": ("from_yaml", "text", ()),
    "b64encode": ("base64_encode", "text", ()),
    "b64decode": ("base64_decode", "text", ()),
    "basename": ("basename", "path", ()),
    "dirname": ("dirname", "path", ()),
}
#: Operator of Jinja2's tree → of a condition; then the same for the operators of the test `version`.
_COMPARISONS: Final = {"lt": "lt", "lteq": "le", "gt": "gt", "gteq": "ge"}
_OPERATORS: Final = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}
#: Filters whose results are lists or mappings.
_COLLECTIONS_TEXT: Final = """
    batch combine dict2items dictsort flatten groupby items items2dict list map reject rejectattr select selectattr
    slice sort split unique"""
_COLLECTION_FILTERS: Final = frozenset(_COLLECTIONS_TEXT.split())
_CHANGED: Final = "changed"
#: Test of a task's result, behind its name → whether it holds for a success.
_RESULT_TESTS: Final = {
    **dict.fromkeys(("stat.exists", "is succeeded", "is success", "is successful", "rc eq 0"), True),
    **dict.fromkeys(("failed", "is failed", "rc ne 0", "rc gt 0"), False),
}
#: Texts that the filter `bool` takes for true.
_TRUE_WORDS: Final = ("yes", "Yes", "true", "True", "on", "1")
#: Kind of expression that has no counterpart → its name in messages.
_KINDS: Final[dict[type[nodes.Node], str]] = {
    nodes.CondExpr: "a conditional expression",
    nodes.Compare: "a comparison as a value",
    nodes.Test: "a test as a value",
    **dict.fromkeys((nodes.Mul, nodes.Sub, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Pow, nodes.Neg), "arithmetic"),
}


class Unconvertible(Exception):  # noqa: N818 - a finding about a playbook, no failure
    """A part of a playbook has no counterpart, for the reason in the message. Each conversion may raise it."""


class ValueReference(NamedTuple):
    """A reference of a manifest: the path within ``${...}``."""

    path: str

    def __str__(self) -> str:
        """Return ``${PATH}``, as a manifest writes it within a text."""
        return f"${{{self.path}}}"

    def member(self, key: str | int) -> ValueReference:
        """Return the reference to a member: ``facts.os.name`` for the key ``name`` of ``facts.os``."""
        if isinstance(key, int):
            return ValueReference(f"{self.path}[{key}]")
        step = f".{key}" if _NAME.match(key) else "['{}']".format(key.replace("'", "''"))
        return ValueReference(self.path + step)


class Omit:
    """The value of the variable `omit`: an argument that is not given."""


OMIT: Final = Omit()
#: The classes of values that can be a part of a text.
_IN_TEXTS: Final = (str, int, float, ValueReference)  # the values that can be a part of a text


def refuse(reason: str) -> NoReturn:
    """Raise ``Unconvertible`` with a reason."""
    raise Unconvertible(reason)


def no_counterpart(subject: str) -> NoReturn:
    """Raise ``Unconvertible``: a manifest has nothing that does the same as this part of a playbook."""
    refuse(f"{subject} has no counterpart")


def written(value: object) -> Any:
    """Return a converted value as the manifest's data: references as texts ``${...}``, without omitted members.

    During the conversion references are objects, whose paths are extended by members and tested in conditions.
    """
    if isinstance(value, ValueReference):
        return str(value)
    if isinstance(value, dict):
        return {key: written(part) for key, part in value.items() if part is not OMIT}
    return [written(part) for part in value if part is not OMIT] if isinstance(value, list) else value


def written_text(value: object) -> str:
    """Return a value as a manifest writes it within a text. Raise ``Unconvertible`` for `omit`, which has none."""
    if value is OMIT:
        no_counterpart("'omit' within a text")
    return str(written(value))


def literal(value: object) -> Any:
    """Return plain data as a manifest writes it, each ``${`` escaped, which would otherwise begin a reference.

    Raise ``Unconvertible`` for encrypted values.
    """
    if has_vault(value):
        refuse("a value in it is encrypted by ansible-vault")
    return values.literal(value)


def has_vault(value: object) -> bool:
    """Return whether there is an encrypted value anywhere in a value."""
    return any(isinstance(leaf, Vault) for _, leaf in leaves(value))


def is_template(value: object) -> bool:
    """Return whether there is an expression anywhere in a value."""
    texts = (leaf for _, leaf in leaves(value) if isinstance(leaf, str) and not isinstance(leaf, Raw))
    return any("{{" in text or "{%" in text for text in texts)


def names_in(value: object) -> set[str]:
    """Return the names of the variables in a value's expressions, to find the variables that it depends on.

    An expression that cannot be parsed is passed over: its conversion refuses it.
    """
    names = set[str]()
    for _, leaf in leaves(value):
        if is_template(leaf):
            with suppress(Unconvertible):
                names |= {node.name for node in parse_template(str(leaf)).find_all(nodes.Name)}
    return names


def follow(value: Any, keys: tuple[str | int, ...]) -> Any:
    """Return the member of a variable's value at ``keys``: for ``a.b[0]`` the value of ``a`` and ``("b", 0)``.

    Raise ``Unconvertible`` if there is none.
    """
    for key in keys:
        try:
            value = value.member(key) if isinstance(value, ValueReference) else value[key]
        except (KeyError, IndexError, TypeError):
            raise Unconvertible(f"there is no member '{key}'") from None
    return value


def parse(text: str) -> nodes.Expr:
    """Return the syntax tree of an expression that has no braces, as in ``when``.

    Jinja2 parses whole templates only, so it is put into braces; a text with further braces in it is refused.
    """
    template = parse_template(f"{{{{ {text} }}}}", text)
    output = template.body[0] if len(template.body) == 1 else None
    if isinstance(output, nodes.Output) and len(output.nodes) == 1:
        return output.nodes[0]
    refuse(f"'{_short(text)}' is no expression")


def parse_template(text: str, label: str = "") -> nodes.Template:
    """Return a template's syntax tree. Raise ``Unconvertible`` for wrong syntax, with a quotation of the text.

    ``label``: the text to quote instead, if ``text`` has braces that the playbook does not have.
    """
    try:
        return _ENVIRONMENT.parse(text)
    except (TemplateSyntaxError, RecursionError) as error:
        raise Unconvertible(f"'{_short(label or text)}' is no expression: {getattr(error, 'message', '')}") from None


def _short(text: str) -> str:
    """Return an expression for a message: in one line, and cut off if it is long."""
    text = " ".join(str(text).split())
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 - characters of a message


class Resolver(Protocol):
    """The names that an expression can use, and the values of the manifest that it adds.

    ``keys``: the path of a member, such as ``("b", 0)`` of the name ``a`` in ``a.b[0]``.
    """

    def resolve(self, name: str, keys: tuple[str | int, ...]) -> Any:
        """Return the value or reference of a name and its members."""

    def resolve_or(
        self, name: str, keys: tuple[str | int, ...], default: object, *, replaces_empty: bool = False
    ) -> Any:
        """Return the value of a name, or the default if there is none, or with ``replaces_empty`` an empty one."""

    def is_defined(self, name: str, keys: tuple[str | int, ...]) -> bool | ValueReference:
        """Return whether a name has a value, or the reference whose existence a condition tests."""

    def has_value(self, name: str) -> bool:
        """Return whether the playbook defines a name."""

    def is_facts(self, name: str) -> bool:
        """Return whether a name is of a mapping of facts, of which a template gets only the members that it uses."""

    def is_loop_variable(self, name: str) -> bool:
        """Return whether a name is a variable of the loop."""

    def in_group(self, group: str) -> ValueReference:
        """Return the reference to whether this host is in a group of the inventory."""

    def class_of(self, value: object) -> type:
        """Return the class of a value, or ``NoneType`` if it is not known."""

    def test_obstacle(self, path: str) -> str:
        """Return the reason that a condition cannot test a reference, or ""."""

    def literal_value(self, value: object) -> Any:
        """Return a value itself; of a reference the part of an input's default that it leads to, or None."""

    def call(self, function: str, arguments: Mapping[str, object], name: str) -> ValueReference:
        """Add a function call to the manifest's values as ``name``, with ``arguments``; return the reference to it."""


class Expressions:
    """Converts the Jinja2 expressions of one task: to values, references and conditions of a manifest."""

    def __init__(self, scope: Resolver, read_file: Callable[[str], str] | None = None) -> None:
        """Resolve names by ``scope``; ``read_file`` returns the text of a file of the playbook by its name."""
        self._scope = scope
        self._read_file = read_file

    def value(self, value: object) -> Any:
        """Return a value of a playbook as one of a manifest, converted at every depth.

        Texts may be templates; those with the tag `!unsafe` (``Raw``) and all other scalars are literal.
        """
        if isinstance(value, str) and not isinstance(value, Raw):
            return self._text(value)
        if isinstance(value, dict):
            return {literal(key): self.value(part) for key, part in value.items()}
        if isinstance(value, ValueReference):
            return value
        return [self.value(part) for part in value] if isinstance(value, list) else literal(value)

    def _text(self, text: str) -> Any:
        """Return a playbook's text as a value: itself, a reference, a text with references, or a call of `template`.

        A text that is one expression and nothing else has the expression's value, which may be a list or number.
        """
        if "{{" not in text and "{%" not in text and "{#" not in text:
            return literal(text)
        template = parse_template(text)
        is_plain = all(isinstance(node, nodes.Output) for node in template.body)
        # '-' beside braces strips the text around them, which only a template does.
        if not is_plain or any(sign in text for sign in ("{{-", "-}}", "{%", "{#")):
            return self._template(text, template, "a template has statements")
        pieces = [piece for piece in _EXPRESSION.split(text) if piece]
        if len(pieces) == 1:
            return self._piece(text)
        return "".join(str(self._piece(piece, in_text=True)) for piece in pieces)

    def _piece(self, text: str, *, in_text: bool = False) -> Any:
        """Return the value of a piece of a text: itself, or for an expression in braces a reference.

        An expression without a counterpart becomes a call of the function `template`, which returns text: a collection
        that is the whole value is refused. ``in_text``: the expression is only a part of a text, in which Jinja2 writes
        a collection as text, too.
        """
        if not _EXPRESSION.fullmatch(text):
            return literal(text)
        node = parse(text[2:-2])
        try:
            return self._within_text(node) if in_text else self.value_of(node)
        except Unconvertible as error:
            if not in_text and self._is_collection(node):
                raise
            return self._template(text, parse_template(text), str(error))

    def _within_text(self, node: nodes.Node) -> str:
        """Return an expression's value as a part of a text. Raise ``Unconvertible`` for a list, mapping or Boolean.

        Jinja2 and a manifest write these differently within a text: a template keeps the form of Jinja2.
        """
        value = self.value_of(node)
        if self._scope.class_of(value) in {bool, list, dict} or not isinstance(value, _IN_TEXTS):
            no_counterpart("a list, mapping or Boolean within a text")
        return str(value)

    def _is_collection(self, node: nodes.Node | None) -> bool:
        """Return whether an expression, perhaps an unconvertible one, is certainly a list or mapping.

        A call of `template`, which returns a text, cannot stand for it.
        """
        if isinstance(node, nodes.CondExpr):
            return self._is_collection(node.expr1) or self._is_collection(node.expr2)
        if isinstance(node, nodes.Add):
            return self._is_collection(node.left) or self._is_collection(node.right)
        if isinstance(node, nodes.Filter) and node.name in _COLLECTION_FILTERS:
            return True
        with suppress(Unconvertible):
            return node is not None and self._scope.class_of(self.value_of(node)) in {list, dict}
        return isinstance(node, (nodes.List, nodes.Tuple, nodes.Dict))

    def _template(self, text: str, template: nodes.Template, reason: str) -> ValueReference:
        """Return a call of the function `template` for a text that has no other counterpart, for ``reason``.

        Raise ``Unconvertible``, with both reasons, if the template needs variables or filters that a manifest lacks.
        """
        try:
            variables = self.template_variables(template)
        except Unconvertible as error:
            raise Unconvertible(reason if reason == str(error) else f"{reason}; {error}") from None
        return self._scope.call("template", {"source": literal(text), "variables": variables}, "text")

    def template_variables(self, template: nodes.Template) -> dict[str, Any]:
        """Return name → value of the variables that a template reads: it sees only those that its call passes.

        An undefined one is left out if the template tests it with ``is defined`` or has a default for it, and otherwise
        becomes an input.
        """
        _check_template(template)
        variables: dict[str, object] = {}
        free, optional = meta.find_undeclared_variables(template), set(_optional_names(template))
        for name, keys in sorted(set(_chains(template))):
            is_missing = name in optional and not self._scope.has_value(name)
            if name in free and name not in _ENVIRONMENT.globals and not is_missing:
                self._add_variable(variables, name, keys)
        return variables

    def _add_variable(self, variables: dict[str, Any], name: str, keys: tuple[str | int, ...]) -> None:
        """Add a variable of a template to ``variables``; of facts, only the used members, nested as in the facts.

        ``keys``: the path of the member that the template reads. A manifest has the facts under other names, so the
        mapping that Ansible has in such a variable is rebuilt: ``ansible_facts.hostname`` → ``{"ansible_facts":
        {"hostname": ...}}``.
        """
        if self._scope.is_loop_variable(name):  # a rendered template is one named value, not one for each element
            refuse(f"a template with '{name}' of a loop")
        if not self._scope.is_facts(name):
            if (variable := self._scope.resolve(name, ())) is OMIT:
                refuse("'omit' in a template")
            variables[name] = variable
            return
        value = self._scope.resolve(name, keys)
        member = variables
        for key in (name, *keys)[:-1]:
            member = member.setdefault(str(key), {})
        member[str((name, *keys)[-1])] = value

    def value_of(self, node: nodes.Node) -> Any:
        """Return the value of a manifest for the syntax tree of an expression: a constant, a collection or a reference.

        Filters, sums and calls become functions of `std`: named values of the manifest, to which the reference leads.
        """
        if isinstance(node, nodes.Const):
            return literal(node.value)
        if isinstance(node, (nodes.List, nodes.Tuple)):
            return [self.value_of(item) for item in node.items]
        if isinstance(node, nodes.Dict):
            return {written_text(self.value_of(pair.key)): self.value_of(pair.value) for pair in node.items}
        if isinstance(node, nodes.Filter) and node.node is not None:
            return self._filter(node)
        if isinstance(node, nodes.Concat):
            return "".join(map(self._within_text, node.nodes))
        if isinstance(node, nodes.Add):
            return self._sum(node)
        if isinstance(node, nodes.Call):
            return self._call(node)
        if (chain := _chain(node)) is not None:
            return self._scope.resolve(*chain)
        no_counterpart(_KINDS.get(type(node), "this expression"))

    def _sum(self, node: nodes.Add) -> Any:
        """Convert ``+`` of lists to a call of `std.concat`, and of texts to one text; refuse arithmetic."""
        left, right = self.value_of(node.left), self.value_of(node.right)
        if list in {self._scope.class_of(left), self._scope.class_of(right)}:
            return self._scope.call("std.concat", {"lists": [left, right]}, "list")
        if isinstance(left, str) or isinstance(right, str):
            return self._within_text(node.left) + self._within_text(node.right)
        no_counterpart("arithmetic")

    def _call(self, node: nodes.Call) -> Any:
        """Return the value of a function or method call. Raise ``Unconvertible`` for one without a counterpart.

        A method such as ``text.lower()`` is the filter of the same name, ``range`` a function of `std`, and ``lookup``
        of a file in a task's argument the text of that file of the playbook.
        """
        function = node.node
        if isinstance(function, nodes.Getattr) and function.attr in {"split", "replace", "lower", "upper"}:
            return self._filter(nodes.Filter(function.node, function.attr, node.args, [], None, None))
        if isinstance(function, nodes.Name) and function.name == "range" and not node.kwargs:
            names = ("stop",) if len(node.args) == 1 else ("start", "stop", "step")
            limits = dict(zip(names, map(self.value_of, node.args), strict=False))
            return self._scope.call("std.range", {"start": 0, **limits}, "numbers")
        name = getattr(function, "attr" if isinstance(function, nodes.Getattr) else "name", "in an expression")
        if name == "lookup" and self._read_file is not None:
            match list(map(self.value_of, node.args)):
                case ["file" | "ansible.builtin.file", str(file)] if "${" not in file:
                    return literal(self._read_file(file).rstrip())
        no_counterpart(f"the {'method' if isinstance(function, nodes.Getattr) else 'function'} '{name}'")

    def _filter(self, node: nodes.Filter) -> Any:
        """Convert ``VALUE | FILTER`` to a value or a call. Raise ``Unconvertible`` for an unknown filter."""
        if node.node is None:
            no_counterpart("a block with a filter")
        name = node.name.removeprefix("ansible.builtin.")
        if name in {"default", "d"}:
            return self._default(node.node, node)
        if name == "bool":  # the data type that the value has in a manifest already
            return self.value_of(node.node)
        if name == "list":
            return self._list(self.value_of(node.node))
        if name == "combine":
            return self._merge(node.node, node)
        if name in {"first", "last"}:
            return follow(self.value_of(node.node), (0 if name == "first" else -1,))
        if name == "hash" and [self.value_of(part) for part in node.args] == ["sha256"]:
            return self._scope.call("std.sha256", {"text": self.value_of(node.node)}, "digest")
        return self._function(name, node.node, node)

    def _list(self, value: object) -> Any:
        """Convert the filter `list`: a mapping becomes the list of its keys. Raise ``Unconvertible`` for a text."""
        kind = self._scope.class_of(value)
        if kind is str:
            no_counterpart("a list of characters")
        return self._scope.call("std.keys", {"map": value}, "keys") if kind is dict else value

    def _merge(self, subject: nodes.Node, node: nodes.Filter) -> ValueReference:
        """Return a call of `std.merge` for the filter `combine`. Raise ``Unconvertible`` for its other options."""
        options: dict[str, Any] = {str(option.key): self.value_of(option.value) for option in node.kwargs}
        is_deep = options.pop("recursive", False)
        if options or not isinstance(is_deep, bool):
            no_counterpart("the filter 'combine' with these arguments")
        inputs: dict[str, object] = {"maps": [self.value_of(part) for part in (subject, *node.args)]}
        return self._scope.call("std.merge", inputs | ({"deep": True} if is_deep else {}), "map")

    def _function(self, name: str, subject: nodes.Node, node: nodes.Filter) -> ValueReference:
        """Return a call of the `std` function that equals a filter. Raise ``Unconvertible`` if there is none."""
        if name not in _FUNCTIONS or node.kwargs:
            no_counterpart(f"the filter '{name}'")
        function, first, names = _FUNCTIONS[name]
        if len(node.args) > len(names):
            no_counterpart(f"the filter '{name}' with these arguments")
        arguments = dict(zip(names, map(self.value_of, node.args), strict=False))
        if name in {"join", "split"}:  # the filter has a default, the function has none
            arguments.setdefault("by", "" if name == "join" else " ")
        inputs = {first: self.value_of(subject), **arguments}
        # the result of ``to_json`` gets the name ``json``
        return self._scope.call(f"std.{function}", inputs, name.removeprefix("to_"))

    def _default(self, subject: nodes.Expr, node: nodes.Filter) -> Any:
        """Convert ``subject | default(value, boolean)``: a variable may lack a value, any other expression has one.

        With ``boolean`` (``replaces_empty``) the default also replaces an empty subject. A manifest cannot do that, so
        raise ``Unconvertible`` if the subject may be empty.
        """
        arguments = dict(zip(("default_value", "boolean"), node.args, strict=False))
        arguments |= {str(option.key): option.value for option in node.kwargs}
        options = {name: self.value_of(argument) for name, argument in arguments.items()}
        replaces_empty = options.get("boolean", False) is not False
        if (chain := _chain(subject)) is not None:
            return self._scope.resolve_or(*chain, options.get("default_value", ""), replaces_empty=replaces_empty)
        if replaces_empty:
            no_counterpart("a default for an empty value")
        return self.value_of(subject)

    def condition(self, node: nodes.Node) -> Condition:
        """Return the condition of a manifest for an expression of `when`: path of a reference → test, or a Boolean.

        Operators and tests become those of conditions. An expression that stands alone is tested for being true.
        """
        if isinstance(node, nodes.And):
            return all_of([self.condition(node.left), self.condition(node.right)])
        if isinstance(node, nodes.Or):
            return any_of(self.condition(node.left), self.condition(node.right))
        if isinstance(node, nodes.Not):
            return negated(self.condition(node.node))
        if isinstance(node, nodes.Compare):
            return all_of(list(self._comparisons(node)))
        if isinstance(node, nodes.Test):
            return self._test(node)
        if isinstance(node, nodes.Const) and isinstance(node.value, bool):
            return node.value
        value = self.value_of(node)
        # ``VALUE | bool`` is true for a word such as ``yes``
        is_word = isinstance(node, nodes.Filter) and node.name.removeprefix("ansible.builtin.") == "bool"
        return value if isinstance(value, bool) else self._truth(value, is_word=is_word)

    def _truth(self, value: object, *, is_word: bool) -> Condition:
        """Return the condition for a value that stands alone, as in ``when: VALUE``: true, not empty, or not 0.

        ``is_word``: with the filter `bool`, a text must be a word such as ``yes``.
        """
        kind = self._scope.class_of(value)
        if kind in {list, dict}:
            return {self._path(self._scope.call("std.length", {"of": value}, "length")): {"gt": 0}}
        if kind is str:
            return {self._path(value): [*_TRUE_WORDS] if is_word else {"not": ""}}
        return {self._path(value): {"not": 0} if kind in {int, float} else True}

    def _comparisons(self, node: nodes.Compare) -> Iterator[Condition]:
        """Yield the conditions of a chain: of ``a < b < c`` those of ``a < b`` and ``b < c``."""
        left = node.expr
        for operand in node.ops:
            yield self._comparison(left, operand.op, operand.expr)
            # each operand is also the left one of the next comparison
            left = operand.expr

    def _comparison(self, left: nodes.Node, operator: str, right: nodes.Node) -> Condition:
        """Return the condition of a comparison: the path of a reference → the test of its value.

        A condition begins with a reference: a constant on the left changes places with it, and ``<`` becomes ``>``.
        Raise ``Unconvertible`` for two references, as a condition compares with constants only.
        """
        if operator in {"in", "notin"}:
            condition = self._membership(left, right)
            return condition if operator == "in" else negated(condition)
        subject, value = self._operand(left), self._operand(right)
        if not isinstance(subject, ValueReference) and isinstance(value, ValueReference):
            swapped = {"lt": "gt", "gt": "lt", "lteq": "gteq", "gteq": "lteq"}
            subject, value, operator = value, subject, swapped.get(operator, operator)
        path = self._path(subject)
        if isinstance(value, (ValueReference, list, dict)):
            no_counterpart("a comparison of two values")
        value = _comparable(path, value)
        if operator == "eq":
            return {path: value}
        return {path: {"not": value}} if operator == "ne" else {path: {_COMPARISONS[operator]: value}}

    def _operand(self, node: nodes.Node) -> Any:
        """Return an operand of a comparison, without ``| int`` and the like: conditions compare digits as numbers."""
        if isinstance(node, nodes.Filter) and node.name in {"int", "float", "string"} and node.node is not None:
            node = node.node
        return self.value_of(node)

    def _membership(self, left: nodes.Node, right: nodes.Node) -> Condition:
        """Return the condition of ``LEFT in RIGHT``.

        For ``inventory_hostname in groups.X`` it tests whether this host is in the group; a literal list becomes
        alternatives (``path: [a, b]``); for any other collection a function computes a Boolean to test.
        """
        is_this_host = _chain(left) == ("inventory_hostname", ())
        if (chain := _chain(right)) is not None and is_this_host and chain[0] == "groups" and len(chain[1]) == 1:
            return {self._scope.in_group(str(chain[1][0])).path: True}
        subject, collection = self.value_of(left), self.value_of(right)
        if isinstance(collection, list) and isinstance(subject, ValueReference):
            path = self._path(subject)
            return {path: [_comparable(path, value) for value in collection]}
        self._path(collection)  # only for its error: a constant and the result of a task cannot be tested
        return {self._path(self._scope.call("std.contains", {"in": collection, "item": subject}, "contains")): True}

    def _test(self, node: nodes.Test) -> Condition:
        """Convert Jinja's ``VALUE is TEST`` to a condition. Raise ``Unconvertible`` for an unknown test.

        ``is defined`` comes first: its operand may have no value, whereas all other tests convert their operand.
        """
        name = node.name.removeprefix("ansible.builtin.")
        chain = _chain(node.node)
        if name in {"defined", "undefined"} and chain is not None:
            is_defined = self._scope.is_defined(*chain)
            condition = is_defined if isinstance(is_defined, bool) else {self._path(is_defined): {"exists": True}}
            return condition if name == "defined" else negated(condition)
        if any(str(option.key) not in {"strict", "version_type"} for option in node.kwargs):
            no_counterpart(f"the test 'is {name}' with these arguments")
        if name in {"version", "version_compare"} and node.args:
            return self._version_test(node)
        if name in {"match", "search", "regex"} and len(node.args) == 1:
            # a manifest has a pattern between slashes
            pattern = written_text(self.value_of(node.args[0])).replace("/", r"\/")
            anchored = f"^{pattern}" if name == "match" and not pattern.startswith("^") else pattern
            return {self._path(self.value_of(node.node)): {"matches": f"/{anchored}/"}}
        if name in {"true", "false", "truthy", "falsy"}:
            condition = self.condition(node.node)
            return condition if name[0] == "t" else negated(condition)
        # ``sameas(none)`` is the test ``none``, with any other argument a comparison
        if name == "sameas" and len(node.args) == 1 and node.args[0] != nodes.Const(None):
            return self._comparison(node.node, "eq", node.args[0])
        if name in {"none", "sameas"}:
            return {self._path(self.value_of(node.node)): {"exists": False}}
        no_counterpart(f"the test 'is {name}'")

    def _version_test(self, node: nodes.Test) -> Condition:
        """Convert ``VALUE is version("1.2", ">=")`` to a condition; without an operator, the versions must be equal."""
        operator = self.value_of(node.args[1]) if len(node.args) > 1 else "=="
        path, value = self._path(self.value_of(node.node)), written_text(self.value_of(node.args[0]))
        if operator in _OPERATORS:
            return {path: {_OPERATORS[operator]: value}}
        return {path: value} if operator in {"==", "=", "eq"} else {path: {"not": value}}

    def _path(self, value: object) -> str:
        """Return the path of a reference, the key of its condition. Raise ``Unconvertible`` for any other value.

        It does so also for a value that is not known before the steps, such as the result of a task.
        """
        if not isinstance(value, ValueReference):
            no_counterpart("a condition about a constant")
        if not value.path.startswith(("inputs.", "values.", "facts.", "host.", "each.")):
            refuse("a condition about the result of a task has no counterpart: it is evaluated before anything is read")
        if reason := self._scope.test_obstacle(value.path):
            no_counterpart(reason)
        return value.path


def _comparable(path: str, value: object) -> Any:
    """Return a constant in the data type that a comparison with ``path`` needs.

    Facts such as the release of the system are texts, with which a playbook may compare a number: 12 becomes ``"12"``.
    """
    if value is OMIT:
        no_counterpart("a comparison with 'omit'")
    is_text = path.startswith("facts.os.") and not isinstance(value, (str, bool))
    return str(value) if is_text else value


def _chain(node: nodes.Node) -> tuple[str, tuple[str | int, ...]] | None:
    """Return the variable and the keys of ``a.b['c'][0]``, ``("a", ("b", "c", 0))``, or None for another expression.

    Such a chain can become the path of a reference.
    """
    keys: list[str | int] = []
    while not isinstance(node, nodes.Name):
        if isinstance(node, nodes.Getattr):
            keys.append(node.attr)
        elif isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
            keys.append(node.arg.value)
        else:
            return None
        node = node.node
    return node.name, tuple(reversed(keys))


def _check_template(template: nodes.Template) -> None:
    """Raise ``Unconvertible`` for a template with functions, filters or tests of Ansible.

    The function `template` of a manifest renders by Jinja2 alone, which does not have them.
    """
    for call in template.find_all(nodes.Call):
        if isinstance(call.node, nodes.Name) and call.node.name != "range":
            no_counterpart(f"the function '{call.node.name}'")
    uses = [(node.name, _TEMPLATE_FILTERS) for node in template.find_all(nodes.Filter)]
    uses += [(node.name, frozenset(_ENVIRONMENT.tests)) for node in template.find_all(nodes.Test)]
    for name, names in uses:
        if name not in names:
            refuse(f"'{name}' of Ansible is not in Jinja2")


def _optional_names(template: nodes.Template) -> Iterator[str]:
    """Yield the names of variables that a template can do without: it tests them, or has a default for them.

    If the playbook does not define such a variable, it need not become an input.
    """
    for node in template.find_all(nodes.Filter):
        if node.name in {"default", "d"} and isinstance(node.node, nodes.Name):
            yield node.node.name
    for test in template.find_all(nodes.Test):
        if test.name in {"defined", "undefined"} and isinstance(test.node, nodes.Name):
            yield test.node.name


def _chains(template: nodes.Template) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the variables that a template reads, so that its call passes them: ``a.b[0]`` as ``("a", ("b", "0"))``.

    All keys are texts, because the caller sorts them, and numbers and texts have no common order.
    """
    waiting: list[nodes.Node] = [template]
    while waiting:
        node = waiting.pop()
        chain = _chain(node) if isinstance(node, (nodes.Name, nodes.Getattr, nodes.Getitem)) else None
        if chain is None:
            waiting += node.iter_child_nodes()
        elif not (isinstance(node, nodes.Name) and node.ctx != "load"):  # not the ``x`` that ``{% set x = 1 %}`` sets
            yield chain[0], tuple(map(str, chain[1]))


def terms(text: object) -> Iterator[nodes.Expr]:
    """Yield the terms of a `when` that ``and`` joins, so that each can be converted in its own way.

    Those about the results of earlier tasks become `notify` or guards of a command, the others conditions.
    """
    if isinstance(text, bool):
        yield nodes.Const(text)
        return
    waiting = [parse(str(text).strip().removeprefix("{{").removesuffix("}}"))]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, nodes.And):
            waiting[:0] = [node.left, node.right]
        else:
            yield node


def changed_results(node: nodes.Node, results: Container[str]) -> list[str]:
    """Return the results in a term such as ``a is changed or b.changed``: ``["a", "b"]``; none for other terms.

    Such a term becomes a `notify` of each of these tasks, which is an "or" of changes: an "or" with any other test
    cannot be expressed. ``results``: the names that earlier tasks have registered.
    """
    if isinstance(node, nodes.Or):
        left, right = changed_results(node.left, results), changed_results(node.right, results)
        return left + right if left and right else []
    if isinstance(node, nodes.Filter) and node.name == "bool" and node.node is not None:
        return changed_results(node.node, results)
    if isinstance(node, nodes.Test) and node.name in {_CHANGED, "change"}:
        name, member = _result_member(node.node, results)
        return [name] if name and not member else []
    name, member = _result_member(node, results)
    return [name] if name and member == _CHANGED else []


def result_test(node: nodes.Node, results: Container[str]) -> tuple[str, bool] | None:
    """Return the result that a term tests, and whether it must be a success; None for other terms.

    For ``not a.rc == 0`` that is ``("a", False)``: the task that registered ``a`` becomes a guard of the command.
    ``results``: the names that earlier tasks have registered.
    """
    if isinstance(node, nodes.Not):
        inner = result_test(node.node, results)
        return None if inner is None else (inner[0], not inner[1])
    # ``test`` is a key of ``_RESULT_TESTS``: "is failed", "rc eq 0", or a member alone, "stat.exists"
    if isinstance(node, nodes.Test):
        name, member = _result_member(node.node, results)
        test = f"is {node.name}" if not member else ""
    elif isinstance(node, nodes.Compare) and len(node.ops) == 1 and node.ops[0].expr == nodes.Const(0):
        name, member = _result_member(node.expr, results)
        test = f"{member} {node.ops[0].op} 0"
    else:
        name, test = _result_member(node, results)
    is_success = _RESULT_TESTS.get(test)
    return (name, is_success) if name and is_success is not None else None


def _result_member(node: nodes.Node, results: Container[str]) -> tuple[str, str]:
    """Return the result in ``a.stat.exists`` and its member, ``("a", "stat.exists")``; two "" for another expression.

    The member is "" for the result itself. ``results``: the names that earlier tasks have registered.
    """
    chain = _chain(node)
    return (chain[0], ".".join(map(str, chain[1]))) if chain is not None and chain[0] in results else ("", "")
