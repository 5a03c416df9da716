"""The client of providers' authors: what is sent again, what is waited for, and what is never shown."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from email.utils import formatdate
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import Attribute, ResourceError, Sensitive, TypeDefinition, http
from resource_api.testing.harness import context
from tests.http_api import Reply, api
from tests.http_server import self_signed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.http_api import Request


def replies(*planned: Reply) -> Any:
    """Return a function that answers with one after the other, the last one again and again."""
    remaining = list(planned)
    return lambda _request: remaining.pop(0) if len(remaining) > 1 else remaining[0]


def test_a_connection_is_used_again() -> None:
    """One for all requests, as long as the service keeps it open."""
    with api(replies(Reply(200, {"a": 1}))) as server:
        client = http.Client(server.url)
        for _ in range(3):
            assert client.get("/x").body == {"a": 1}
        client.post("/x", {})
        assert server.connections == 1


def test_a_connection_that_the_service_has_closed_is_replaced() -> None:
    """Also before a request that must not be sent twice."""
    with api(replies(Reply(200, {}, {"Connection": "close"}), Reply(200, {}))) as server:
        client = http.Client(server.url, retries=0)
        client.get("/x")
        client.post("/x", {})
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("method", "status", "times"),
    [("GET", 503, 2), ("PUT", 502, 2), ("DELETE", 504, 2), ("POST", 503, 1), ("PATCH", 503, 1), ("POST", 429, 2)],
)
def test_only_what_may_be_sent_twice_is(method: str, status: int, times: int) -> None:
    """By the method (RFC 9110), and after 429, with which nothing was accepted."""
    with api(replies(Reply(status), Reply(200, {}))) as server:
        client = http.Client(server.url)
        if times == 2:
            client.request(method, "/x", {})
        else:
            with pytest.raises(http.RequestError, match=f"{method} {server.url}/x: {status}"):
                client.request(method, "/x", {})
        assert len(server.requests) == times


def test_a_service_that_is_not_reached_is_asked_again_even_by_post() -> None:
    """It cannot have got the request."""
    client = http.Client("http://127.0.0.1:1", retries=2)
    began = time.monotonic()
    with pytest.raises(http.RequestError, match=r"POST http://127\.0\.0\.1:1/x: connection refused") as caught:
        client.post("/x", {})
    assert caught.value.status == 0
    assert time.monotonic() - began > 0.5


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_the_service_says_how_long_to_wait(form: str) -> None:
    """As a number of seconds, or as a date."""
    after = "1" if form == "seconds" else formatdate(time.time() + 2, usegmt=True)
    with api(replies(Reply(429, None, {"Retry-After": after}), Reply(200, {}))) as server:
        began = time.monotonic()
        http.Client(server.url).get("/x")
        assert 0.9 < time.monotonic() - began < 5


@pytest.mark.parametrize("after", ["soon", "Thu, 01 Jan 1970 00:00:00 +99999999999999999", "9" * 5000])
def test_a_time_to_wait_that_is_none_is_ignored(after: str) -> None:
    """The request is repeated after a pause of the client's own."""
    with api(replies(Reply(429, None, {"Retry-After": after}), Reply(200, {"a": 1}))) as server:
        assert http.Client(server.url).get("/x").body == {"a": 1}


def test_nobody_waits_for_an_hour() -> None:
    """The error says how long the service asks to wait."""
    with (
        api(replies(Reply(429, None, {"Retry-After": "3600"}))) as server,
        pytest.raises(http.RequestError, match=r"is busy \(429\): asks to wait 3600 s"),
    ):
        http.Client(server.url).get("/x")


def drip(listener: socket.socket, begin: bytes) -> None:
    """Send a byte of an answer every 50 ms, until nobody listens."""
    connection, _ = listener.accept()
    with connection, suppress(OSError):
        connection.recv(9999)
        connection.sendall(begin)
        while True:
            connection.sendall(b" ")
            time.sleep(0.05)


@pytest.mark.parametrize(
    "begin", [b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP"]
)
def test_the_time_limit_of_a_request_holds_for_an_answer_that_drips(begin: bytes) -> None:
    """Not only for each part of it, and for its head too."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=drip, args=[listener, begin])
        thread.start()
        url, began = f"http://127.0.0.1:{listener.getsockname()[1]}", time.monotonic()
        with pytest.raises(http.RequestError, match=r"did not end in time|timed out"):
            http.Client(url, timeout=0.4, retries=0).get("/x")
        assert time.monotonic() - began < 3
        thread.join()


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its password; what goes to this machine goes directly."""
    with api(replies(Reply(200, {"by": "proxy"}))) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.replace("://", "://me:word@"))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert http.Client("http://service.example/api").get("/x").body == {"by": "proxy"}
        (request,) = proxy.requests
        assert request.headers["Host"] == "service.example"
        assert request.headers["Proxy-Authorization"] == "Basic bWU6d29yZA=="
        with api(replies(Reply(200, {}))) as server:
            http.Client(server.url).get("/x")
            assert len(server.requests) == 1


@pytest.mark.process
def test_a_certificate_is_verified(tmp_path: Path) -> None:
    """By the authorities of the machine, or by those of a file."""
    encryption = self_signed(tmp_path)
    with api(replies(Reply(200, {})), encryption) as server:
        with pytest.raises(http.RequestError, match=r"its certificate is not valid: self-signed certificate$"):
            http.Client(server.url, retries=0).get("/x")
        assert http.Client(server.url, ca_file=str(tmp_path / "pem")).get("/x").status == 200


@pytest.mark.parametrize(
    "path", ["http://127.0.0.1:1/steal", "//127.0.0.1:1/steal", "https://example.org/x", "http://user@127.0.0.1:1/"]
)
def test_the_token_goes_to_one_origin_only(path: str) -> None:
    """Whatever a link, a location or a redirect says."""
    answer = replies(Reply(200, [{"id": 1}], {"Link": f'<{path}>; rel="next"'}))
    with api(answer) as server:
        client = http.Client(server.url, token="sesame-street")
        with pytest.raises(http.RequestError, match="another address, which does not get the token"):
            list(client.items("/x"))
    with api(replies(Reply(202, None, {"Location": path}))) as server:
        client = http.Client(server.url, token="sesame-street")
        with pytest.raises(http.RequestError, match="another address"):
            client.finish(client.post("/x"))
    with api(replies(Reply(302, None, {"Location": path}))) as server, pytest.raises(http.RequestError, match="302"):
        http.Client(server.url, token="sesame-street").get("/x")


@pytest.mark.parametrize("link", ["http://[", "//[x", "http://a]b/"])
def test_a_link_that_is_no_address_is_an_error_of_the_request(link: str) -> None:
    """In a list, in the answer that starts a job, and in the answer that ends one."""
    with (
        api(replies(Reply(200, [{"id": 1}], {"Link": f'<{link}>; rel="next"'}))) as server,
        pytest.raises(http.RequestError, match=r"/x: the service names an address that is no URL"),
    ):
        list(http.Client(server.url).items("/x"))
    wrong = {"Location": link}
    for planned in ([Reply(202, None, wrong)], [Reply(202, None, {"Location": "/y"}), Reply(303, None, wrong)]):
        with api(replies(*planned)) as server:
            client = http.Client(server.url)
            started = client.post("/x")
            with pytest.raises(http.RequestError, match="an address that is no URL"):
                client.finish(started)


def test_no_secret_is_in_a_message() -> None:
    """Neither of a header nor of the data that was sent, although the service repeats them."""

    def echo(request: Request) -> Reply:
        return Reply(400, {"error": [*map(str, request.headers.values()), request.body]})

    with api(echo) as server:
        client = http.Client(
            server.url, token=Sensitive("sesame-street"), headers={"X-Key": Sensitive("open-barley"), "X-Tag": "plain"}
        )
        with pytest.raises(http.RequestError) as caught:
            client.post("/x", {"word": Sensitive("swordfish"), "size": 1})
    assert "plain" in str(caught.value)
    assert not any(word in str(caught.value) for word in ("sesame", "barley", "swordfish"))
    assert server.requests[0].body == {"word": "swordfish", "size": 1}
    assert server.requests[0].headers["Authorization"] == "Bearer sesame-street"


def test_a_user_with_a_password_is_a_header() -> None:
    """As RFC 7617 has it; it is secret."""
    header = http.basic_authorization("Aladdin", Sensitive("open sesame"))
    assert header.reveal() == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
    assert "QWxh" not in repr(header)


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://x/", "http://me:secret@x/", "https://", "http://x/?a=b"),
        *("http://[", "http://x:port/", "http://x:99999/", "http://a..b/", "http://x:0/"),
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    """A password in it would be shown."""
    with pytest.raises(ResourceError, match="without user, password and query") as caught:
        http.Client(url)
    assert "secret" not in str(caught.value)


def test_a_header_of_several_lines_is_refused() -> None:
    """And its value is not shown."""
    with pytest.raises(ResourceError, match="X-Key has characters that cannot be in a header"):
        http.Client("http://x", headers={"X-Key": Sensitive("a\r\nb")})


def test_what_is_missing_is_none() -> None:
    """To ``find``; to ``get`` it is an error, and to ``delete`` no news."""
    with api(replies(Reply(404, "nothing here"))) as server:
        client = http.Client(server.url)
        assert client.find("/x") is None
        assert client.delete("/x").status == 404
        with pytest.raises(http.RequestError, match="404 nothing here") as caught:
            client.get("/x")
        assert caught.value.status == 404


def test_an_answer_that_is_no_json_is_named() -> None:
    """Only where its JSON is asked for."""
    with api(replies(Reply(200, "<html>"))) as server:
        response = http.Client(server.url).get("/x", {"a": "b c"})
        assert server.requests[0].query == {"a": "b c"}
        with pytest.raises(ResourceError, match=r"GET http://.*/x\?a=b\+c: the answer is not JSON"):
            _ = response.body


def test_a_byte_order_mark_before_an_answer_is_ignored() -> None:
    """There are services that send one."""
    assert http.Response(200, text='\ufeff{"a": 1}').body == {"a": 1}
    assert http.Response(200, text="\ufeff").body is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"a": 1,\n}', "a fault in line 2, column 1"),
        ("[" * 100_000, "it is nested too deep"),
        ("9" * 5000, "a number in it has too many digits"),
        ("[NaN]", "NaN is no number"),
    ],
)
def test_the_fault_of_an_answer_is_said_without_words_of_the_parser(text: str, fault: str) -> None:
    """And with the request."""
    with pytest.raises(ResourceError, match=f"GET /x: the answer is not JSON: {fault}"):
        _ = http.Response(200, {}, text, "GET /x").body


@pytest.mark.parametrize(
    "response",
    [
        http.Response(200, {"link": "<" * 65_000}),
        http.Response(500, text="<" * 100_000),
        http.Response(500, text="<title" * 20_000),
        http.Response(500, text='{"error":' * 60 + '""' + "}" * 60),
    ],
    ids=["link", "tags", "title", "nested"],
)
def test_no_answer_keeps_the_client_busy(response: http.Response) -> None:
    """Whatever a service sends is read in a time that grows with its size alone."""
    began = time.process_time()
    assert (response.next_page, len(response.words) < 200_000) == ("", True)
    assert time.process_time() - began < 1


def _numbers(count: int) -> list[dict[str, int]]:
    return [{"id": number} for number in range(1, count + 1)]


def _pages(form: str) -> Iterator[tuple[Any, http.Paging]]:
    """Yield a server of 25 objects in pages of ten, and how its pages are found."""
    every = _numbers(25)

    def link(request: Request) -> Reply:
        at = int(request.query.get("after", 0))
        more = {"Link": f'</x?after={at + 10}>; rel="next", </x>; rel="first"'} if at + 10 < 25 else {}
        return Reply(200, every[at : at + 10], more)

    def field(request: Request) -> Reply:
        at = int(request.query.get("after", 0))
        return Reply(200, {"data": {"rows": every[at : at + 10]}, "next": f"x?after={at + 10}" if at < 20 else None})

    def cursor(request: Request) -> Reply:
        at = int(request.query.get("cursor", "c0")[1:])
        meta = {"meta": {"next": f"c{at + 10}" if at < 20 else ""}}
        return Reply(200, {"items": every[at : at + 10], **meta})

    def last(request: Request) -> Reply:
        at = int(request.query.get("starting_after", 0))
        return Reply(200, {"items": every[at : at + 10]})

    def number(request: Request) -> Reply:
        at = (int(request.query["page"]) - 1) * 10
        return Reply(200, {"items": every[at : at + 10]}) if at < 30 else Reply(404)

    def offset(request: Request) -> Reply:
        at = int(request.query.get("start", 0))
        return Reply(200, every[at : at + 10])

    yield {
        "link": (link, http.Paging()),
        "field": (field, http.Paging(items="data.rows", next="next")),
        "cursor": (cursor, http.Paging(items="items", next="meta.next", cursor="cursor")),
        "last": (last, http.Paging(items="items", cursor="starting_after")),
        "number": (number, http.Paging(items="items", page="page")),
        "offset": (offset, http.Paging(offset="start")),
    }[form]


@pytest.mark.parametrize("form", ["link", "field", "cursor", "last", "number", "offset"])
def test_a_list_has_the_objects_of_all_pages(form: str) -> None:
    """Each once, in whatever way the service has pages; what else the query says stays."""
    ((answer, paging),) = _pages(form)
    with api(answer) as server:
        assert list(http.Client(server.url).items("/x?per_page=10", paging)) == _numbers(25)
        if form not in {"link", "field"}:
            assert all(request.query["per_page"] == "10" for request in server.requests)


def test_a_service_without_pages_is_read_once_more_and_not_for_ever() -> None:
    """It sends the same page again, or leads in a circle."""
    with api(replies(Reply(200, [{"id": 1}]))) as server:
        assert list(http.Client(server.url).items("/x", http.Paging(page="page"))) == [{"id": 1}]
    with (
        api(lambda request: Reply(200, [dict(request.query)], {"Link": '</x?a=1>; rel="next"'})) as server,
        pytest.raises(ResourceError, match="one that was read before"),
    ):
        list(http.Client(server.url).items("/x"))


@pytest.mark.parametrize("paging", [http.Paging(), http.Paging(page="page"), http.Paging(offset="start")])
def test_a_list_that_is_missing_is_refused_with_the_answer(paging: http.Paging) -> None:
    """A 404 is the end of a list only behind a page of it, and only where pages are numbered."""
    with api(replies(Reply(404, {"message": "no such project"}))) as server:
        with pytest.raises(http.RequestError, match="404 no such project") as caught:
            list(http.Client(server.url).items("/x", paging))
        assert caught.value.status == 404
    if not paging.page:
        second = Reply(200, [{"id": 1}], {"Link": '</x?start=1>; rel="next"'}), Reply(404, {"message": "gone"})
        with api(replies(*second)) as server, pytest.raises(http.RequestError, match="404 gone"):
            list(http.Client(server.url).items("/x", paging))


@pytest.mark.parametrize("body", [{"a": 1}, [1], None, "text"])
def test_what_is_no_list_of_objects_is_named(body: Any) -> None:
    """With the request and the field."""
    with (
        api(replies(Reply(200, None if body is None else {"rows": body}))) as server,
        pytest.raises(ResourceError, match=r"GET http://.*/x: the field 'rows' is not a list of objects"),
    ):
        list(http.Client(server.url).items("/x", http.Paging(items="rows")))


@pytest.mark.parametrize(
    ("planned", "job"),
    [
        ([Reply(202, None, {"Location": "/j"}), Reply(202), Reply(200, {"id": 7})], http.Job()),
        ([Reply(202, None, {"Location": "/j"}), Reply(200, {"status": "Running"}), Reply(200, {"status": "Succeeded"})],
         http.Job()),
        ([Reply(201, {}, {"Azure-AsyncOperation": "/j"}), Reply(200, {"status": "InProgress"}),
          Reply(200, {"status": "Succeeded"})], http.Job()),
        ([Reply(202, {"links": {"job": "/j"}}), Reply(200, {"state": "busy"}), Reply(200, {"state": "over"})],
         http.Job(url="links.job", status="state", done=["over"], failed=["broken"])),
        ([Reply(202, None, {"Location": "/j"}), Reply(200, {"done": False}), Reply(200, {"done": True, "id": 7})],
         http.Job(status="done")),
        ([Reply(202, None, {"Location": "/j"}), Reply(303, None, {"Location": "/x/7"}), Reply(200, {"id": 7})],
         http.Job()),
    ],
)  # fmt: skip
def test_a_job_is_waited_for(planned: list[Reply], job: http.Job) -> None:
    """In each way in which services report on one."""
    with api(replies(*planned)) as server:
        client = http.Client(server.url)
        assert client.finish(client.post("/x", {}), job).status == 200
        assert len(server.requests) == 3


def test_a_job_that_fails_fails_with_its_words() -> None:
    """Or when it takes too long; without a place to ask, nobody waits."""
    planned = [Reply(202, None, {"Location": "/j"}), Reply(200, {"status": "failed", "why": "no room"})]
    with api(replies(*planned)) as server:
        client = http.Client(server.url)
        with pytest.raises(http.RequestError, match=r"GET .*/j: 200 .*no room"):
            client.finish(client.post("/x"))
    with api(replies(Reply(202, None, {"Location": "/j"}))) as server:
        client = http.Client(server.url)
        with pytest.raises(http.RequestError, match=r"the job was not over after 0\.3 s"):
            client.finish(client.post("/x"), http.Job(timeout=0.3))
    with api(replies(Reply(202))) as server:
        client = http.Client(server.url)
        assert client.finish(client.post("/x")).status == 202


def test_nothing_is_changed_under_noop() -> None:
    """A request that changes something is told and left out; reading goes on."""
    with api(replies(Reply(200, {"a": 1}))) as server:
        client = http.Client(server.url)
        call = context(TypeDefinition(name="item", attributes={"name": Attribute("String", kind="namevar")}), noop=True)
        with call.activate(object()):
            assert client.get("/x").body == {"a": 1}
            assert client.put("/x", {}).status == 204
        assert [request.method for request in server.requests] == ["GET"]
        assert f"Notice: item: Skipping 'PUT {server.url}/x' (noop)" in call.lines


def test_a_link_of_a_service_need_not_be_quoted() -> None:
    """Spaces and letters of other alphabets are; what is quoted stays so."""
    planned = [Reply(200, {"rows": [], "next": "/x?at=caf\u00e9 1%2F2"}), Reply(200, {"rows": []})]
    with api(replies(*planned)) as server:
        assert list(http.Client(server.url).items("/x", http.Paging(items="rows", next="next"))) == []
        assert server.requests[1].query == {"at": "caf\u00e9 1/2"}


def test_a_path_has_its_values_quoted() -> None:
    """Each is one part of the path; one without a value is refused."""
    assert http.expand("/orgs/{org}/repos/{repo}", org="a b", repo="x/../y") == "/orgs/a%20b/repos/x%2F..%2Fy"
    with pytest.raises(ValueError, match=r"no value for \{org\}"):
        http.expand("/orgs/{org}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"title": "not valid", "detail": "name is taken", "type": "about:blank"}', "not valid: name is taken"),
        ('{"error": {"code": "Gone", "message": "no zone"}}', "no zone"),
        ('{"error": "invalid_grant", "error_description": "expired"}', "invalid_grant: expired"),
        ('{"error": true, "message": "no", "errors": [{"field": "a", "code": "b"}]}', "no: field: a, code: b"),
        ('{"name": ["is taken", "is short"], "age": null}', "name: is taken; is short"),
        ('["a", {"b": 1}]', "a; b: 1"),
        ("<html><head><title>502 Bad Gateway</title></head><body><h1>x</h1>", "Bad Gateway"),
        ("<Error><Code>NoSuchBucket</Code><Message>a &amp; b</Message></Error>", "NoSuchBucket a & b"),
        ("[" * 3000, "[" * 3000),
        ("out of order\n", "out of order"),
        ("", ""),
    ],
)
def test_an_error_is_said_in_words(text: str, words: str) -> None:
    """The messages in JSON, the title of a page, else the text without its markup."""
    assert " ".join(http.Response(502, text=text).words.split()) == words
