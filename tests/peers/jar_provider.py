"""A provider for the tests, made with the package tf: notes in files of a directory."""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202, ANN204, ANN206, ARG002, D101, D107
import json
import sys
import uuid
from pathlib import Path

from tf import runner, types
from tf.blocks import SetNestedBlock
from tf.iface import DataSource, Provider, Resource
from tf.schema import Attribute, Block, Schema


class JarProvider(Provider):
    def get_model_prefix(self):
        return "jar_"

    def full_name(self):
        return "example.org/tests/jar"

    def get_provider_schema(self, diags):
        return Schema([Attribute("directory", types.String(), "Where the notes are.", required=True)])

    def validate_config(self, diags, config):
        if config.get("directory") == "/":
            diags.add_error("This directory is refused", "It must not be the root.", path=["directory"])

    def configure_provider(self, diags, config):
        self.directory = Path(config["directory"])

    def get_data_sources(self):
        return [Count]

    def get_resources(self):
        return [Note]


class Count(DataSource):
    def __init__(self, provider):
        self.provider = provider

    @classmethod
    def get_name(cls):
        return "count"

    @classmethod
    def get_schema(cls):
        pattern = Attribute("pattern", types.String(), required=True)
        return Schema([pattern, Attribute("number", types.Number(), computed=True)])

    def read(self, ctx, config):
        return {"pattern": config["pattern"], "number": len(list(self.provider.directory.glob(config["pattern"])))}


class Note(Resource):
    def __init__(self, provider):
        self.provider = provider

    @classmethod
    def get_name(cls):
        return "note"

    @classmethod
    def get_schema(cls):
        url = Attribute("url", types.String(), required=True)
        weight = Attribute("weight", types.Number(), optional=True)
        return Schema(
            [
                Attribute("id", types.String(), computed=True),
                Attribute(
                    "kind",
                    types.String(),
                    "A note of another kind is another note.",
                    required=True,
                    requires_replace=True,
                ),
                Attribute("text", types.String(), "The text.", optional=True),
                Attribute("size", types.Number(), computed=True),
                Attribute(
                    "owner", types.String(), "Chosen unless given.", optional=True, computed=True, default="nobody"
                ),
                Attribute("tags", types.Set(types.String()), optional=True),
                Attribute("ports", types.List(types.Number()), optional=True),
            ],
            version=2,
            block_types=[SetNestedBlock("link", Block([url, weight]))],
        )

    def validate(self, diags, type_name, config):
        super().validate(diags, type_name, config)
        if config.get("text") == "forbidden":
            diags.add_error("This text is forbidden", "Write another.", path=["text"])

    def plan(self, ctx, current, planned):
        if current and "text" in ctx.changed_fields:
            planned["size"] = types.Unknown
        return planned

    def _path(self, state):
        return self.provider.directory / f"{state['id']}.json"

    def _write(self, planned):
        new = {**planned, "size": len(planned.get("text") or "")}
        self._path(new).write_text(json.dumps(new, default=list))
        return new

    def create(self, ctx, planned):
        return self._write({**planned, "id": uuid.uuid4().hex[:8]})

    def read(self, ctx, current):
        path = self._path(current)
        return json.loads(path.read_text()) if path.exists() else None

    def update(self, ctx, current, planned):
        return self._write({**planned, "id": current["id"]})

    def delete(self, ctx, current):
        self._path(current).unlink(missing_ok=True)

    def import_(self, ctx, id):  # noqa: A002 - the name of tf
        path = self._path({"id": id})
        if not path.exists():
            ctx.diagnostics.add_error("There is no such note", id)
            return None
        return json.loads(path.read_text())


if __name__ == "__main__":
    runner.run_provider(JarProvider(), sys.argv)
