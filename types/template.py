"""Texts made from templates."""

from resource_api import Attribute, Function, TypeDefinition

TYPE = TypeDefinition(
    name="template",
    docs="""Make texts from Jinja2 templates: the contents of files, with inputs, facts and attributes of resources.

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

A template sees its variables and nothing else: no files, no environment, no attributes of Python objects. A variable
that is not given is an error with the line of the template, and so is an unknown filter. As the same variables give the
same text in every run, there is no `random`. A newline after a block tag is removed, as in Ansible; a template makes a
text, not HTML, so nothing is escaped. The text is secret if a variable is.

It needs the extra `templates` (Jinja2).
""",
    functions={
        "template": Function(
            "Return the text that a template makes of variables.",
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
        ),
    },
)
