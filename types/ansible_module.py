"""Modules of Ansible."""

from __future__ import annotations

from resource_api import Attribute, TypeDefinition

PATH = r"Pattern[/\A\/[^\x00]*\z/]"

TYPE = TypeDefinition(
    name="ansible_module",
    docs="""Run a module of Ansible on this machine, where its check mode reports a change.

    Ansible_module[greeting]:
      module: lineinfile
      args: {path: /etc/motd, line: hello}
    Ansible_module[version]:
      module: command
      args: {cmd: uname -r}
    Notify[kernel]: {message: '${Ansible_module[version].result.stdout}'}

Needs ansible-core 2.15 or later, which runs in its own interpreter. The plan shows the reason and the difference that
the module reports in check mode. A module without check mode runs in every apply. A module that does not exist, and
arguments that it refuses, are errors of the manifest where Ansible is installed.

There is no play: no variables, no facts and no templates, `{{ x }}` is a text. A relative path is one below `/`.
The effect of a module cannot be read back: there is no drift and no deletion. The metaparameter `timeout`
replaces the limit of 300 seconds.
""",
    attributes={
        "name": Attribute("String[1]", "The name of the task.", kind="namevar"),
        "module": Attribute(
            r"Pattern[/\A[A-Za-z_]\w*(\.\w+)*\z/]",
            "The module, such as `lineinfile` or `community.general.ini_file`.",
            kind="parameter",
            must_be="the name of a module",
        ),
        "args": Attribute(
            "Hash[String, Any]",
            "Its arguments. A secret in them is passed by stdin only.",
            kind="parameter",
            default={},
        ),
        "python": Attribute(
            f"Optional[{PATH}]",
            "The interpreter that has Ansible; if not declared, the one of the program `ansible`.",
            kind="parameter",
            must_be="an absolute path",
        ),
        "result": Attribute(
            "Hash[String, Any]",
            "The result of the module in this run; where there was nothing to do, the result of its check mode.",
            kind="read_only",
        ),
    },
    autorequires={"file": "$python"},
    features={"imperative", "simple_get_filter", "validate"},
)
