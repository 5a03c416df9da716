"""Run Ansible modules, each in a forked child; executed by Ansible's own interpreter, and imported by nothing else.

Each line of standard input is a request in JSON, each line of standard output its answer. The end of standard input
ends the program, and the module that runs with all its programs.
"""

from __future__ import annotations

import ctypes
import importlib
import inspect
import json
import os
import runpy
import select
import signal
import sys
import traceback
from typing import Any

#: Modules with an action plugin that only helps their arguments along: the module does all of it alone.
MODULE_ALONE = {"ansible.builtin.command", "ansible.builtin.dnf", "ansible.builtin.uri"}
#: Bytes that are read at once.
CHUNK = 65536
PR_SET_PDEATHSIG = 1
REFUSED = {"failed": True, "refused": True}


def find(name: str) -> tuple[str, bool]:
    """Return the full name of a module, and whether ``run`` can execute it alone, instead of ``play``.

    The slower ``play`` is for modules with an action plugin and for old ones without ``ansible.module_utils``. Raise
    ``LookupError`` for an unknown module.
    """
    loader = importlib.import_module("ansible.plugins.loader")
    collections = ["ansible.builtin", "ansible.legacy"]
    context = loader.module_loader.find_plugin_with_context(name, collection_list=collections)
    if not context.resolved:
        raise LookupError(name)
    full = context.resolved_fqcn or name
    full = full.replace("ansible.legacy.", "ansible.builtin.")
    path = context.plugin_resolved_path or ""
    has_action = loader.action_loader.find_plugin_with_context(full, collection_list=collections).resolved
    needs_action = has_action and full not in MODULE_ALONE
    return full, not needs_action and path.endswith(".py") and "ansible.module_utils" in text(path)


def text(path: str) -> str:
    """Return the content of a file."""
    with open(path, encoding="utf-8", errors="replace") as stream:  # noqa: PTH123 - text in
        return stream.read()


def run(full: str, args: dict[str, Any], options: dict[str, Any], *, only_arguments: bool) -> None:
    """Run a module in this process; the module prints its result and ends the process by ``sys.exit``.

    ``only_arguments``: the module checks its arguments and does nothing else, for the validation of a manifest.
    """
    basic: Any = importlib.import_module("ansible.module_utils.basic")
    settings = {f"_ansible_{name}": value for name, value in options.items()}
    basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": {**args, **settings}}).encode()  # noqa: SLF001 - its interface
    basic._ANSIBLE_PROFILE = "legacy"  # noqa: SLF001 - the same
    if only_arguments:
        initialize = basic.AnsibleModule.__init__

        def check(module: Any, *arguments: Any, **keywords: Any) -> None:
            initialize(module, *arguments, **keywords)  # ends the process for wrong arguments
            module.exit_json(changed=False)

        basic.AnsibleModule.__init__ = check
    collection, _, name = full.rpartition(".")
    package = "ansible" if collection == "ansible.builtin" else f"ansible_collections.{collection}.plugins"
    fqn = f"{package}.modules.{name}"
    runpy.run_module(fqn, {"_module_fqn": fqn, "_modlib_path": ""}, "__main__", alter_sys=True)


def play(full: str, args: dict[str, Any], options: dict[str, Any]) -> None:
    """Run a module as the only task of a play on this machine, and print its result.

    A play, unlike ``run``, also executes the action plugin that some modules need. It is slower.
    """
    context: Any = importlib.import_module("ansible.context")
    tags = importlib.import_module("ansible.module_utils.common.collections")
    settings = {"connection": "local", "verbosity": 0, "forks": 1, "check": options["check_mode"], "diff": True}
    context.CLIARGS = tags.ImmutableDict({**settings, "become": None, "become_method": None, "become_user": None})
    loader = importlib.import_module("ansible.parsing.dataloader").DataLoader()
    inventory = importlib.import_module("ansible.inventory.manager").InventoryManager(loader, sources="localhost,")
    variables = importlib.import_module("ansible.vars.manager").VariableManager(loader, inventory)
    wrap = importlib.import_module("ansible.utils.unsafe_proxy").wrap_var
    # Its texts are values: nothing in them is a template.
    tasks = [{full: wrap(args)}]
    source = {"name": "module", "hosts": "localhost", "gather_facts": False, "tasks": tasks}
    source["vars"] = {"ansible_python_interpreter": sys.executable}
    loaded = importlib.import_module("ansible.playbook.play").Play().load(source, variables, loader)
    manager, callback = importlib.import_module("ansible.executor.task_queue_manager").TaskQueueManager, collector()
    if "stdout_callback" in inspect.signature(manager).parameters:  # before ansible-core 2.19
        queue = manager(inventory, variables, loader, {}, stdout_callback=callback)
    else:
        queue = manager(inventory, variables, loader, {})
        callback._init_callback_methods()  # noqa: SLF001 - as the manager does with a callback that it loads
        queue._callback_plugins.append(callback)  # noqa: SLF001 - the same
    try:
        queue.run(loaded)
    finally:
        queue.cleanup()


def collector() -> Any:
    """Return a callback of Ansible that prints each task's result in JSON, as a module alone does.

    The reader of the output then need not distinguish between ``run`` and ``play``.
    """
    base: Any = importlib.import_module("ansible.plugins.callback").CallbackBase

    class Collector(base):  # type: ignore[misc] # the class is known to Ansible's interpreter only
        """Prints the result of each task, whether it succeeds, fails or is skipped."""

        CALLBACK_VERSION = 2.0
        CALLBACK_TYPE = "stdout"
        CALLBACK_NAME = "collector"

        def v2_runner_on_ok(self, result: Any) -> None:
            print(json.dumps(result._result, default=str))  # noqa: SLF001, T201 - as all callbacks read and write it

        def v2_runner_on_failed(self, result: Any, **_options: Any) -> None:
            print(json.dumps({**result._result, "failed": True}, default=str))  # noqa: SLF001, T201 - the same

        def v2_runner_on_skipped(self, result: Any) -> None:
            print(json.dumps({**result._result, "skipped": True}, default=str))  # noqa: SLF001, T201 - the same

        v2_runner_on_unreachable = v2_runner_on_failed

    return Collector()


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request: the module's result, or the error of an unknown module.

    With ``only_arguments`` in it the arguments are checked, before any change is made.
    """
    try:
        full, alone = find(request["module"])
    except LookupError:
        return {**REFUSED, "unknown": True, "msg": "there is no module of this name"}
    if request["only_arguments"] and not alone:  # ``play`` cannot check arguments without running the module
        return {"changed": False}
    result = forked(full, request, alone=alone)
    # The module's arguments, which may be secrets, are of no use to the caller.
    result.pop("invocation", None)
    return result


def forked(full: str, request: dict[str, Any], *, alone: bool) -> dict[str, Any]:
    """Run a module in a forked child; return its last printed JSON object, or an error for none.

    A fork has all imports of Ansible already, and the module's changes of its process end with it. ``alone``: the
    module is executed by ``run``, otherwise by ``play``.
    """
    output = os.memfd_create("result", os.MFD_CLOEXEC)
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)  # ``await_end`` kills its programs with it
        os.close(0)  # the requests
        os.open(os.devnull, os.O_RDONLY)
        os.dup2(output, 1)
        code = 0
        try:
            if alone:
                run(full, request["args"], request["options"], only_arguments=request["only_arguments"])
            else:
                play(full, request["args"], request["options"])
        except SystemExit:
            pass
        except BaseException:  # noqa: BLE001 - the end of the child
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        os._exit(code)
    await_end(child)
    with os.fdopen(output, "rb") as stream:
        stream.seek(0)
        printed = stream.read().decode("utf-8", "replace")
    try:
        return dict(json.loads([line for line in printed.splitlines() if line.startswith("{")][-1]))
    except (IndexError, ValueError):
        return {"failed": True, "msg": f"answered no JSON: {printed[-200:]}"}


def await_end(child: int) -> None:
    """Wait for a child to end. If standard input ends first, kill the child with its programs, and end this process.

    The end of standard input means that the caller was killed, or has given up: nobody would stop the module then.
    """
    watch = os.pidfd_open(child)
    ready, _, _ = select.select([0, watch], [], [])
    if 0 in ready and watch not in ready:
        os.killpg(child, signal.SIGKILL)
        os._exit(1)
    os.close(watch)
    os.waitpid(child, 0)


def main() -> None:
    """Answer the requests on standard input until it ends: each is a line of JSON, and so is its answer on stdout."""
    # Not killed with its parent any more, as it was started: nobody would end the module that runs.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, 0)
    answers = os.dup(1)
    os.dup2(2, 1)  # prints of Ansible are no answers
    try:
        importlib.import_module("ansible.module_utils.basic")
        importlib.import_module("ansible.plugins.loader").init_plugin_loader()
    except ImportError as error:
        sys.exit(str(error))
    unfinished = b""
    while chunk := os.read(0, CHUNK):
        *lines, unfinished = (unfinished + chunk).split(b"\n")
        for line in lines:
            data = json.dumps(answer(json.loads(line))).encode() + b"\n"
            while data:
                data = data[os.write(answers, data) :]


if __name__ == "__main__":
    main()
