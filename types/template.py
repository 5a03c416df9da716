"""Texts made from templates."""

from resource_api import Attribute, Function, TypeDefinition

TYPE = TypeDefinition(
    name="template",
    docs="""Render Jinja2 templates: the contents of files, with inputs, facts and attributes of resources.

    values:
      greeting:
        invoke: template
        with:
          source: |
            {% for name in names %}
            Hello {{ name | upper }}, from {{ host }}.
            {% endfor %}
          variables: {names: [ann, bob], host: "${facts.networking.hostname}"}
    resources:
      File[/etc/motd]: {content: "${values.greeting}"}

Longer templates are files beside the manifest: `source: {asset: {file: motd.j2}}`.

A template sees only its variables: no files, environment or attributes of Python objects. An unknown variable or filter
is an error with the line of the template. There is no `random`: the same variables give the same text. A newline after
a block tag is removed, as in Ansible. Nothing is escaped, because the result is not HTML. It is secret if a variable
is.

Needs the extra `templates` (Jinja2).
""",
    functions={
        "template": Function(
            "Return the rendered template.",
            inputs={
                "source": Attribute("Variant[String, Asset]", "The template: `{asset: {file: motd.j2}}`, or its text."),
                "variables": Attribute("Hash[String, Data]", "The variables, by name.", default={}),
                "includes": Attribute(
                    "Hash[String[1], Variant[String, Asset]]",
                    "Templates that this one includes, imports or extends, by the name that it uses.",
                    default={},
                ),
                "trim_blocks": Attribute("Boolean", "Remove the newline after a block tag.", default=True),
                "lstrip_blocks": Attribute("Boolean", "Remove the blanks before a block tag.", default=False),
            },
            output="String",
        )
    },
)
