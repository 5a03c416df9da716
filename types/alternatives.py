"""Groups of alternatives, and which one is used."""

from resource_api import Attribute, TypeDefinition

NAME = r"[A-Za-z0-9_][\w.+-]*"
PATH = r"Pattern[/\A\/[^\x00-\x1f\x7f]+\z/]"

TYPE = TypeDefinition(
    name="alternatives",
    docs="""Manage the program that a common name stands for, with `update-alternatives`.

    Alternatives[editor]:
      path: /usr/bin/vim.basic
    Alternatives[java]:
      link: /usr/bin/java
      choices:
        /opt/jdk-21/bin/java: {priority: 2100, slaves: {javac: {link: /usr/bin/javac, path: /opt/jdk-21/bin/javac}}}
        /opt/jdk-8/bin/java: absent

Most groups come with packages; then `path` is all that need be declared. Choices that are not declared stay as they
are. With `path: auto` the one of the highest priority is used, also of those that packages bring later. Links that
were removed or changed by hand are drift. `ensure: absent` removes the group with all its choices and links.
A link beneath a directory to which other users can write is refused.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether there is such a group.", default="present"),
        "name": Attribute(
            rf"Pattern[/\A{NAME}\z/]", "The name of the group.", kind="namevar", must_be="a group's name"
        ),
        "path": Attribute(
            f"Optional[Variant[Enum[auto], {PATH}]]",
            "The choice that is used whatever its priority; or `auto`, the one of the highest priority.",
            must_be="an absolute path",
        ),
        "link": Attribute(
            f"Optional[{PATH}]", "The common name, a link; needed for a new group.", must_be="an absolute path"
        ),
        "choices": Attribute(
            rf"Optional[Hash[{PATH}, Variant[Enum[absent], Struct[{{priority => Integer, Optional[slaves] =>"
            rf" Hash[Pattern[/\A{NAME}\z/], Struct[{{link => {PATH}, path => {PATH}}}]]}}]]]]",
            "Choices by path: each with its priority, and all further links that change together with it, which stay as"
            " they are if none are declared and go with `slaves: {}`; or `absent`.",
            must_be="an absolute path",
        ),
        "used": Attribute("Optional[String]", "The choice that is used.", kind="read_only"),
        "broken": Attribute("Optional[String]", "The first link that is missing or leads elsewhere.", kind="read_only"),
    },
    autorequires={"file": "$path"},
    features={"custom_insync", "preflight", "simple_get_filter", "validate"},
)
