"""Make texts from Jinja2 templates, in a sandbox."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lib import prerequisites
from resource_api import Asset, ResourceError, compute, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from jinja2 import Environment

    from resource_api import Context

#: The longest template in bytes.
LIMIT = 1 << 20
#: The longest text that a template makes, in characters.
LONGEST = 16 << 20
#: A template whose text is in the manifest.
INLINE = "the template"
#: Messages of Jinja2 with the words of Python, and their meaning.
REASONS = (
    (re.compile(r"\A'\w+ object' has no attribute '(.*)'\Z"), r"there is no '\1' in the value"),
    (re.compile(r"\ARange too big\..*\Z"), "Range too big"),
    (re.compile(r"\A\w+ object has no element (.*)\Z"), r"there is no element \1 in the value"),
    (re.compile(r"\Aaccess to attribute '(.*)' of '\w+' object is unsafe\.\Z"), r"'\1' cannot be used in a template"),
)


class Provider:
    """Computes texts from templates and variables."""

    def template(
        self,
        _context: Context,
        source: str | Asset,
        variables: Mapping[str, Any],
        includes: Mapping[str, str | Asset],
        *,
        trim_blocks: bool,
        lstrip_blocks: bool,
    ) -> str:
        """Return the text of a template for its inputs, the only data that it can read.

        ``includes`` are further templates by name, the last two inputs Jinja2's options for white space. A template
        with loops or products may never end, and is computed in a process of its own. Raise ``ResourceError`` with the
        line of a mistake.
        """
        name = str(source.source) if isinstance(source, Asset) and source.origin == "file" else INLINE
        texts = {**{key: _text(text) for key, text in includes.items()}, name: _text(source)}
        environment = _environment(texts, trim_blocks=trim_blocks, lstrip_blocks=lstrip_blocks)

        def render() -> str:
            """Render the template within the limits, here or in another process.

            Raise ``ResourceError`` with the template's file and line.
            """
            try:
                return _bounded(name, environment.get_template(name).generate(variables))
            except (MemoryError, ResourceError):
                raise
            except Exception as error:  # noqa: BLE001 - a template calls methods and filters, which raise anything
                msg = _message(error, name, texts)
            raise ResourceError(msg)

        # Loops, macros and products may never end.
        if any(mark in text for text in texts.values() for mark in ("{%", "*")):
            return compute(name, render)
        return render()


def _environment(texts: Mapping[str, str], **options: bool) -> Environment:
    """Return a sandbox of Jinja2 whose only templates are ``texts``, so that a template reads nothing of the machine.

    Raise ``ResourceError`` without Jinja2.
    """
    with prerequisites.needing("jinja2", "pip install 'resource-api[templates]'"):
        import jinja2
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    environment = ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined,
        loader=jinja2.FunctionLoader(lambda name: (texts[name], name, None) if name in texts else None),
        autoescape=False,
        keep_trailing_newline=True,
        **options,
    )
    # These would give another text in each run.
    del environment.filters["random"], environment.globals["lipsum"]
    return environment


def _bounded(name: str, parts: Iterable[str]) -> str:
    """Return a text made of parts. Raise ``ResourceError`` for one that is too long, before all of it is made."""
    texts, size = [], 0
    for part in parts:
        size += len(part)
        if size > LONGEST:
            raise ResourceError(f"{name}: makes a text of more than {LONGEST >> 20} MiB")
        texts.append(part)
    return "".join(texts)


def _text(source: str | Asset) -> str:
    """Return the text of a template. Raise ``ResourceError`` for one that is too long or not UTF-8."""
    if isinstance(source, str):
        return source
    content = bytearray()
    for part in files.parts(source.open):
        content += part
        if len(content) > LIMIT:
            raise ResourceError(f"{source.source} is larger than {LIMIT >> 20} MiB")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ResourceError(f"{source.source} is not UTF-8") from None


def _failed_line(error: BaseException, names: Collection[str]) -> tuple[str, int] | None:
    """Return the template and the line in which an error occurred, for its message, or None for none of ``names``.

    The frames of compiled templates have the templates' names as their files.
    """
    position, trace = None, error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file in names:
            position = (file, trace.tb_lineno)
        trace = trace.tb_next
    return position


def _position(name: str, line: int | None) -> str:
    """Return the file and the line of a mistake for a message; a template in the manifest itself has only a line."""
    if line is None:
        return name
    return f"{name}, line {line}" if name == INLINE else f"{name}:{line}"


def _message(error: Exception, name: str, texts: Collection[str]) -> str:
    """Return where and why a template cannot be rendered, in terms of the template: ``page.j2:3: division by zero``."""
    import jinja2

    if isinstance(error, jinja2.TemplateSyntaxError):
        return f"{_position(error.name or name, error.lineno)}: {error.message}"
    if isinstance(error, jinja2.TemplateNotFound):
        reason = f"there is no template '{error.name}' in includes"
    elif isinstance(error, ZeroDivisionError):
        reason = "division by zero"
    else:
        reason = _reason(str(error), of_jinja=isinstance(error, jinja2.TemplateError))
    return f"{_position(*_failed_line(error, texts) or (name, None))}: {reason}"


def _reason(text: str, *, of_jinja: bool) -> str:
    """Return the reason in an error's text, in the terms of templates.

    The text of any error that is not ``of_jinja`` is about Python's types: without a translation it is replaced.
    """
    for pattern, replacement in REASONS:
        if pattern.search(text):
            return pattern.sub(replacement, text)
    return text if of_jinja else "an operation or a filter cannot be used with these values"
