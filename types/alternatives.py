"""Groups of alternatives, and which one is used."""

from resource_api import Attribute, TypeDefinition

NAME = r"[A-Za-z0-9_][\w.+-]*"
PATH = r"Pattern[/\A\/[^\x00-\x1f\x7f]+\z/]"

TYPE = TypeDefinition(
    name="alternatives",
    docs="""Choose the program behind a common name, with `update-alternatives`.

    Alternatives[editor]:
      path: /usr/bin/vim.basic
    Alternatives[java]:
      link: /usr/bin/java
      choices:
        /opt/jdk-21/bin/java: {priority: 2100, slaves: {javac: {link: /usr/bin/javac, path: /opt/jdk-21/bin/javac}}}
        /opt/jdk-8/bin/java: absent

Packages bring most groups; then declare only `path`. Undeclared choices stay. `path: auto` uses the choice with the
highest priority, also one that a package brings later. Links that were removed or changed by hand are drift. `ensure:
absent` removes the group with all its choices and links. A link below a directory that other users can write to is
refused.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the group exists.", default="present"),
        "name": Attribute(
            rf"Pattern[/\A{NAME}\z/]", "The name of the group.", kind="namevar", must_be="a group's name"
        ),
        "path": Attribute(
            f"Optional[Variant[Enum[auto], {PATH}]]",
            "The choice to use, or `auto`: the one with the highest priority.",
            must_be="an absolute path",
        ),
        "link": Attribute(
            f"Optional[{PATH}]", "The link with the common name; mandatory for a new group.", must_be="an absolute path"
        ),
        "choices": Attribute(
            rf"Optional[Hash[{PATH}, Variant[Enum[absent], Struct[{{priority => Integer, Optional[slaves] =>"
            rf" Hash[Pattern[/\A{NAME}\z/], Struct[{{link => {PATH}, path => {PATH}}}]]}}]]]]",
            "Choices by path: each with its priority and `slaves`, more links that change with it; or `absent`."
            " Undeclared slaves stay; `slaves: {}` removes them.",
            must_be="an absolute path",
        ),
        "used": Attribute("Optional[String]", "The choice that is used.", kind="read_only"),
        "broken": Attribute("Optional[String]", "The first link that is missing or leads elsewhere.", kind="read_only"),
    },
    autorequires={"file": "$path"},
    features={"custom_insync", "preflight", "simple_get_filter", "validate"},
)
