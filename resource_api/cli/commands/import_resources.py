"""``import``: take over existing resources into state, also all of a type with a manifest that is written for them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import options
from resource_api.cli.commands import DeclinedError, asker, show_document
from resource_api.cli.session import command
from resource_api.manifest import yaml_reader
from resource_api.manifest.sections import assemble
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import UsageError
from resource_api.model.values.reference import STACK_NAME
from resource_api.model.values.text import counted
from resource_api.render import json as documents
from resource_api.render import text, yaml_manifest
from resource_api.runtime import resource_selection
from resource_api.runtime.import_resources import import_document, import_summary
from resource_api.system.filesystem import files

if TYPE_CHECKING:
    from collections.abc import Callable

    from resource_api.cli.session import Session
    from resource_api.model.declaration import Manifest
    from resource_api.runtime.planning import Plan


@command(
    "import",
    examples=(
        "resource-api import site.yaml 'File[/etc/motd]'",
        "resource-api import site.yaml 'File[*]' --on web",
        "resource-api import --all group -o groups.yaml --yes",
        "resource-api import site.yaml --from-terraform terraform.tfstate",
    ),
)
@click.argument("manifest", type=options.Path(), required=False)
@click.argument(
    "references", metavar="[REFERENCE]... [NAME]", nargs=-1, shell_complete=options.complete("declared_references")
)
@click.option("--name", metavar="NAME", help="The name of the only REFERENCE, as it is declared.")
@click.option(
    "--all",
    "type_names",
    metavar="TYPE,...",
    shell_complete=options.complete("type_list"),
    help="Import all resources of a type, with a new manifest.",
)
@click.option(
    "-o",
    "--out",
    type=options.Path(),
    callback=options.output_file,
    metavar="FILE",
    help="With --all: the manifest to write.",
)
@click.option("--yes", is_flag=True, help="With --all: do not ask.")
@click.option(
    "--from-terraform",
    type=options.Path(dir_okay=False),
    metavar="FILE",
    help="Declare and import all resources of a Terraform state.",
)
@options.shared("strict")
@options.manifest_inputs
@options.provider_calls
@options.hosted_recorded
def import_(
    session: Session, manifest: str | None, references: tuple[str, ...], name: str | None, **settings: Any
) -> int:
    """Take over the existing resources that MANIFEST declares as REFERENCE into state, as ours.

    ``*`` and ``?`` are wildcards; resources that do not exist or are ours already are named.
    """
    # Three commands in one: of a type (--all), of a Terraform state, or of declared resources. Each refuses the
    # arguments of the others.
    type_names, state, out, yes = (settings[option] for option in ("type_names", "from_terraform", "out", "yes"))
    writes_manifest = type_names is not None or state is not None
    if options.is_hosted(settings) and writes_manifest:
        raise UsageError("import --all and --from-terraform write the manifest of one machine; leave out --on")
    if type_names is not None:
        if manifest is not None or name is not None or out is None:
            raise UsageError("write 'import --all TYPE -o FILE', without a manifest and references")
        return _import_all(session, type_names, out, yes=yes)
    has_all_options = out is not None or yes
    if state is not None:
        if manifest is None or references or name is not None or has_all_options:
            raise UsageError("write 'import MANIFEST --from-terraform FILE'")
        return _import_state(session, manifest, state)
    if manifest is None or not references or has_all_options:
        raise UsageError("write 'import MANIFEST REFERENCE...' or 'import --all TYPE -o FILE'")
    return show_document(
        session,
        "import",
        import_document,
        text.imported,
        exit_code=lambda document: int(document["summary"]["exit_code"]),
        references=list(references),
        name=name,
    )


def _import_state(session: Session, manifest: str, file: str) -> int:
    """Add the resources of a Terraform state to the manifest, import them, and show the plan of the next apply.

    Return 1 if an import failed, or if that plan has changes: the manifest should describe the resources as they are.
    """
    try:
        from resource_api.runtime.terraform_import import take_over
        from resource_api.terraform import state_file
    except ImportError as error:
        msg = f"--from-terraform needs a client of Terraform providers: {error}; pip install 'resource-api[terraform]'"
        raise UsageError(msg) from error
    with errors_as(UsageError):
        state = state_file.read(file)
    outcomes = take_over(session.runtime, manifest, state, session.inputs.values, session.settings["strict"])
    for address in state.left_out:
        session.log.write("warning", "", f"{address} is left out: no manifest can declare it")
    plan = session.runtime.plan(manifest, session.inputs.values, strict=session.settings["strict"])
    summary = import_summary(outcomes)
    code = int(bool(summary.failed or plan.summary.changed))
    document = {
        "file": manifest,
        "resources": [outcome._asdict() for outcome in outcomes],
        "summary": documents.summary(summary, code),
    }
    session.console.show(lambda: document, lambda: [*text.imported(document), *session.console.plan_lines(plan)])
    return code


def _import_all(session: Session, type_names: str, out: str, *, yes: bool) -> int:
    """Write a manifest of all resources of types, show its plan, ask, and import them; return the exit code."""
    if os.path.lexists(out):
        raise UsageError(f"{out} exists already; name a new file")
    if not out.endswith((".yaml", ".yml")):
        raise UsageError(f"{out}: the manifest is written as YAML; name a file that ends in .yaml")
    confirm = None if yes else asker(session, "import --all", "Nothing is imported")
    lines, complete = _manifest_lines(session, type_names, _project(session, out))
    if not complete:
        return 1
    content = ("\n".join(lines) + "\n").encode()
    with errors_as(UsageError, OSError, f"{out} cannot be written: "):
        files.write_new(out, content)
    return _apply_imports(session, _with_imports(content, out), confirm)


def _project(session: Session, out: str) -> str:
    """Return the project to write into the manifest ``out``: ``--project``, or the file's name without its suffix.

    Raise ``UsageError`` if no project can have that name.
    """
    project = session.settings["project"] or os.path.basename(out).rpartition(".")[0]
    if STACK_NAME.match(project):
        return str(project)
    raise UsageError(f"no project can be called '{project}', like this file; give --project NAME")


def _manifest_lines(session: Session, type_names: str, project: str) -> tuple[list[str], bool]:
    """Return the lines of a manifest of all resources of types, and whether all resources could be read.

    The next run must not change anything: a resource that its provider would change or refuse if it were declared as it
    is, ``unlisted``, becomes a comment with the reason.
    """
    reader = session.reader
    definitions, explicit = resource_selection.find_types(reader, type_names)
    listed, complete = resource_selection.read_types(reader, definitions, explicit, strict=session.settings["strict"])
    unlisted: dict[str, str] = {}
    for definition, rows in listed:
        unlisted |= reader.unlisted(definition, rows, None)
    return list(yaml_manifest.manifest(listed, unlisted, project=project)), complete


def _with_imports(content: bytes, out: str) -> Manifest:
    """Return the written manifest with ``lifecycle: {import: TITLE}`` in each resource: ``/etc/motd`` for a file.

    This run takes the resources over by these entries. Later runs do not need them, so the file ``out`` has none.
    """
    document = yaml_reader.read(content, out)
    resources = {
        reference: {**(body or {}), "lifecycle": {"import": reference.partition("[")[2].removesuffix("]")}}
        for reference, body in document.data["resources"].items()
    }
    return assemble([document.with_data({**document.data, "resources": resources})])._replace(path=os.path.abspath(out))


def _apply_imports(session: Session, manifest: Manifest, confirm: Callable[[str], bool] | None) -> int:
    """Show the plan of the imports, ask by ``confirm``, and carry the plan out; return the exit code, 1 for no.

    ``confirm``: None with ``--yes``, which asks nothing.
    """

    def on_plan(planned: Plan) -> None:
        """Show the plan and ask. Raise ``DeclinedError`` for no, before anything is recorded."""
        if not session.json:
            session.output.print(session.console.plan_lines(planned))
        count, file = planned.summary.imported, manifest.file
        if confirm and planned.summary.changed and not confirm(f"Import {counted(count, 'resource')} of {file}?"):
            raise DeclinedError

    try:
        report = session.runtime.apply(manifest, {}, on_plan=on_plan, strict=session.settings["strict"])
    except DeclinedError:
        return 1
    code = session.exit_code(report)
    session.console.show(
        lambda: {"file": manifest.file, "summary": documents.summary(report.summary, code)}, lambda: str(report)
    )
    return code
