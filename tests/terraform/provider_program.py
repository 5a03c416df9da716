"""A program of a Terraform provider for the tests: gRPC by h2, protocol 6, with every kind of field of a schema.

Its resource ``odd_thing`` is a file in the configured directory; each creation adds a line to the file ``created``
there. The variable ``ODD`` has it misbehave: ``garbage`` (before the handshake), ``silent`` (no handshake), ``crash``
and ``hang`` (in apply), ``slow`` (in apply) and ``waiting`` (in configure, both until it is asked to stop), ``busy``
(closing fails), ``nonsense`` (a schema and a state that are none), ``unknown`` (a made value is not told), ``kill``
(of its caller, after a creation), ``inexact`` (a plan that does not come true), ``legacy`` (the same, by an older SDK),
``logged`` (no misbehaviour: its calls are in the file ``calls`` of the home directory), ``tcp`` (it listens on TCP;
``tcp-plain``: without TLS). ``default`` is a later version, with another default, and ``upgraded`` one with another
schema, in which ``size`` is ``amount``.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import signal
import socket
import ssl
import struct
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, RequestReceived, StreamEnded

from resource_api.model.values.values import UNKNOWN
from resource_api.terraform import channel, cty, schema
from resource_api.terraform.messages import METHODS, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

Message = dict[str, Any]
ODD = os.environ.get("ODD", "")
#: ``before:3`` kills the caller before the third call is carried out, ``after:3`` before its response.
KILL_WHEN, _, KILL_AT = os.environ.get("ODD_KILL", "").partition(":")
CALLS = itertools.count(1)
STOPPED = threading.Event()


def attribute(name: str, kind: Any, **flags: Any) -> Message:
    """Return an attribute of a schema."""
    return {"name": name, "type": json.dumps(kind).encode(), **flags}


RULE = {"attributes": [attribute("port", "number", required=True), attribute("uid", "string", computed=True)]}
THING = {
    "version": 1,
    "block": {
        "attributes": [
            attribute("id", "string", computed=True),
            attribute("name", "string", required=True),
            attribute("size", "number", optional=True),
            attribute("owner", "string", optional=True, computed=True),
            attribute("secret", "string", optional=True, sensitive=True),
            attribute("tags", ["set", "string"], optional=True),
            attribute("any", "dynamic", optional=True),
            attribute("timeout", "string", optional=True, description="Called like a metaparameter."),
        ],
        "block_types": [{"type_name": "rule", "block": RULE, "nesting": 2}],
        "description": "A thing in a directory.",
    },
}
if ODD == "upgraded":
    THING["version"] = 2
    THING["block"]["attributes"][2] = attribute("amount", "number", optional=True)
COUNT = {
    "block": {
        "attributes": [
            attribute("pattern", "string", required=True),
            attribute("n", "number", computed=True),
            attribute("password", "string", computed=True, sensitive=True),
        ]
    }
}
LIST = {"block": {"attributes": [attribute("prefix", "string", optional=True)]}}
#: No schema at all.
UNTYPED = {"block": {"attributes": [{"name": "id"}]}}
#: An ephemeral resource: a file that exists while it is open.
LEASE = {
    "block": {"attributes": [attribute("name", "string", required=True), attribute("token", "string", computed=True)]}
}
ADD = {
    "parameters": [{"name": "a", "type": b'"number"'}],
    "variadic_parameter": {"name": "more", "type": b'"number"'},
    "return": {"type": b'"number"'},
    "summary": "Return a sum.",
}
CONFIG = {
    "block": {
        "attributes": [
            attribute("directory", "string", required=True),
            attribute("token", "string", optional=True, sensitive=True),
        ]
    }
}
FIELDS = schema.fields_of_block(THING["block"])
KIND = schema.object_type(FIELDS)


def renamed(values: Message, new: str, old: str) -> Message:
    """Return values with a member of a later version under another name."""
    return {new if name == old else name: value for name, value in values.items()} if ODD == "upgraded" else values


def error(summary: str, name: str = "") -> list[Message]:
    """Return the diagnostics of one error."""
    path = {"attribute": {"steps": [{"attribute_name": name}]}} if name else {}
    return [{"severity": 1, "summary": summary, **path}]


class Provider:
    """The methods of the program: message of the request → message of the response."""

    directory: Path

    def schema(self, _request: Message) -> Message:
        schemas = {
            "resource_schemas": {"odd_thing": THING, "odd_box": UNTYPED if ODD == "nonsense" else THING},
            "data_source_schemas": {"odd_count": COUNT},
        }
        return {
            "provider": CONFIG,
            **schemas,
            "functions": {"add": ADD},
            "ephemeral_resource_schemas": {"odd_lease": LEASE},
            "list_resource_schemas": {"odd_thing": LIST},
        }

    def check_config(self, request: Message) -> Message:
        config = cty.from_dynamic(schema.object_type(schema.fields_of_block(CONFIG["block"])), request["config"])
        return {"diagnostics": error("The token is refused", "token") if config["token"] == "bad" else []}

    def configure(self, request: Message) -> Message:
        config = cty.from_dynamic(schema.object_type(schema.fields_of_block(CONFIG["block"])), request["config"])
        self.directory = Path(config["directory"])
        if ODD == "waiting":
            (self.directory / "applying").touch()
            return {"diagnostics": error("It gave up" if STOPPED.wait(60) else "It was not asked to stop")}
        return {"diagnostics": [] if self.directory.is_dir() else error("There is no such directory", "directory")}

    def validate(self, request: Message) -> Message:
        config = cty.from_dynamic(KIND, request["config"])
        return {"diagnostics": error("Such a size is forbidden", "size") if config.get("size") == 13 else []}

    def upgrade(self, request: Message) -> Message:
        state = json.loads(request["raw_state"]["json"])
        if ODD == "nonsense" and state["name"] not in {"a", "b"}:
            return {} if state["name"] == "c" else {"upgraded_state": {"msgpack": b"\x01"}}
        state = renamed(state, "amount", "size") if request["version"] == 1 else state
        return {"upgraded_state": cty.to_dynamic(KIND, cty.from_json(KIND, state))}

    def move(self, request: Message) -> Message:
        if request["source_type_name"] != "odd_thing" or not request["source_provider_address"].endswith("/odd"):
            source = f"{request['source_type_name']} of {request['source_provider_address']}"
            return {"diagnostics": error(f"a {source} cannot become a {request['target_type_name']}")}
        return {"target_state": self.upgrade({"raw_state": request["source_state"], "version": 1})["upgraded_state"]}

    def read(self, request: Message) -> Message:
        state = cty.from_dynamic(KIND, request["current_state"])
        if ODD == "nonsense" and state["name"] == "a":
            return {"new_state": {"msgpack": b"\x01"}}
        path = self.directory / state["id"]
        entries = (
            {**renamed(json.loads(path.read_text()), "amount", "size"), "id": state["id"]} if path.exists() else None
        )
        return {"new_state": cty.to_dynamic(KIND, entries), "private": request.get("private", b"")}

    def plan(self, request: Message) -> Message:
        prior, proposed = (cty.from_dynamic(KIND, request[name]) for name in ("prior_state", "proposed_new_state"))
        if proposed is None:
            return {"planned_state": cty.to_dynamic(KIND, None)}
        replaces = prior is not None and prior["name"] != proposed["name"]
        planned = dict(proposed)
        if prior is None or replaces:
            planned["id"] = UNKNOWN
        config = cty.from_dynamic(KIND, request["config"])
        if config["owner"] is None and (planned["owner"] is None or ODD == "default"):
            planned["owner"] = "everybody" if ODD == "default" else "nobody"
        for rule in planned["rule"]:
            rule["uid"] = rule["uid"] or UNKNOWN
        paths = [{"steps": [{"attribute_name": "name"}]}] if replaces else []
        legacy = {"legacy_type_system": True} if ODD == "legacy" else {}
        return {"planned_state": cty.to_dynamic(KIND, planned), "requires_replace": paths, **legacy}

    def apply(self, request: Message) -> Message:
        prior, planned = (cty.from_dynamic(KIND, request[name]) for name in ("prior_state", "planned_state"))
        if ODD == "crash":
            os._exit(7)
        if ODD == "hang":
            time.sleep(60)
        if ODD == "slow":
            (self.directory / "applying").touch()
        stopped = ODD == "slow" and STOPPED.wait(60)
        if planned is None:
            (self.directory / prior["id"]).unlink(missing_ok=True)
            return {"new_state": cty.to_dynamic(KIND, None)}
        if prior is None:
            planned["id"] = f"t-{uuid.uuid4().hex[:8]}"
            with (self.directory / "created").open("a") as log:
                log.write(f"{planned['name']}\n")
        if ODD in {"inexact", "legacy"}:
            planned["owner"] = "somebody"
        for rule in planned["rule"]:
            rule["uid"] = f"u{rule['port']}"
        (self.directory / planned["id"]).write_text(json.dumps(renamed(planned, "size", "amount")))
        if ODD == "kill" and prior is None:
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(1)
        if ODD == "unknown":
            planned["owner"] = UNKNOWN
        half = error("Only half of it was made") if stopped or planned.get("size") == 99 else []
        return {"new_state": cty.to_dynamic(KIND, planned), "private": b"p", "diagnostics": half}

    def identities(self, _request: Message) -> Message:
        return {"identity_schemas": {"odd_thing": {"identity_attributes": [{"name": "number", "type": b'"number"'}]}}}

    def import_(self, request: Message) -> Message:
        if "identity" in request:
            kind = ("object", {"number": "number"})
            request["id"] = f"t-{cty.from_dynamic(kind, request['identity']['identity_data'])['number']}"
        path = self.directory / request["id"]
        if not path.exists():
            return {"diagnostics": error(f"there is no thing {request['id']}")}
        state = cty.to_dynamic(KIND, json.loads(path.read_text()))
        return {"imported_resources": [{"type_name": "odd_thing", "state": state}]}

    def list(self, _request: Message) -> list[Message]:
        paths = sorted(self.directory.glob("t-*"))
        rows = [
            {"display_name": path.name, "resource_object": cty.to_dynamic(KIND, json.loads(path.read_text()))}
            for path in paths
        ]
        return [*rows, {"display_name": "", "diagnostic": [{"severity": 2, "summary": "The list may be incomplete"}]}]

    def validate_data(self, _request: Message) -> Message:
        return {}

    def data(self, request: Message) -> Message:
        kind = schema.object_type(schema.fields_of_block(COUNT["block"]))
        config = cty.from_dynamic(kind, request["config"])
        config |= {"n": len(list(self.directory.glob(config["pattern"]))), "password": "hunter2-password"}
        return {"state": cty.to_dynamic(kind, config)}

    def open(self, request: Message) -> Message:
        kind = schema.object_type(schema.fields_of_block(LEASE["block"]))
        config = cty.from_dynamic(kind, request["config"])
        (self.directory / config["name"]).touch()
        result = cty.to_dynamic(kind, config | {"token": "hunter2-token"})
        return {"result": result, "private": config["name"].encode()}

    def close(self, request: Message) -> Message:
        (self.directory / request["private"].decode()).rename(self.directory / "closed")
        return {"diagnostics": error(f"{request['private'].decode()} is busy")} if ODD == "busy" else {}

    def validate_ephemeral(self, _request: Message) -> Message:
        return {}

    def call(self, request: Message) -> Message:
        values = [cty.from_dynamic("number", value) for value in request["arguments"]]
        return {"result": cty.to_dynamic("number", sum(values))}

    def stop(self, _request: Message) -> Message:
        STOPPED.set()
        return {}


def serve(provider: Provider, connection: socket.socket) -> None:
    """Answer the calls of one connection."""
    http = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
    http.initiate_connection()
    connection.sendall(http.data_to_send())
    paths: dict[int, str] = {}
    bodies: dict[int, bytes] = {}
    while data := connection.recv(1 << 16):
        for event in http.receive_data(data):
            if isinstance(event, RequestReceived):
                paths[event.stream_id] = dict(event.headers)[":path"]
                bodies[event.stream_id] = b""
            elif isinstance(event, DataReceived):
                bodies[event.stream_id] += event.data
                http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, StreamEnded):
                answer(provider, http, event.stream_id, paths[event.stream_id], bodies[event.stream_id][5:])
            elif isinstance(event, ConnectionTerminated):
                return
        connection.sendall(http.data_to_send())


def kill_caller(when: str, number: str) -> None:
    """Kill the caller, and end, if this is the moment that the test asks for."""
    if (when, number) == (KILL_WHEN, KILL_AT):
        os.kill(os.getppid(), signal.SIGKILL)
        os._exit(0)


def answer(provider: Provider, http: H2Connection, stream: int, path: str, body: bytes) -> None:
    """Send the response of one call."""
    if path.endswith("Shutdown"):
        os._exit(0)
    name = next(name for name, method in METHODS.items() if method.path(6) == path)
    call = getattr(provider, {"import": "import_"}.get(name, name), None)
    http.send_headers(stream, [(":status", "200"), ("content-type", "application/grpc")])
    if call is None:
        http.send_headers(stream, [("grpc-status", "12")], end_stream=True)
        return
    number = str(next(CALLS))
    if ODD == "logged":
        with Path(os.environ["HOME"], "calls").open("a") as log:
            log.write(f"{name}\n")
    kill_caller("before", number)
    responses = call(decode(METHODS[name].request, body))
    kill_caller("after", number)
    for response in responses if name == "list" else [responses]:
        message = encode(METHODS[name].response, response)
        http.send_data(stream, struct.pack(">BI", 0, len(message)) + message)
    http.send_headers(stream, [("grpc-status", "0")], end_stream=True)


def main() -> None:
    """Listen, write the handshake, serve."""
    if "TF_PLUGIN_MAGIC_COOKIE" not in os.environ or any(name.startswith("RESOURCE_API_") for name in os.environ):
        sys.exit("this program is a plug-in")
    if ODD == "silent":
        time.sleep(60)
    if ODD == "garbage":
        sys.stdout.write("hello, world\n")
        sys.exit("I cannot work here")
    listening, handshake, encrypt = on_tcp() if ODD.startswith("tcp") else on_socket()
    listening.listen()
    sys.stderr.write('{"@level": "warn", "@message": "an odd provider"}\n')
    sys.stdout.write(f"1|6|{handshake}\n")
    sys.stdout.flush()
    provider = Provider()
    while True:
        connection, _ = listening.accept()
        with contextlib.suppress(ssl.SSLError):
            arguments = provider, encrypt(connection)
            threading.Thread(target=serve, args=arguments, daemon=True).start()


def on_socket() -> tuple[socket.socket, str, Callable[[socket.socket], socket.socket]]:
    """Return a socket in the directory of the caller, and the rest of the handshake."""
    address = str(Path(os.environ["PLUGIN_UNIX_SOCKET_DIR"], "socket"))
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    return listening, f"unix|{address}|grpc", lambda connection: connection


def on_tcp() -> tuple[socket.socket, str, Callable[[socket.socket], socket.socket]]:
    """Return a socket on TCP, the rest of the handshake, and the encryption if the caller has a certificate."""
    listening = socket.create_server(("127.0.0.1", 0))
    handshake = f"tcp|127.0.0.1:{listening.getsockname()[1]}|grpc"
    if "PLUGIN_CLIENT_CERT" not in os.environ or ODD == "tcp-plain":
        return listening, handshake, lambda connection: connection
    own = channel.generate_certificate()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=os.environ["PLUGIN_CLIENT_CERT"])
    context.set_alpn_protocols(["h2"])
    with tempfile.NamedTemporaryFile() as file:
        file.write(own.certificate + own.key)
        file.flush()
        context.load_cert_chain(file.name)
    der = base64.b64encode(ssl.PEM_cert_to_DER_cert(own.certificate.decode())).decode().rstrip("=")
    Path(os.environ["HOME"], "port").write_text(handshake.split("|")[1].rpartition(":")[2])
    return listening, f"{handshake}|{der}", lambda connection: context.wrap_socket(connection, server_side=True)


if __name__ == "__main__":
    main()
