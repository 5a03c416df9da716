"""The variables of a playbook as inputs, values and facts of a manifest, and the names that one task can use."""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from resource_api.convert.ansible_yaml import Vault
from resource_api.convert.expressions import (
    OMIT,
    Expressions,
    Omit,
    Unconvertible,
    ValueReference,
    follow,
    has_vault,
    is_template,
    names_in,
    no_counterpart,
    refuse,
    written,
)
from resource_api.model.values.start_up import regex
from resource_api.model.values.values import leaves, literal, map_leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.convert.playbook import Location, Loop, Play, Variable

#: Fact of Ansible, without ``ansible_`` → fact here.
_FACTS: Final[dict[tuple[str | int, ...], str]] = {
    ("os_family",): "os.family",
    ("distribution",): "os.name",
    ("distribution_version",): "os.release.full",
    ("distribution_major_version",): "os.release.major",
    ("distribution_release",): "os.distro.codename",
    ("lsb", "codename"): "os.distro.codename",
    ("lsb", "id"): "os.distro.id",
    ("architecture",): "os.hardware",
    ("machine",): "os.hardware",
    ("hostname",): "networking.hostname",
    ("nodename",): "networking.hostname",
    ("fqdn",): "networking.fqdn",
    ("domain",): "networking.domain",
    ("default_ipv4", "address"): "networking.ip",
    ("default_ipv6", "address"): "networking.ip6",
    ("default_ipv4", "macaddress"): "networking.mac",
    ("kernel",): "kernelrelease",
    ("system",): "kernel",
    ("processor_vcpus",): "processors.count",
    ("processor_nproc",): "processors.count",
    ("user_id",): "identity.user",
    ("user_uid",): "identity.uid",
    ("user_gid",): "identity.gid",
    ("python_version",): "python.version",
}
#: Variables of Ansible about the run or other hosts.
_MAGIC_TEXT: Final = """
    ansible_check_mode ansible_diff_mode ansible_play_hosts ansible_play_name ansible_run_tags ansible_version
    group_names groups hostvars inventory_dir inventory_file play_hosts playbook_dir role_name role_path vars
    ansible_env ansible_host ansible_user ansible_date_time"""
_MAGIC: Final = frozenset(_MAGIC_TEXT.split())
_SECRET_NAME: Final = regex(r"(?i).*(password|passwd|passphrase|secret|token|api_?key|private_?key)")
_WORD: Final = regex(r"[^A-Za-z0-9_]+")
_MISSING: Final = object()  # no value: None is one in a playbook
#: A resource in a reference.
_RESULT_USE: Final = regex(r"(?<!\$)\$\{[A-Z]\w*\[")
#: Function of `std` → the class of its result.
_RESULTS: Final[dict[str, type]] = {
    **dict.fromkeys(("concat", "flatten", "keys", "range", "sort", "split", "unique"), list),
    **dict.fromkeys(("length", "to_integer"), int),
    **dict.fromkeys(("join", "lower", "replace", "to_text", "trim", "upper", "basename", "dirname"), str),
    "contains": bool,
    "merge": dict,
}
#: The name of an input or value in a reference or condition.
_NAME_USE: Final = regex(r"\b(?:inputs|values)(?:\.([A-Za-z0-9_-]+)|\[\\?'([^']+)\\?'\])")
#: Class of a default → the data type of its input.
_TYPES: Final[dict[type, str]] = {bool: "Boolean", str: "String", int: "Integer", float: "Numeric"}
#: The data type of all values: `Any` would accept that nothing is given.
_ANY: Final = "NotUndef[Any]"
#: The data type of variables whose members are used.
_MEMBERS: Final = "Hash[String, Any]"
_INPUT: Final = regex(r"inputs\.(\w+)(.*)")
#: The data type of what a loop repeats over.
_COLLECTION: Final = "Variant[Array, Hash]"
_DEEPEST: Final = 20


class ConvertedInput(NamedTuple):
    """An input of the manifest; without a default it is mandatory."""

    default: object = _MISSING
    sensitive: bool = False
    #: Whether it is sensitive for its name alone.
    guessed: bool = False
    comment: str = ""
    #: The data type without a default: of encrypted values and secrets mostly `String`.
    type: str = "String"

    @property
    def declaration(self) -> dict[str, Any]:
        """The entry of `inputs` for this input: a mandatory one has its ``type``, another one its default."""
        entry: dict[str, object] = {}
        if self.default is _MISSING:
            entry["type"] = self.type
        else:
            if name := _TYPES.get(type(self.default)):
                entry["type"] = name
            entry["default"] = literal(self.default)  # it is no template, and holds no reference
        return {**entry, "sensitive": True} if self.sensitive else entry


class Result(NamedTuple):
    """The registered result of a task, for the later tasks that use it."""

    #: The module's resource, whose attribute ``result`` has the result, or "".
    module: str = ""
    #: The attributes of each resource that reports changes, to which later tasks add `notify`.
    resources: Sequence[dict[str, Any]] = ()
    #: The command or the path of a check.
    command: object = None
    path: object = None


def numbered(name: str, form: str = " ({})") -> Iterator[str]:
    """Yield a name, and then the name with the numbers from 2 on behind it."""
    yield name
    yield from (name + form.format(number) for number in count(2))


def octal_digits(mode: object) -> Any:
    """Return a mode that YAML has read as a number, such as ``0644``, as text again; any other value as it is."""
    return f"{mode:04o}" if type(mode) is int else mode


def split_text(value: object) -> Any:
    """Return the items of a text with commas, which Ansible takes for a list; any other value as it is."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def elements_of(collection: object) -> list[Any]:
    """Return the elements of a loop's literal list or mapping; none of a reference, whose elements are not known."""
    if isinstance(collection, dict):
        return list(collection.values())
    return collection if isinstance(collection, list) else []


class Names:
    """The inputs and values of one manifest; names that two plays give different values get a number."""

    def __init__(self, refused: Mapping[str, str]) -> None:
        """Begin without names; ``refused``: values that a manifest cannot have, by name, with the reasons."""
        #: Name → the declaration of the input, or the value as the manifest writes it.
        self.inputs: dict[str, ConvertedInput] = {}
        self.values: dict[str, object] = {}
        #: Named value → the comment above it: its position in the playbook.
        self.comments: dict[str, str] = {}
        #: Of the present play, by name: its variables and the registered results. ``enter`` replaces them.
        self._variables: dict[str, Variable] = {}
        self.results: dict[str, Result] = {}
        #: The inputs and values that exist already, so that equal ones are shared. The keys: ``("fact", name)`` for
        #: `set_fact`, ``("unknown", name)`` for a variable that the playbook does not define, (name, value as text) for
        #: a variable, and (function, arguments as text) for a call.
        self._named: dict[tuple[str, str], ValueReference] = {}
        #: The variables that are being declared, to find one that is defined by itself.
        self._computing: list[str] = []
        #: Variable of the present play → the names that its value uses, also by other variables.
        self._used_by: dict[str, set[str]] = {}
        #: Type and title → the numbers of the task that has it, and of its loop's element.
        self._titles: dict[tuple[str, str], tuple[int, int]] = {}
        self._refused = refused

    def enter(self, play: Play) -> None:
        """Use the variables of a play; the results of the play before are forgotten."""
        self._variables, self.results, self._used_by = dict(play.variables), {}, {}

    def add_variables(self, variables: Mapping[str, Any]) -> None:
        """Add variables by name, in place of former ones of the same names."""
        self._variables.update(variables)
        self._used_by.clear()

    def set_fact(self, name: str, value: object, location: Location) -> None:
        """Name a value that a task sets by `set_fact`: later tasks of all plays use it in place of the variable.

        The play's variable of that name is removed, as it would otherwise still be evaluated at each use.
        """
        self._named["fact", name] = self._value(name, value, f"{location}: set_fact")
        self._variables.pop(name, None)
        self._used_by.clear()

    def written_with(self, name: str, local: set[str]) -> Any:
        """Return the text of a play's variable if it uses ``local`` names, variables of one task; else ``_MISSING``.

        Ansible evaluates a variable at each use: its value then differs from task to task, and each task converts the
        text itself. Any other variable becomes one value of the manifest, which all tasks share.
        """
        if name not in self._variables or not local:
            return _MISSING
        used = self._names_used_by(name)
        if name in used:  # defined by itself, which ``global_value`` refuses
            return _MISSING
        return self._variables[name].value if used & local else _MISSING

    def _names_used_by(self, name: str) -> set[str]:
        """Return the names that the value of a variable uses, directly or by other variables.

        They show whether its value differs from task to task.
        """
        if name not in self._used_by:
            used, waiting = set[str](), [name]
            while waiting:
                variable = self._variables.get(waiting.pop())
                names = names_in(variable.value) if variable is not None else set()
                waiting += names - used
                used |= names
            self._used_by[name] = used
        return self._used_by[name]

    def global_value(self, name: str) -> Any:
        """Return the reference to a fact or variable of the play, or None if there is none.

        The first use of a variable adds its input or value to the manifest, so that unused ones do not appear. Plays
        that give a name equal values share it; another value gets a name with a number.
        """
        if (fact := self._named.get(("fact", name))) is not None:
            return fact
        if (variable := self._variables.get(name)) is None:
            return None
        key = (name, repr(variable.value))
        if (reference := self._named.get(key)) is None:
            reference = self._named[key] = self._declare(name, variable)
        return reference

    def _declare(self, name: str, variable: Variable) -> ValueReference:
        """Add a variable to the manifest: as an input if its value is literal or secret, else as a computed value."""
        value, comment = variable.value, str(variable.location)
        if has_vault(value):
            comment = f"{comment}: {value.origin if isinstance(value, Vault) else Vault().origin}"
            kind = "String" if isinstance(value, Vault) else _ANY
            return self._input(name, ConvertedInput(_MISSING, sensitive=True, comment=comment, type=kind))
        if not is_template(value):
            return self._input(name, ConvertedInput(value, comment=comment))
        if name in self._computing or len(self._computing) > _DEEPEST:
            refuse(f"the variable '{name}' is defined by itself")
        self._computing.append(name)
        try:
            return self._value(name, Expressions(TaskScope(self)).value(value), comment)
        finally:
            self._computing.pop()

    def literal_value(self, reference: ValueReference) -> Any:
        """Return the value that a reference has by an input's default, or None: other values are known in a run only.

        The conversion of a task may depend on the value's class.
        """
        name, *keys = reference.path.removeprefix("inputs.").split(".")
        if not reference.path.startswith("inputs.") or name not in self.inputs:
            return None
        with suppress(Unconvertible):
            return follow(self.inputs[name].default, tuple(keys))
        return None

    def unknown_input(self, name: str, default: object = _MISSING, *, has_members: bool = False) -> ValueReference:
        """Return the reference to an input for a variable that the playbook does not define; all its uses share it.

        Without a default it is mandatory, and sensitive if its name is one of a secret. ``has_members``: an expression
        uses a member, so the value must be a mapping.
        """
        if (reference := self._named.get(("unknown", name))) is None:
            comment = "not defined in the playbook"
            sensitive = default is _MISSING and _SECRET_NAME.match(name) is not None
            kind = _MEMBERS if has_members else "String" if sensitive else _ANY
            declared = ConvertedInput(default, sensitive, guessed=sensitive, comment=comment, type=kind)
            reference = self._input(name, declared)
            self._named["unknown", name] = reference
        return reference

    def octal_digits(self, reference: ValueReference) -> None:
        """Turn the default of an input that is used as a mode into octal digits: YAML has read ``0644`` as a number.

        Raise ``Unconvertible`` for a number that is no default, as the manifest cannot convert it.
        """
        name = reference.path.removeprefix("inputs.")
        if name in self.inputs:
            self.inputs[name] = self.inputs[name]._replace(default=octal_digits(self.inputs[name].default))
        # a member of a default, or a function's result
        if self.class_of(reference) is int:
            no_counterpart(f"a mode that is the number in '{reference.path}'")

    def repeat_over(self, collection: object) -> None:
        """Adapt a mandatory input to the `for_each` that repeats over it, or over a member of it.

        The input gets the data type of collections. Titles show the elements, which therefore cannot be secret: an
        input that is sensitive only because of its name becomes an ordinary one. Raise ``Unconvertible`` for an
        encrypted value.
        """
        match = _INPUT.match(collection.path) if isinstance(collection, ValueReference) else None
        declared = self.inputs.get(match[1]) if match else None
        if match is None or declared is None or declared.default is not _MISSING:
            return
        name, member = match.groups()
        if declared.sensitive and not declared.guessed:
            refuse(f"'{name}' is a secret, and what a loop repeats over would be shown in titles")
        kind = declared.type if member or declared.type == _MEMBERS else _COLLECTION
        self.inputs[name] = declared._replace(type=kind, sensitive=False)

    def secret_input(self, name: str, location: Location) -> ValueReference:
        """Return the reference to a new mandatory input for an encrypted value within a task."""
        words = _WORD.sub("_", name).strip("_").lower()
        declared = ConvertedInput(_MISSING, sensitive=True, comment=f"{location}: encrypted by ansible-vault")
        return self._input(words or "secret", declared)

    def call(self, function: str, arguments: Mapping[str, object], name: str) -> ValueReference:
        """Return the reference to a function call, added as the value ``name`` unless the manifest has an equal one."""
        key = (function, repr(arguments))
        if (reference := self._named.get(key)) is None:
            value = {"invoke": function, "with": written(dict(arguments))}
            reference = self._named[key] = self._value(name, value, "")
        return reference

    def uses(self, *declared: object) -> set[str]:
        """Return the names of the inputs and values that declared values use, directly or by other values.

        Only these are written into the manifest, and they show whether a value depends on a secret.
        """
        waiting, names = list(declared), set[str]()
        while waiting:
            # ``inputs.a`` or ``values['b c']`` at any depth of the value; one of both groups is empty
            for name in map("".join, _NAME_USE.findall(repr(waiting.pop()))):
                if name not in names:
                    names.add(name)
                    waiting.append(self.values.get(name))
        return names

    def has_secret(self, value: object) -> bool:
        """Return whether a value depends on a sensitive input, directly or by other values: it must not be shown."""
        return any(name in self.inputs and self.inputs[name].sensitive for name in self.uses(value))

    def obstacle(self, value: object) -> str:
        """Return the reason that a value is not known early enough for titles, conditions and loops, or ""."""
        values = [self.values.get(name) for name in self.uses(value)]
        if any(isinstance(part, dict) and part.get("invoke") == "template" for part in values):
            return "depends on a rendered template"
        return "depends on the result of a task" if _RESULT_USE.search(repr([written(value), *values])) else ""

    def check_collection(self, collection: object) -> None:
        """Raise ``Unconvertible`` for a loop over elements that are known too late, or secret: titles show them."""
        if reason := self.obstacle(collection):
            no_counterpart(f"a loop over a collection that {reason}")
        if any(not isinstance(part, (dict, list)) and self.has_secret(part) for part in elements_of(collection)):
            no_counterpart("a loop over secrets")

    def class_of(self, value: object) -> type:
        """Return the Python class of a value, or of the value that a reference leads to: conversions depend on it.

        It is known of an input's default and of most functions' results, and otherwise ``NoneType``. A lookup is taken
        to have the class of its literal default, since its result is either that or a value in its place.
        """
        if isinstance(value, ValueReference):
            named = self.values.get(value.path.removeprefix("values."))
            call = named if isinstance(named, dict) else {}
            function, arguments = call.get("invoke"), call.get("with")
            if isinstance(function, str) and isinstance(arguments, dict):  # no mapping of the playbook with such keys
                function = function.removeprefix("std.")
                default = arguments.get("default") if function == "lookup" else None
                if default is None or (isinstance(default, str) and "${" in default):
                    return _RESULTS.get(function, type(None))
                value = default
            else:
                value = named if isinstance(named, list) else self.literal_value(value)
        return next((kind for kind in (bool, int, float, str, list, dict) if isinstance(value, kind)), type(None))

    def title(self, type_name: str, title: str, task: tuple[int, int]) -> str:
        """Return a title that no other ``task`` has, perhaps with a number; converted again, it gets the same one."""
        return next(row for row in numbered(title) if self._titles.setdefault((type_name, row), task) == task)

    def in_group(self, group: str) -> ValueReference:
        """Return the reference to a Boolean: whether this host is in a group or has its name.

        A play's ``hosts`` may have the names of groups and of hosts.
        """
        lists = [ValueReference("host.groups"), [ValueReference("host.name")]]
        names = self.call("std.concat", {"lists": lists}, "host_and_groups")
        return self.call("std.contains", {"in": names, "item": group}, f"in_{_WORD.sub('_', group)}")

    def _input(self, name: str, declared: ConvertedInput) -> ValueReference:
        """Add an input, under its name or that with a number; return the reference to it."""
        name = self._free(name)
        self.inputs[name] = declared
        return ValueReference("inputs").member(name)

    def _value(self, name: str, value: object, comment: str) -> ValueReference:
        """Add a value to the manifest, unless it is a reference to one; return the reference.

        Raise ``Unconvertible`` for a name that the check of an earlier attempt's manifest has refused.
        """
        if isinstance(value, ValueReference) and value.path.startswith("values."):
            return value
        if value is OMIT:
            no_counterpart(f"the variable '{name}' that is 'omit'")
        name = self._free(name)
        if name in self._refused:
            raise Unconvertible(self._refused[name])
        self.values[name], self.comments[name] = written(value), comment
        return ValueReference("values").member(name)

    def _free(self, name: str) -> str:
        """Return the name, with a number if it is in use."""
        return next(row for row in numbered(name, "_{}") if row not in self.inputs and row not in self.values)


class LoopNames:
    """The variables of a loop. ``keys``: the path of a member of its element, as in ``item.name``."""

    def __init__(self, loop: Loop, collection: object) -> None:
        """Keep the names of ``loop``, and its converted ``collection``: a reference, a list or a mapping."""
        self.variable, self.counter = loop.variable, loop.counter
        self.collection = collection
        self._is_mapping = loop.kind == "with_dict" or isinstance(collection, dict)

    def value(self, keys: tuple[str | int, ...]) -> ValueReference:
        """Return the reference of a manifest for ``item`` or its member at ``keys``, such as ``item.name``.

        A loop over a mapping has only ``item.key`` and ``item.value``, as ``each.key`` and ``each.value``: raise
        ``Unconvertible`` for the whole ``item``, which has no reference.
        """
        if not self._is_mapping:
            reference = ValueReference("each.value")
        elif keys[:1] == ("key",):
            return ValueReference("each.key")
        elif keys[:1] == ("value",):
            reference, keys = ValueReference("each.value"), keys[1:]
        else:
            refuse(f"the whole '{self.variable}' of a loop over a mapping")
        for key in keys:
            reference = reference.member(key)
        return reference

    def value_or(self, keys: tuple[str | int, ...], default: object, *, replaces_empty: bool) -> Any:
        """Return the counterpart of ``item.x | default(value)``, with ``keys`` the path ``x``.

        `for_each` has no defaults: the default is written into the collection's elements that lack the member, and the
        result is the reference to the member. If all elements lack it, the result is the default itself.
        ``replaces_empty``: an empty member counts as missing. With ``Omit`` as the default nothing is written, so that
        the attribute is not declared for those elements.
        """
        elements = elements_of(self.collection)
        is_known = isinstance(self.collection, (dict, list)) and all(isinstance(part, dict) for part in elements)
        # The only key after ``item``, or after ``item.value`` of a mapping.
        is_member = len(keys) == (2 if self._is_mapping else 1)
        if not (is_known and is_member):
            if isinstance(default, Omit) and not replaces_empty:
                return self.value(keys)
            refuse("a default for members of a loop's elements, which are not in the task")
        name = keys[-1]
        for element in elements:
            if replaces_empty and not element.get(name, True):
                del element[name]
        if not any(name in element for element in elements):
            return default
        if not isinstance(default, Omit):
            for element in elements:
                element.setdefault(name, default)
        return self.value(keys)

    def change(self, path: str, change: Callable[[Any], Any]) -> None:
        """Replace the member of each element at a reference's path by ``change(member)``.

        A manifest cannot convert the value of a reference, so the literal elements are converted.
        """
        name = path.removeprefix("each.value.")
        for element in elements_of(self.collection):
            if isinstance(element, dict) and name in element:
                element[name] = change(element[name])


class TaskScope:
    """The names that one task can use; it is a ``Resolver``, whose methods have the same names."""

    def __init__(
        self, names: Names, variables: tuple[dict[str, object], ...] = (), loop: LoopNames | None = None
    ) -> None:
        """Resolve the names of one task: first those of its ``loop``, then ``variables``, the innermost block first."""
        self.names = names
        self._variables = variables
        self._loop = loop

    def is_loop_variable(self, name: str) -> bool:
        """Return whether a name is a variable of the loop."""
        return self._loop is not None and name in {self._loop.variable, self._loop.counter}

    def has_value(self, name: str) -> bool:
        """Return whether the playbook defines a name."""
        return self._local(name) is not _MISSING or self.names.global_value(name) is not None

    def is_facts(self, name: str) -> bool:
        """Return whether a name is of a mapping of facts, of which a template gets only the members that it uses."""
        return name == "ansible_facts" or (name.removeprefix("ansible_"), "address") in _FACTS or name == "ansible_lsb"

    def literal_value(self, value: object) -> Any:
        """Return a value itself; of a reference the part of an input's default that it leads to, or None."""
        return self.names.literal_value(value) if isinstance(value, ValueReference) else value

    def split_members(self, reference: ValueReference) -> None:
        """Split at commas the texts that a reference has in the elements of a loop: the attribute needs lists."""
        if self._loop is not None and reference.path.startswith("each.value."):
            # in the collection, since the reference stays the same
            self._loop.change(reference.path, split_text)

    def octal_digits(self, reference: ValueReference) -> None:
        """Turn the numbers behind a reference into octal digits, for a mode: YAML has read ``0644`` as a number.

        They are defaults of inputs, or members of a loop's elements in the task. Raise ``Unconvertible`` for the
        elements of a variable, which stay numbers.
        """
        if self._loop is None or not reference.path.startswith("each."):
            self.names.octal_digits(reference)
            return
        self._loop.change(reference.path, octal_digits)
        name = reference.path.removeprefix("each.value.")
        for element in elements_of(self.literal_value(self._loop.collection)):
            if isinstance(element, dict) and type(element.get(name)) is int:
                no_counterpart("a mode that is a number in the elements of a variable")

    def call(self, function: str, arguments: Mapping[str, object], name: str) -> ValueReference:
        """Return the reference to a function's result as a value, which exists once, not for each element of a loop."""
        if "${each." in repr(written(dict(arguments))):
            refuse(f"the function {function} of an element of a loop: values are named once")
        return self.names.call(function, arguments, name)

    def in_group(self, group: str) -> ValueReference:
        """Return the reference to whether this host is in a group of the inventory."""
        return self.names.in_group(group)

    def class_of(self, value: object) -> type:
        """Return the class of a value, or ``NoneType`` if it is not known."""
        return self.names.class_of(value)

    def test_obstacle(self, path: str) -> str:
        """Return the reason that a condition cannot test a path, or "".

        A condition is evaluated before anything is read, and shown: values known later, and secrets, cannot be tested.
        """
        if reason := self.names.obstacle(ValueReference(path)):
            return f"a condition that {reason}"
        return "a condition about a secret" if self.names.has_secret(path) else ""

    def is_defined(self, name: str, keys: tuple[str | int, ...]) -> bool | ValueReference:
        """Return the counterpart of ``name is defined``: a Boolean if that is certain, or the reference to test.

        An undefined name becomes an input with the default null, so that the user can still give it a value. A member
        may be missing in a defined variable, so its reference is tested.
        """
        if self.is_loop_variable(name):
            return self.resolve(name, keys)  # type: ignore[no-any-return] # of a loop, a reference
        if name in self.names.results:
            return True
        if self._local(name) is _MISSING and self.names.global_value(name) is None and not name.startswith("ansible_"):
            return self.names.unknown_input(name, None)
        value = self.resolve(name, keys)
        return value if isinstance(value, ValueReference) and keys else True

    def _local(self, name: str) -> Any:
        """Return a variable of the task or of the innermost block around it, as written, or ``_MISSING``.

        A variable of the play whose value uses such variables or the loop's counts too: it differs from task to task.
        """
        value = next((variables[name] for variables in self._variables if name in variables), _MISSING)
        if value is not _MISSING:
            return value
        local = {key for variables in self._variables for key in variables}
        of_loop = {self._loop.variable, self._loop.counter} if self._loop else set()
        return self.names.written_with(name, local | of_loop)

    def resolve_or(
        self, name: str, keys: tuple[str | int, ...], default: object, *, replaces_empty: bool = False
    ) -> Any:
        """Return the counterpart of ``name.keys | default(default)``.

        A defined variable keeps its value, and an undefined one becomes an input with the default. A member of a
        reference, which may be missing only in the run, becomes a call of `std.lookup` with the default. ``Omit`` as
        the default means null for an input, and no default for a lookup. ``replaces_empty``: the default also replaces
        an empty value; as a manifest cannot do that, raise ``Unconvertible`` for a value that may be empty.
        """
        if self._loop is not None and name == self._loop.variable:
            return self._loop.value_or(keys, default, replaces_empty=replaces_empty)
        # variables of Ansible itself are defined by it, or refused by ``resolve``
        is_undefined = not self.has_value(name) and name not in _MAGIC and not name.startswith("ansible_")
        if is_undefined and not keys:
            if isinstance(default, ValueReference):
                return default
            return self.names.unknown_input(name, None if isinstance(default, Omit) else _unescaped(default))
        if replaces_empty and not self.literal_value(self.resolve(name, keys)):
            no_counterpart("a default for an empty value")
        value = self.resolve(name, ())
        if not keys:
            return value
        if not isinstance(value, ValueReference):  # a literal value: whether it has the member is known here
            with suppress(Unconvertible):
                return follow(value, keys)
            return default
        path = ".".join(map(str, keys))
        alternative = {} if isinstance(default, Omit) else {"default": default}
        return self.call("std.lookup", {"in": value, "path": path, **alternative}, str(keys[-1]))

    def resolve(self, name: str, keys: tuple[str | int, ...]) -> Any:
        """Return the value of a manifest, or the reference, for ``name`` and its members at ``keys``: ``a.b[0]``.

        The precedence is Ansible's: a loop's variable, the task's, a result, the play's, one of Ansible. An unknown
        name becomes an input.
        """
        if self._loop is not None and name == self._loop.variable:
            return self._loop.value(keys)
        if self._loop is not None and name == self._loop.counter:
            return ValueReference("each.index")
        if (local := self._local(name)) is not _MISSING:
            # Within its own value the name means the variable of the play, not itself.
            without = tuple({key: part for key, part in of.items() if key != name} for of in self._variables)
            return follow(Expressions(TaskScope(self.names, without, self._loop)).value(local), keys)
        if (result := self.names.results.get(name)) is not None:
            return self._of_result(name, result, keys)
        if (value := self.names.global_value(name)) is not None:
            return follow(value, keys)
        return self._builtin(name, keys)

    def _of_result(self, name: str, result: Result, keys: tuple[str | int, ...]) -> ValueReference:
        """Return the reference to a member of a result. Raise ``Unconvertible`` unless an `ansible_module` has it."""
        if not result.module:
            refuse(f"the result '{name}' is not known: its task is no ansible_module, or has a loop")
        reference = ValueReference(f"{result.module}.result")
        for key in keys:
            reference = reference.member(key)
        return reference

    def _builtin(self, name: str, keys: tuple[str | int, ...]) -> Any:
        """Return the value of a variable of Ansible, or an input for an unknown one.

        Facts have other names here. Raise ``Unconvertible`` for a variable about Ansible's run or other hosts, for an
        unknown fact, and for names such as ``lookup`` that are no variables: an input of that name would be wrong.
        """
        if name == "omit":
            return OMIT
        if name == "inventory_hostname":
            return ValueReference("host.name")
        if name == "inventory_hostname_short":
            return self.call("std.split", {"text": ValueReference("host.name"), "by": "."}, "host_name").member(0)
        if name == "group_names" and not keys:
            return ValueReference("host.groups")
        if name == "ansible_managed":
            return "Ansible managed"
        path = keys if name == "ansible_facts" else (name.removeprefix("ansible_"), *keys)
        if name.startswith("ansible_") and path in _FACTS:
            return ValueReference(f"facts.{_FACTS[path]}")
        if name in _MAGIC or name.startswith("ansible_") or name in {"lookup", "query", "now", "true", "false"}:
            dotted = ".".join(map(str, (name, *keys)))
            no_counterpart(f"'{dotted}'")
        has_members = bool(keys) and isinstance(keys[0], str)
        return follow(self.names.unknown_input(name, has_members=has_members), keys)


def _unescaped(value: object) -> Any:
    """Return a converted value as plain data again, ``$${`` unescaped, as the default of an input.

    The input's declaration escapes its default when it is written, which would otherwise happen twice.
    """

    def unescaped(part: object) -> object:
        return part.replace("$${", "${") if isinstance(part, str) else part

    if any(isinstance(leaf, ValueReference) for _, leaf in leaves(value)):
        refuse("a default that is a reference within a list")
    return map_leaves(value, unescaped, unescaped)
