"""Run modules of Ansible: they are due by their check mode, which also shows the difference."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

from lib import ansible_process
from lib.imperative import ImperativeProvider
from lib.sensitive import has_secret, parts, refused_secrets, reveal
from resource_api import UNKNOWN, CannotList, Problem, ResourceError, Sensitive

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from lib.ansible_process import AnsibleProcess
    from resource_api import Change, Context, Resource

#: Members of a result that say how Ansible has run the module.
INTERNAL = ("diff", "exception", "ansible_facts", "warnings", "deprecations")


class Provider(ImperativeProvider):
    """The modules of one run."""

    unlisted = "the effects of modules cannot be read"

    def __init__(self) -> None:
        """Begin without a process, by interpreter, and without results, by name: ``get`` returns those of this run."""
        self._processes: dict[str, AnsibleProcess] = {}
        self._results: dict[str, dict[str, Any]] = {}

    def validate(self, context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse a module that Ansible lacks, and arguments that the module refuses.

        Arguments that are not known yet cannot be checked. If Ansible cannot be run yet, an earlier resource may
        install it: ``due`` then reports the errors.
        """
        yield from refused_secrets(should, "args")
        if not {"module", "args"} <= should.keys() or has_secret(should["module"]) or _has_unknown(reveal(should)):
            return
        try:
            answer = self._call(context, should, only_arguments=True)
        except ResourceError:
            return
        if answer.get("unknown"):
            yield Problem("module", f"Ansible has no module '{should['module']}'")
        elif answer.get("failed"):
            yield Problem("args", f"{should['module']}: {_message(answer, should)}")

    def due(
        self, context: Context, name: str, should: Mapping[str, Any]
    ) -> bool | tuple[bool, str] | tuple[bool, str, list[tuple[str, Any, Any]]]:
        """Return whether a module's check mode reports a change, with its message and the difference for the plan."""
        result = self._run(context, name, should, check=True)
        reason = _message(result, should)
        if result.get("skipped"):
            return True, reason or "it has no check mode"
        if not result.get("changed"):
            return False
        return True, reason or "its check mode reports a change", list(_differences(result, should))

    def get(self, _context: Context, names: Collection[str] | None = None) -> list[Resource]:
        """Return the results of this run: nothing can be read later. Raise ``CannotList`` without ``names``."""
        if names is None:
            raise CannotList(self.unlisted)
        return [{"name": name, "result": self._results[name]} for name in names if name in self._results]

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Run one module after another; its result contains whether it has changed anything."""
        for name, (_, should) in changes.items():
            with context.updating(name, message="Running"):
                result = self._run(context, name, should, check=False)
                if result.get("changed"):
                    context.updated(name, message=_message(result, should) or "Changed")
                else:
                    context.unchanged(name, message="Executed without a change")

    def close(self) -> None:
        """End the processes."""
        for process in self._processes.values():
            process.close()

    def _run(self, context: Context, name: str, should: Mapping[str, Any], *, check: bool) -> dict[str, Any]:
        """Return a module's result, and keep its public part for ``result``. Raise ``ResourceError`` for a failure."""
        result = self._call(context, should, check=check)
        if result.get("failed"):
            raise ResourceError(f"{should['module']}: {_message(result, should) or 'failed'}")
        public = {key: value for key, value in result.items() if key not in INTERNAL and key[0] != "_"}
        self._results[name] = _concealed(public, _secrets(should["args"]))
        return result

    def _call(
        self, context: Context, should: Mapping[str, Any], *, check: bool = True, only_arguments: bool = False
    ) -> dict[str, Any]:
        """Return a module's result, called in the helper process of its interpreter, which serves the whole run.

        By default the module only checks for changes; with ``only_arguments``, for ``validate``, only its arguments are
        checked.
        """
        # A check for a plan changes nothing and may still run.
        if context.stopping and not context.reading:
            raise ResourceError("was not started: the run is being stopped")
        python = ansible_process.interpreter(should.get("python"))
        process = self._processes.get(python)
        if process is None or process.has_ended:
            process = self._processes[python] = ansible_process.AnsibleProcess(python)
        options = {"check_mode": check, "diff": True, "remote_tmp": tempfile.gettempdir()}
        # A module writes its arguments to the system's log.
        options["no_log"] = has_secret(should["args"])
        request = {"module": should["module"], "args": reveal(should["args"]), "options": options}
        return process.call(context, {**request, "only_arguments": only_arguments})


def _has_unknown(value: Any) -> bool:
    """Return whether a value is not known yet, or has such a part."""
    return value is UNKNOWN or any(map(_has_unknown, parts(value)))


def _message(result: Mapping[str, Any], should: Mapping[str, Any]) -> str:
    """Return the message in a module's result for a report, with secret arguments masked, as a module may repeat them.

    After a failure the last line of standard error follows: the message alone may be only "non-zero return code".
    """
    text = str(result.get("msg") or "").strip()
    stderr = str(result.get("stderr") or "").strip()
    text = f"{text}: {stderr.splitlines()[-1]}" if stderr and result.get("failed") else text
    for secret in _secrets(should["args"]):
        text = text.replace(secret, "<sensitive>")
    return text


def _differences(result: Mapping[str, Any], should: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield (name, before, after) of each part of a module's difference, for the plan.

    Some modules return dictionaries, whose keys are compared one by one, others two texts with a header as their name.
    """
    secrets = _secrets(should["args"])
    differences = result.get("diff") or []
    for difference in differences if isinstance(differences, list) else [differences]:
        before, after = difference.get("before"), difference.get("after")
        if not (isinstance(before, dict) and isinstance(after, dict)):
            name = difference.get("after_header") or difference.get("before_header") or "diff"
            before, after = {name: before}, {name: after}
        for name in {**before, **after}:
            is_, value = before.get(name), after.get(name)
            if is_ != value:
                yield str(name), _concealed(is_, secrets), _concealed(value, secrets)


def _secrets(value: Any) -> list[str]:
    """Return the texts of the secrets in arguments, to find them in a module's output."""
    if isinstance(value, Sensitive):
        return [text for text in _texts(reveal(value)) if text]
    return [text for part in parts(value) for text in _secrets(part)]


def _texts(value: Any) -> Iterator[str]:
    """Yield the scalars in a secret value, at any depth, as the texts that a module may print."""
    if not isinstance(value, (dict, list)):
        yield str(value)
    for part in parts(value):
        yield from _texts(part)


def _concealed(value: Any, secrets: list[str]) -> Any:
    """Return a part of a module's output for a report: each text in it that contains a secret becomes ``Sensitive``."""
    if isinstance(value, dict):
        return {key: _concealed(part, secrets) for key, part in value.items()}
    if isinstance(value, list):
        return [_concealed(part, secrets) for part in value]
    return Sensitive(value) if any(secret in str(value) for secret in secrets) else value
