"""The only owners of files, programs, sockets, threads and the log; each module owns one part of the world."""

from typing import TYPE_CHECKING

from resource_api.model.values.start_up import late_modules

if not TYPE_CHECKING:  # features that most runs do not need
    __getattr__ = late_modules(__name__, "age", "document_schema", "otlp")
