"""Modules of Ansible."""

from __future__ import annotations

from lib.wait_condition_attributes import PATH
from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="ansible_module",
    docs="""Run a module of Ansible on this machine if its check mode reports a change.

    Ansible_module[greeting]:
      module: lineinfile
      args: {path: /etc/motd, line: hello}
    Ansible_module[version]:
      module: command
      args: {cmd: uname -r}
    Notify[kernel]: {message: '${Ansible_module[version].result.stdout}'}

Needs ansible-core 2.15 or later, in an interpreter of its own. The plan shows the reason and the difference that the
module reports in check mode. A module without check mode runs in every apply. Unknown modules and refused arguments are
errors of the manifest, if Ansible is installed.

`resource-api convert` makes these resources, and those of other types, from a playbook.

There is no play: no variables, facts or templates; `{{ x }}` is text. Relative paths are below `/`. The effect of a
module cannot be read back, so there is no drift and no deletion. The time limit is 300 seconds, or the metaparameter
`timeout`.
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
            "Hash[String, Any]", "Its arguments. Secrets are passed through stdin.", kind="parameter", default={}
        ),
        "python": Attribute(
            f"Optional[{PATH}]",
            "The interpreter that has Ansible; by default that of the program `ansible`.",
            kind="parameter",
            must_be="an absolute path",
        ),
        "result": Attribute(
            "Hash[String, Any]",
            "The result of the module, or of its check mode if there was nothing to do.",
            kind="read_only",
        ),
    },
    autorequires={"file": "$python"},
    features={"imperative", "simple_get_filter", "validate"},
)
