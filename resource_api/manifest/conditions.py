"""Conditions of ``when``: parse them, and judge them over the names of a manifest (contract §10.6).

A condition is true, false, one reference to a Boolean, or a mapping of paths to tests that all must hold. Its names are
known before anything is read. Pure: the values of paths come in as a function.
"""

from __future__ import annotations

from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.datatypes.parser import PatternError, translate
from resource_api.model.values import expression
from resource_api.model.values.document import Violation, unknown_keys
from resource_api.model.values.errors import suggestion
from resource_api.model.values.expression import EvaluationError, Expression, ExpressionPath
from resource_api.model.values.start_up import NamedTuple, regex
from resource_api.model.values.text import show
from resource_api.model.values.values import SCALAR_TYPES, UNKNOWN, Sensitive, is_secret, is_unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    KeyPath = tuple[str | int, ...]
    #: Returns the value of a path, ``UNKNOWN`` if only a run yields it.
    Resolve = Callable[[ExpressionPath], Any]
    #: Returns the reason that a value, called by a name in messages, fails the test, or an empty string. Raises
    #: ``ConditionError`` for a value of a kind that the test does not take.
    Test = Callable[[Any, str], str]

#: The scopes of paths: all of them are known before anything is read.
SCOPES: Final = ("inputs", "values", "facts", "host", "each", "stacks")
#: The scopes in which a missing path is no mistake.
_OPEN_SCOPES: Final = frozenset({"facts", "stacks"})
#: The parts of ``each``, in the order of the fields of ``Element``.
ELEMENT_KEYS: Final = ("key", "value", "index")
_ORDERINGS: Final[dict[str, tuple[str, Callable[[int], bool]]]] = {
    "lt": ("less than", lambda order: order < 0),
    "le": ("at most", lambda order: order <= 0),
    "gt": ("more than", lambda order: order > 0),
    "ge": ("at least", lambda order: order >= 0),
}
_OPERATORS: Final = ("not", "matches", *_ORDERINGS, "exists")
#: The length of words for which no nearest scope is looked for.
_SHORT: Final = 2
_NUMBERS: Final = frozenset({int, float})
_NO_BRACES: Final = str.maketrans("", "", "${}")
_DOTTED: Final = regex(r"[0-9]+(?:\.[0-9]+)*\Z")
_EXAMPLE: Final = "write true, false, ${inputs.NAME} or a mapping such as {facts.os.family: Debian}"


class ConditionError(ValueError):
    """A condition that is wrong; ``path`` leads to the cause within the condition."""

    def __init__(self, message: str, path: KeyPath = (), hint: str = "") -> None:
        """Keep the message for users, the path for its position, and the hint, a correction or ""."""
        super().__init__(message)
        self.path = path
        self.hint = hint


class NotKnownError(ConditionError):
    """A condition on a value that is not known before anything is read, or is that of an invalid input."""


#: The value of a path that does not exist.
_MISSING: Final = object()


class _MissingValueError(Exception):
    """A test needs a value where there is none."""


class Condition(NamedTuple):
    """A parsed condition."""

    #: Returns the reason that it does not hold, or an empty string if it holds. Raises ``ConditionError`` for a missing
    #: or secret value, and for one of a kind that a test does not take.
    judge: Callable[[Resolve], str]
    #: Whether it depends on an element of ``for_each``, so that it is judged for each of them.
    uses_each: bool = False


TRUE: Final = Condition(lambda _resolve: "")
_FALSE: Final = Condition(lambda _resolve: "when is false")


def violations(path: KeyPath, value: object) -> Iterator[Violation]:
    """Yield every mistake in the form of a condition, to report them while the manifest is read.

    The values of inputs and facts, which are not known by then, are judged later. ``path``: position in the manifest.
    """
    parser = _Parser()
    parser.condition(path, value)
    yield from parser.violations


def test_violations(path: KeyPath, value: object) -> Iterator[Violation]:
    """Yield every mistake in the form of a test of an attribute in ``where`` of a purge, such as ``{lt: 10}``.

    ``path``: the position of the test in the manifest, for the messages.
    """
    parser = _Parser()
    parser.test(path, value)
    yield from parser.violations


def parse_test(value: object) -> Test:
    """Return the function of a test as written, such as ``{ge: 1000}``, without ``test_violations``."""
    return _Parser().test((), value)


def test_failure(test: Test, value: object, name: str) -> str:
    """Return the reason that the value of a row's attribute fails a test in ``where`` of a purge, or "".

    None, an attribute without a value, passes only a test that accepts null, and is no error: rows of resources differ
    in their attributes. Raise ``ConditionError`` for a value of a kind that the test does not accept.
    """
    try:
        return test(value, name)
    except ConditionError:
        if value is None:
            return f"{name} has no value"
        raise


def parse(value: object) -> Condition:
    """Return the condition of ``when``, to be judged. Raise ``ConditionError`` for its first violation.

    ``violations`` has reported all violations of a manifest's conditions when the manifest was read.
    """
    parser = _Parser()
    condition = parser.condition((), value)
    if parser.violations:
        violation = parser.violations[0]
        raise ConditionError(violation.message, violation.path, violation.hint)
    return condition


def _judge_reference(path: ExpressionPath, resolve: Resolve) -> str:
    """Return the reason that ``when: ${path}`` does not hold, for the report of resources left out, or "" if it holds.

    Raise ``ConditionError`` for a value that is missing or no Boolean.
    """
    try:
        value = _checked(resolve(path), str(path))
    except ConditionError:  # a ValueError too, but with a hint of its own
        raise
    except ValueError as error:
        raise ConditionError(str(error)) from error
    if type(value) is not bool:
        msg = f"{path} must be true or false, and it is {_kind(value)}"
        # As a key of a condition the path is written without ``${`` and ``}``.
        raise ConditionError(msg, (), f"compare it: {{{str(path)[2:-1]}: VALUE}}")
    return "" if value else f"{path} is false"


def _judge_test(path: ExpressionPath, test: Test, keys: KeyPath, resolve: Resolve) -> str:
    """Return the reason that the value of a path fails its test, or "" if it passes.

    A missing fact or output of a stack only fails the test, since machines and stacks differ. Any other missing value
    is a mistake, since a misspelt input would otherwise switch resources off: raise ``ConditionError`` with ``keys``,
    the position of the test in the condition.
    """
    name = str(path)[2:-1]  # ``inputs.x`` of ``${inputs.x}``
    try:
        value, message = _value_of(path, resolve)
        return test(_checked(value, name), name)
    except ConditionError as error:
        raise type(error)(str(error), keys, error.hint) from error
    except _MissingValueError:
        if path.root in _OPEN_SCOPES:
            return f"{name} does not exist"
        raise ConditionError(message, keys, "to test that, write {exists: true}") from None
    except ValueError as error:
        raise ConditionError(str(error), keys) from error


def _value_of(path: ExpressionPath, resolve: Resolve) -> tuple[Any, str]:
    """Return the value of a path and "", or for a missing value ``_MISSING``, on which the test decides, and a message.

    The beginning of a path, such as ``inputs.x`` of ``inputs.x.key``, must be declared: raise ``ValueError`` for a
    misspelt input. The keys behind it, a fact or a member of ``host`` may be missing.
    """
    # The keys of ``inputs.a[inputs.b]`` come from values, which may be unknown (None) or secret.
    chosen, secret = expression.with_choices(path, resolve)
    if chosen is None or secret:
        return (UNKNOWN if chosen is None else Sensitive(None)), ""
    # The first name of most scopes must be declared, of stacks the output too; the keys behind it may be missing. A
    # member that only other elements have is null, so that of each the whole path is resolved.
    declared_keys = {"each": len(chosen.keys), "stacks": 2}.get(str(chosen.root), 1)
    try:
        declared = resolve(chosen._replace(keys=chosen.keys[:declared_keys]))
        return expression.follow_keys(declared, chosen, chosen.keys[declared_keys:]), ""
    except EvaluationError as error:
        return _MISSING, str(error)
    except ValueError as error:
        if chosen.root not in {"facts", "host"}:
            raise
        return _MISSING, str(error)


def _checked(value: object, name: str) -> Any:
    """Return the value of a path. Raise ``ConditionError`` if it is unknown, or a secret, which the plan would show."""
    if is_secret(value):
        raise ConditionError(f"{name} is a secret, and what is left out would tell it", (), "test another value")
    if is_unknown(value):
        msg = f"{name} is not known before anything is read"
        raise NotKnownError(msg, (), "a condition takes inputs, facts and what is made of them alone")
    return value


def _existing(value: object) -> Any:
    """Return the value of a path, before any test but ``exists``. Raise ``_MissingValueError`` if it does not exist.

    ``_judge_test``, which catches it, knows whether a missing value fails the test or is a mistake.
    """
    if value is _MISSING:
        raise _MissingValueError
    return value


def _equals(value: object, expected: object) -> bool:
    """Return whether a value equals a scalar of a test; a Boolean equals no number, in spite of Python's ``True == 1``.

    Raise ``ConditionError`` for a text against a number, which are never equal: mostly the quotes are wrong.
    """
    _existing(value)
    if type(value) is str and type(expected) in _NUMBERS:
        msg = f"the value is the text {show(value)}, and {show(expected)} is a number"
        raise ConditionError(msg, (), f'quote it: "{expected}"')
    if type(value) in _NUMBERS and type(expected) is str:
        msg = f"the value is the number {show(value)}, and {show(expected)} is a text"
        raise ConditionError(msg, (), "write it without quotes")
    return type(value) in SCALAR_TYPES and (type(value) is bool) is (type(expected) is bool) and bool(value == expected)


def _compare(value: object, bound: Any, name: str) -> int:
    """Return -1, 0 or 1 if a value is below, equal to or above ``bound``, for tests such as ``{ge: "22.04"}``.

    Numbers are compared as such, and versions part by part, so that ``22.10`` is above ``22.9``. Raise
    ``ConditionError`` for a value without an order, called ``name`` in the message.
    """
    if type(value) in _NUMBERS and type(bound) in _NUMBERS:
        return int(value > bound) - int(value < bound)
    _equals(value, bound)  # raises for text against a number
    if type(value) is not str or not _DOTTED.match(value):
        msg = f"{name} is {_kind(value)}, and only numbers and texts of dotted numbers have an order"
        raise ConditionError(msg, (), "use a list of values, or matches: /re/")
    for pair in zip_longest(value.split("."), bound.split("."), fillvalue=""):  # a missing part is zero: 22 = 22.0
        left, right = (part.lstrip("0") for part in pair)  # as text: Python converts only some thousand digits
        if left != right:  # without zeros at the start, more digits make the greater number: 10 is above 9
            return 1 if (len(left), left) > (len(right), right) else -1
    return 0


def _any_of(conditions: Sequence[Condition]) -> Condition:
    """Return the condition ``any: [...]``, which holds if one of ``conditions`` does; its reason joins those of all."""

    def judge(resolve: Resolve) -> str:
        reasons = [condition.judge(resolve) for condition in conditions]
        return "; ".join(reasons) if all(reasons) else ""

    return Condition(judge, any(condition.uses_each for condition in conditions))


def _first_reason(reasons: Iterator[str]) -> str:
    """Return the first reason that is not empty, or "": those behind it are not computed."""
    return next(filter(None, reasons), "")


def _test_equality(expected: object, value: object, name: str) -> str:
    """Return why the value does not equal a scalar, or ""."""
    return "" if _equals(value, expected) else f"{name} is {show(value)}, not {show(expected)}"


def _test_choice(expected: Sequence[object], value: object, name: str) -> str:
    """Return why the value equals none of a list of scalars, as in ``facts.os.family: [Debian, RedHat]``, or ""."""
    if any([_equals(value, item) for item in expected]):  # noqa: C419 - all are compared, to report text for number
        return ""
    return f"{name} is {show(value)}, none of {', '.join(map(show, expected))}"


def _test_existence(expected: bool, value: object, name: str) -> str:  # noqa: FBT001 - the operand in the condition
    """Return why ``{exists: expected}`` fails, or "". A null does not exist either: it is not declared."""
    exists = value is not _MISSING and value is not None
    return "" if exists is expected else f"{name} {'exists' if exists else 'does not exist'}"


def _test_match(source: str, value: Any, name: str) -> str:
    """Return why ``{matches: /source/}`` fails, or "". Raise ``ConditionError`` for a value that is no text."""
    if type(_existing(value)) is not str:
        raise ConditionError(f"{name} is no text, so that no regular expression can match it")
    return "" if translate(source).search(value) else f"{name} is {show(value)}, without a match of /{source}/"


def _test_order(words: str, accepts: Callable[[int], bool], bound: object, value: object, name: str) -> str:
    """Return why a test such as ``{ge: bound}`` fails, or "".

    ``words`` describe the order in the reason; ``accepts`` tests the result of the comparison, -1, 0 or 1.
    """
    in_order = accepts(_compare(_existing(value), bound, name))
    return "" if in_order else f"{name} is {show(value)}, not {words} {show(bound)}"


def _kind(value: object) -> str:
    """Return the words for a value of the wrong kind in a message: "a mapping", "a list", or the scalar itself."""
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    return "null" if value is None else show(value)


def _path_hint(key: str) -> str:
    """Return the hint for a key of a condition that is no path: the nearest scope for a misspelt one, or an example.

    For a word of one or two letters any scope would be a guess.
    """
    scope = key.partition(".")[0]
    if scope == "stacks":
        return "write stacks.NAME.outputs.x"
    is_misspelt = len(scope) > _SHORT and scope not in SCOPES
    nearest = suggestion(scope, (*SCOPES, "any", "not"), "scope") if is_misspelt else ""
    return nearest or f"a path begins with {', '.join(SCOPES)}, as in facts.os.family"


def _literal(value: object) -> Any:
    """Return the scalar of a test: ``$${`` stands for ``${``, as everywhere in a manifest."""
    return value.replace("$${", "${") if type(value) is str else value


class _Parser:
    """Parses conditions, and collects violations."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []

    def _violation(self, path: KeyPath, message: str, hint: str = "") -> None:
        self.violations.append(Violation(path, message, hint))

    def condition(self, path: KeyPath, value: object) -> Condition:
        """Return the condition ``value`` at ``path``, and collect its violations.

        An invalid part becomes a condition that never holds, so that parsing goes on and all violations are reported. A
        condition that contains a path of ``each`` is marked, because it is judged for each element of ``for_each``.
        """
        if type(value) is bool:
            return TRUE if value else _FALSE
        if type(value) is dict and value:
            parts = [self._member((*path, key), key, item) for key, item in value.items()]
            uses_each = any(part.uses_each for part in parts)
            return Condition(lambda resolve: _first_reason(part.judge(resolve) for part in parts), uses_each)
        if type(value) is str and "${" in value:
            return self._short_form(path, value)
        kind = "it is empty" if value in ({}, "") else f"this is {'a text' if type(value) is str else _kind(value)}"
        self._violation(path, f"a condition must be true, false, a reference or a mapping; {kind}", _EXAMPLE)
        return _FALSE

    def _short_form(self, path: KeyPath, value: str) -> Condition:
        """Parse the short form ``when: ${inputs.x}``: one reference alone, to a Boolean."""
        try:
            parsed = expression.parse(value)
        except ValueError as error:
            self._violation(path, str(error))
            return _FALSE
        parts = parsed.parts if isinstance(parsed, Expression) else ()
        if len(parts) != 1 or not isinstance(parts[0], ExpressionPath):
            self._violation(path, "a condition in text must be one reference alone", _EXAMPLE)
            return _FALSE
        self._check_scope(path, parts[0])
        return Condition(partial(_judge_reference, parts[0]), parts[0].root == "each")

    def _member(self, path: KeyPath, key: str, value: object) -> Condition:
        """Parse one key of a condition: ``not``, ``any``, or a path such as ``facts.os.family``.

        ``value``: the condition under ``not``, the list of conditions, or the test of the path. An invalid key or value
        is reported, and the returned condition never holds.
        """
        if key == "not":
            inner = self.condition(path, value)
            negated = "the condition under not holds"
            return Condition(lambda resolve: "" if inner.judge(resolve) else negated, inner.uses_each)
        if key == "any":
            if type(value) is list and value:
                return _any_of([self.condition((*path, number), item) for number, item in enumerate(value)])
            self._violation(path, "any must be a list of conditions", "write any: [{...}, {...}]")
            return _FALSE
        target = self._target(path, key)
        if target is None:
            return _FALSE
        return Condition(partial(_judge_test, target, self.test(path, value), path), target.root == "each")

    def _target(self, path: KeyPath, key: str) -> ExpressionPath | None:
        """Return the path in a condition's key, such as ``facts.os.family``; report an invalid key and return None."""
        if "${" in key:
            hint = f"write {key.translate(_NO_BRACES)}"
            self._violation(path, "a path in a condition is written without ${ and }", hint)
            return None
        try:
            parsed = expression.parse(f"${{{key}}}")
        except ValueError:
            self._violation(path, f"{show(key)} is no path of a condition", _path_hint(key))
            return None
        assert isinstance(parsed, Expression)
        target = parsed.parts[0]
        assert isinstance(target, ExpressionPath)
        self._check_scope(path, target)
        return target

    def _check_scope(self, path: KeyPath, target: ExpressionPath) -> None:
        """Report a path to a resource, which is not read yet, or to an unknown part of ``each``."""
        if not isinstance(target.root, str):
            message = f"a condition cannot depend on a resource, such as {target.root}: it is judged before one is read"
            self._violation(path, message, "test an input or a fact")
        elif target.root == "each" and target.keys[0] not in ELEMENT_KEYS:
            self._violation(path, f"each has {', '.join(ELEMENT_KEYS)}", suggestion(target.keys[0], ELEMENT_KEYS))

    def test(self, path: KeyPath, value: object) -> Test:
        """Parse the test at ``path``: a scalar, a list of scalars, or a mapping of operators.

        The value must equal the scalar or one of the list, or be accepted by all operators. Violations are collected,
        and a test with a violation is never called. A returned test takes the value, and its name for the reason.
        """
        if type(value) is list:
            for number, item in enumerate(value):
                self._check_scalar((*path, number), item)
            if not value:
                self._violation(path, "a list of values is empty, and no value is one of them")
            return partial(_test_choice, list(map(_literal, value)))
        if type(value) is not dict:
            self._check_scalar(path, value)
            return partial(_test_equality, _literal(value))
        if not value:
            self._violation(path, "a test is empty", f"write a value, a list, or one of {', '.join(_OPERATORS)}")
        self.violations += unknown_keys(path, value, _OPERATORS, "test")
        tests = [self._operator((*path, word), word, value[word]) for word in _OPERATORS if word in value]
        if "exists" in value:  # the last of _OPERATORS comes first: where it fails, the others see no missing value
            tests.insert(0, tests.pop())
        return lambda value, name: _first_reason(test(value, name) for test in tests)

    def _operator(self, path: KeyPath, word: str, value: object) -> Test:
        """Return the test of one operator, such as ``lt`` in ``{lt: 10}``; report a wrong operand ``value``."""
        if word == "not":
            test = self.test(path, value)
            # A test returns the reason of a failure: with a reason the inner test has failed, and ``not`` passes.
            return lambda value, name: "" if test(value, name) else f"{name} is {show(value)}"
        if word == "exists":
            if type(value) is not bool:
                self._violation(path, "exists must be true or false", "write it without quotes")
            return partial(_test_existence, value is True)
        if word == "matches":
            return self._matches(path, value)
        if not (type(value) in _NUMBERS or (type(value) is str and _DOTTED.match(value))):
            self._violation(path, f'{word} must be a number, or a text of dotted numbers such as "22.04"')
        return partial(_test_order, *_ORDERINGS[word], value)

    def _matches(self, path: KeyPath, value: object) -> Test:
        """Parse the operand of ``matches``, a regular expression between slashes; report another value."""
        if type(value) is not str or len(value) < 2 or value[0] != "/" or value[-1] != "/":  # noqa: PLR2004 - two slashes
            text = value if type(value) is str else "RE"
            self._violation(path, "matches must be a regular expression between slashes", f"write /{text.strip('/')}/")
            return lambda _value, _name: ""  # never called, because of the violation
        try:
            translate(value[1:-1])
        except PatternError as error:
            self._violation(path, f"this is no regular expression: {error}, at character {error.offset + 2}")
        return partial(_test_match, value[1:-1])

    def _check_scalar(self, path: KeyPath, value: object) -> None:
        """Report an operand of a test that is no scalar, or has an expression: operands are not evaluated."""
        if type(value) not in SCALAR_TYPES:
            self._violation(path, "a value in a test must be a text, a number, true, false or null")
        elif type(value) is str and "${" in value.replace("$${", ""):
            hint = "write it out; logic belongs in a Python manifest"
            self._violation(path, "a value in a test cannot hold ${...}", hint)
