"""Calls of gRPC over one HTTP/2 connection by ``h2``: without threads and handlers of forks, which grpcio brings.

Source: gRPC over HTTP2 (grpc/doc/PROTOCOL-HTTP2.md). Requests are single messages; responses may be streams. A program
that listens on TCP and its client recognize each other by certificates for one run.
"""

from __future__ import annotations

import socket
import struct
import tempfile
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, ResponseReceived, StreamEnded, StreamReset, TrailersReceived
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h2.events import Event

_CODES_TEXT: Final = """
    OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED
    RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS
    UNAUTHENTICATED"""
#: The names of gRPC's status codes, by number.
CODES: Final = _CODES_TEXT.split()
#: The codes of failures on this side: an ended connection, another program, a wrong answer, and none in time.
UNAVAILABLE: Final = "UNAVAILABLE"
_UNAUTHENTICATED: Final = "UNAUTHENTICATED"
_INTERNAL: Final = "INTERNAL"
_DEADLINE_EXCEEDED: Final = "DEADLINE_EXCEEDED"
#: The flow control window in bytes: a schema of many megabytes comes without a pause.
_WINDOW: Final = 1 << 30
_LARGEST_FRAME: Final = (1 << 24) - 1
#: The most bytes of one message, so that a program cannot fill the memory.
_LARGEST_MESSAGE: Final = 1 << 28
#: The most bytes that are read at once: more would be mapped and unmapped for each call.
_PART: Final = 1 << 16
#: The smallest number with too many digits for a time limit.
_TOO_LONG: Final = 10**8
#: The length of the prefix of a message: a flag and four bytes of length.
_PREFIX: Final = 5
#: How long a certificate is valid, before and after it is made: longer than any run.
_VALID: Final = timedelta(days=30)


class CallError(Exception):
    """A call that failed; ``code`` is the name of gRPC's status."""

    def __init__(self, code: str, text: str = "") -> None:
        """Keep the code, and the text of the program."""
        super().__init__(f"{code}: {text}" if text else code)
        self.code = code


class Certificate(NamedTuple):
    """A certificate that signs itself, and its key, both in PEM."""

    certificate: bytes
    key: bytes


def generate_certificate() -> Certificate:
    """Return a new self-signed certificate, by which the ends of a connection on this machine recognize each other.

    Only a program that listens on TCP, where any user can connect, needs one. Raise ``ImportError`` without the library
    ``cryptography``.
    """
    # Imported late: seldom needed, as programs on Linux listen on private sockets.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _VALID)
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return Certificate(certificate.public_bytes(pem), key.private_bytes(pem, form, serialization.NoEncryption()))


class PluginAddress(NamedTuple):
    """The address of a program: a network, ``unix`` or ``tcp``; with TLS its certificate, and ours in PEM."""

    network: str
    address: str
    certificate: bytes = b""
    client: bytes = b""

    def connect(self) -> socket.socket:
        """Return a connection, encrypted if the handshake has a certificate. Raise ``OSError``, ``CallError``."""
        if self.network == "unix":
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(self.address)
        else:
            host, _, port = self.address.rpartition(":")
            connection = socket.create_connection((host, int(port)))
        return self._encrypted(connection) if self.certificate else connection

    def _encrypted(self, connection: socket.socket) -> socket.socket:
        """Return an encrypted connection to the program with the certificate of its handshake.

        This is self-signed, so it is compared instead of being verified. Raise ``CallError`` for another one: another
        user's program may listen on the port.
        """
        import ssl  # seldom needed, as above

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # compared below instead
        context.set_ciphers("DEFAULT@SECLEVEL=0")  # a key of any length: the certificate is compared
        context.set_alpn_protocols(["h2"])
        if self.client:
            with tempfile.NamedTemporaryFile() as file:
                file.write(self.client)
                file.flush()
                context.load_cert_chain(file.name)
        encrypted = context.wrap_socket(connection, server_hostname="localhost")
        if encrypted.getpeercert(binary_form=True) != self.certificate:
            encrypted.close()
            raise CallError(_UNAUTHENTICATED, "another program answers on the socket")
        return encrypted


class Channel:
    """A connection for one call at a time; a thread that calls meanwhile opens a channel of its own."""

    def __init__(self, endpoint: PluginAddress) -> None:
        """Connect, with flow control windows for a schema of many megabytes. Raise ``OSError``, ``CallError``."""
        self._socket = endpoint.connect()
        config = H2Configuration(client_side=True, header_encoding="utf-8", validate_inbound_headers=False)
        self._http = H2Connection(config)
        self._http.initiate_connection()
        self._http.update_settings(
            {SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW, SettingCodes.MAX_FRAME_SIZE: _LARGEST_FRAME}
        )
        self._http.increment_flow_control_window(_WINDOW)

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended, from here or from there."""
        return self._socket.fileno() < 0

    def call(self, path: str, message: bytes, timeout: float | None = None) -> bytes:
        """Make a call whose response is one message, and return that. Raise ``CallError``."""
        messages = list(self.stream(path, message, timeout))
        if len(messages) != 1:
            raise CallError(_INTERNAL, f"{len(messages)} messages came instead of one")
        return messages[0]

    def stream(self, path: str, message: bytes, timeout: float | None = None) -> Iterator[bytes]:
        """Make a call, and yield the messages of its response as they come. Raise ``CallError``.

        ``path``: the method; ``timeout``: the seconds for all messages, None for no limit. Sending and receiving
        alternate, as a program may answer, or grow the window of flow control, before it has read the whole request.
        """
        call = _Call(self._http.get_next_available_stream_id(), None if timeout is None else time.monotonic() + timeout)
        headers = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost")]
        headers += [("content-type", "application/grpc"), ("te", "trailers")]
        if timeout is not None:
            headers.append(("grpc-timeout", grpc_timeout(timeout)))
        with self._limited(call):
            self._http.send_headers(call.stream, headers)
        call.unsent = b"\0" + struct.pack(">I", len(message)) + message
        while not call.ended:
            with self._limited(call):
                self._send(call)
                events = self._receive()
            for event in events:
                self._handle(call, event)
            yield from call.complete_messages()
        call.check()

    @contextmanager
    def _limited(self, call: _Call) -> Iterator[None]:
        """Bound the operations of the ``with`` block by the time limit of a call.

        When the limit is over or the connection fails, close the connection and raise ``CallError``: a later call could
        otherwise read the rest of this one's response.
        """
        try:
            # Never 0, which would mean not to wait at all.
            self._socket.settimeout(None if call.end is None else max(call.end - time.monotonic(), 0.001))
            yield
        except TimeoutError:
            self.close()
            raise CallError(_DEADLINE_EXCEEDED, "no answer within the time limit") from None
        except (OSError, ProtocolError) as error:
            self.close()
            raise CallError(UNAVAILABLE, str(error)) from None

    def _send(self, call: _Call) -> None:
        """Send as much of a request as the flow control windows allow; the rest follows when they grow."""
        while call.unsent:
            size = min(self._http.local_flow_control_window(call.stream), self._http.max_outbound_frame_size)
            if size <= 0:
                break
            part, call.unsent = call.unsent[:size], call.unsent[size:]
            self._http.send_data(call.stream, part, end_stream=not call.unsent)
        self._socket.sendall(self._http.data_to_send())

    def _receive(self) -> list[Event]:
        """Return the next events. Raise ``ConnectionError`` at the end of the connection."""
        if data := self._socket.recv(_PART):
            return self._http.receive_data(data)
        raise ConnectionError("the program ended the connection")

    def _handle(self, call: _Call, event: Event) -> None:
        """Add an HTTP/2 event of its stream to the present call. Raise ``CallError`` if the program ended the call.

        Events of other streams are left over from calls that were given up. Received bytes are acknowledged, as the
        program may send no more than the window of flow control.
        """
        if call.ended:  # a program need not read the rest of a request that it has answered
            return
        if isinstance(event, ConnectionTerminated):
            self.close()
            raise CallError(UNAVAILABLE, "the program ended the connection")
        if getattr(event, "stream_id", None) != call.stream:
            return
        if isinstance(event, DataReceived):
            call.received += event.data
            self._http.acknowledge_received_data(event.flow_controlled_length, call.stream)
        elif isinstance(event, ResponseReceived | TrailersReceived):
            call.headers.update((str(name), str(value)) for name, value in event.headers)
        elif isinstance(event, StreamReset):
            raise CallError(UNAVAILABLE, "the program gave up the call")
        elif isinstance(event, StreamEnded):
            call.ended = True

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def grpc_timeout(seconds: float) -> str:
    """Return a time limit as in the header ``grpc-timeout``: at most eight digits, and its unit.

    >>> grpc_timeout(0.5), grpc_timeout(200_000)
    ('500m', '200000S')
    """
    milliseconds = max(int(seconds * 1000), 1)
    return f"{milliseconds}m" if milliseconds < _TOO_LONG else f"{min(int(seconds), _TOO_LONG - 1)}S"


class _Call:
    """One call: the unsent rest of its request, and the received part of its response."""

    def __init__(self, stream: int, end: float | None) -> None:
        """Begin a call on a ``stream`` of the HTTP/2 connection; ``end``: its limit by ``time.monotonic``, or None."""
        self.stream, self.end = stream, end
        self.unsent = b""
        self.received = bytearray()
        #: Of the response, trailers included.
        self.headers: dict[str, str] = {}
        self.ended = False

    def complete_messages(self) -> Iterator[bytes]:
        """Yield each complete message. Raise ``CallError`` for one that is compressed, or would fill the memory."""
        while len(self.received) >= _PREFIX:
            compressed, size = struct.unpack(">BI", self.received[:_PREFIX])
            if compressed or size > _LARGEST_MESSAGE:
                raise CallError(_INTERNAL, f"a message of {size} bytes is compressed or too long")
            if len(self.received) < _PREFIX + size:
                return
            yield bytes(self.received[_PREFIX : _PREFIX + size])
            del self.received[: _PREFIX + size]

    def check(self) -> None:
        """Raise ``CallError`` unless the status of the call is OK."""
        number = self.headers.get("grpc-status", "2")  # without one: UNKNOWN
        code = CODES[int(number)] if number.isdigit() and int(number) < len(CODES) else "UNKNOWN"
        if code != "OK":
            raise CallError(code, unquote(self.headers.get("grpc-message", "")))
