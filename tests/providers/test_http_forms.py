"""The forms of APIs that ``http_resource`` knows, each with a server of that form, and how the command shows them."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import ManifestError, Runtime
from tests.command import environment_of, run
from tests.http_api import Api, Reply, api
from tests.providers.applied import REGISTRY, reason

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from resource_api.model.report import RunReport
    from tests.http_api import Request


def command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command in a directory."""
    return run(arguments, cwd=cwd, env=environment_of(cwd), text=True)


class Store:
    """Objects by number, with a counter of changes that the service makes."""

    def __init__(self) -> None:
        """Begin without objects."""
        self.objects: dict[str, dict[str, Any]] = {}
        self.changes = 0

    def answer(self, request: Request) -> Reply:
        """Answer one request."""
        number = request.parts[-1]
        if request.method == "GET":
            if number == "hosts":
                return Reply(200, list(self.objects.values()))
            return Reply(200, self.objects[number]) if number in self.objects else Reply(404)
        self.changes += 1
        if request.method == "POST" and number == "hosts":
            number = str(100 + len(self.objects))
            self.objects[number] = {"id": number, "changes": self.changes, **request.body}
            return Reply(201, self.objects[number])
        if number not in self.objects:
            return Reply(404)
        if request.method == "DELETE":
            del self.objects[number]
            return Reply(204)
        self.patch(self.objects[number], request)
        return Reply(200, self.objects[number])

    def patch(self, mapping: dict[str, Any], request: Request) -> None:
        """Change an object as the content type of the request says."""
        if request.headers["Content-Type"] == "application/json-patch+json":
            for item in request.body:
                *parents, name = item["path"].strip("/").split("/")
                path = mapping
                for parent in parents:
                    path = path[parent]
                if item["op"] == "remove":
                    del path[name]
                else:
                    path[name] = item["value"]
        else:
            mapping.update({name: value for name, value in request.body.items() if value is not None})
            for name in [name for name, value in request.body.items() if value is None]:
                mapping.pop(name, None)
        mapping["changes"] = self.changes


@pytest.fixture
def store() -> Store:
    """Return a service without objects."""
    return Store()


@pytest.fixture
def server(store: Store) -> Iterator[Api]:
    """Yield its running server."""
    with api(store.answer) as running:
        yield running


def manifest(server: Api, resources: Mapping[str, Any], **config: Any) -> dict[str, Any]:
    """Return a manifest of objects by their names."""
    settings = {"url": server.url, "path": "/hosts", "settle": 0, **config}
    declared = {f"Http_resource[{name}]": values for name, values in resources.items()}
    return {"project": "p", "providers": {"http_resource": {"config": settings}}, "resources": declared}


def apply(server: Api, resources: Mapping[str, Any], **config: Any) -> RunReport:
    """Apply objects; forget the requests of before."""
    server.requests.clear()
    return Runtime(REGISTRY).apply(manifest(server, resources, **config))


def sent(server: Api, method: str) -> list[Any]:
    """Return the bodies of the requests of one method."""
    return [request.body for request in server.requests if request.method == method]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("fields", {"tags": {"a": 2, "b": 2}, "note": None}),
        ("merge", {"tags": {"a": 2}, "note": None}),
        (
            "json",
            [{"op": "replace", "path": "/tags/a", "value": 2}, {"op": "remove", "path": "/note"}],
        ),
    ],
)
def test_a_patch_has_the_form_of_its_standard(server: Api, store: Store, form: str, expected: Any) -> None:
    """Only what differs is in it; what is declared as null is taken away."""
    store.objects["7"] = {"id": "7", "name": "x", "role": "web", "tags": {"a": 1, "b": 2}, "note": "old"}
    body = {"role": "web", "tags": {"a": 2}, "note": None}
    report = apply(server, {"x": {"body": body}}, patch=form)
    assert (report.summary.updated, reason(report)) == (1, "")
    assert sent(server, "PATCH") == [expected]
    if form != "merge":  # which this server carries out for outer fields alone
        assert store.objects["7"]["tags"] == {"a": 2, "b": 2}
    assert "note" not in store.objects["7"]


def test_secrets_are_sent_in_every_form_and_never_shown(
    server: Api, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """Although the service repeats them in what it refuses."""
    caplog.set_level("DEBUG")
    apply(server, {"x": {"secrets": {"password": "open-barley"}}}, headers={"X-Key": "sesame-street"})
    assert store.objects["100"]["password"] == "open-barley"
    assert server.requests[0].headers["X-Key"] == "sesame-street"
    apply(server, {"x": {"body": {"role": "db"}, "secrets": {"password": "open-barley"}}}, patch="json")
    assert {"op": "add", "path": "/password", "value": "open-barley"} in sent(server, "PATCH")[0]

    def refuse(request: Request) -> Reply:
        return Reply(400, [*map(str, request.headers.values()), request.body])

    with api(refuse) as second:
        report = apply(second, {"x": {}}, headers={"X-Key": "sesame-street"}, retries=0)
    text = reason(report) + caplog.text
    assert "400" in text
    assert not any(word in text for word in ("barley", "sesame"))


def test_a_secret_that_the_service_shows_is_not_recorded(server: Api, store: Store, tmp_path: Path) -> None:
    """Neither after a creation or an adoption nor by a refresh, which knows no declaration."""
    store.objects["7"] = {"id": "7", "name": "old", "password": "open-barley", "role": "web"}
    secrets = {"secrets": {"password": "open-barley"}}
    site, state = tmp_path / "site.json", ("--state", "sqlite:state.db")
    site.write_text(json.dumps(manifest(server, {"new": secrets, "old": secrets})))
    for command_ in ("apply", "refresh", "apply"):
        result = command(command_, str(site), *state, cwd=tmp_path)
        assert (result.returncode, "barley" in result.stdout + result.stderr) == (0, False), result.stderr
    shown = command("state", "show", "Http_resource[new]", *state, "--project", "p", cwd=tmp_path).stdout
    assert ("changes" in shown, "barley" in shown) == (True, False)
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path != site]
    assert files
    assert not any(b"barley" in path.read_bytes() for path in files)


def test_an_object_can_be_wrapped_and_have_its_name_within() -> None:
    """As in OpenStack and in Kubernetes; the list has a field of its own."""
    objects: dict[str, dict[str, Any]] = {}

    def answer(request: Request) -> Reply:
        if request.method == "GET":
            return Reply(200, {"data": {"rows": list(objects.values())}})
        body = request.body["server"]
        if request.method == "POST":
            body = {"uid": "u1", "kind": "Server", **body, "metadata": {"revision": 1, **body["metadata"]}}
        objects[body["metadata"]["name"]] = body
        return Reply(200, {"server": body})

    forms = {"items": "data.rows", "object": "server", "wrap": "server", "name": "metadata.name", "id": "uid"}
    with api(answer) as server:
        config = {**forms, "path": "/servers", "update": "PUT /servers/{id}", "output": ["metadata.revision", "kind"]}
        expected: dict[str, Any] = {"x": {"body": {"metadata": {"labels": {"a": "1"}}, "spec": {"size": 1}}}}
        assert apply(server, expected, **config).summary.created == 1
        assert objects["x"]["metadata"] == {"revision": 1, "name": "x", "labels": {"a": "1"}}
        expected["x"]["body"]["spec"]["size"] = 2
        assert apply(server, expected, **config).summary.updated == 1
        assert server.asked("PUT") == ["/servers/u1"]
        assert sent(server, "PUT")[0]["server"]["metadata"] == {"revision": 1, "name": "x", "labels": {"a": "1"}}
        (row,) = Runtime(REGISTRY).resources("http_resource", config={"url": server.url, **config})
    assert row == {
        "ensure": "present",
        "name": "x",
        "id": "u1",
        "body": {"metadata": {"labels": {"a": "1"}}, "spec": {"size": 2}},
        "output": {"uid": "u1", "metadata": {"revision": 1}, "kind": "Server"},
    }


def test_the_identifier_of_the_answer_is_used(store: Store) -> None:
    """The list need not have the object yet, and another object of the name is not taken for it."""

    def answer(request: Request) -> Reply:
        reply = store.answer(request)
        if request.method == "GET" and request.parts[-1] == "hosts":
            return Reply(200, [])  # it is built now and then
        return reply._replace(body=None, headers={"Location": "/hosts/100"}) if reply.status == 201 else reply

    with api(answer) as server:
        report = apply(server, {"x": {"body": {"role": "web"}}}, read="/hosts/{id}")
        assert (report.summary.created, reason(report)) == (1, "")
        assert server.asked("GET")[-1] == "/hosts/100"


def test_of_two_objects_of_one_name_the_one_created_here_is_ours(store: Store) -> None:
    """Somebody else has created the other in the same moment; its identifier may be a number or a text."""

    def answer(request: Request) -> Reply:
        reply = store.answer(request)
        if reply.status != 201:
            return reply
        store.objects["100"]["id"] = 100
        store.objects["99"] = {"id": 99, "name": "x", "role": "theirs"}
        return Reply(201, None, {"Location": "/hosts/100"})

    with api(answer) as server:
        report = apply(server, {"x": {"body": {"role": "web"}}})
        assert (report.summary.created, reason(report)) == (1, "")
    assert store.objects["99"]["role"] == "theirs"


@pytest.mark.parametrize("lag", ["created", "updated", "deleted"])
def test_a_service_that_shows_changes_late_is_waited_for(store: Store, lag: str) -> None:
    """The declared fields count, not those that the service changes at once."""
    output: dict[str, Any] = {"at": 0.0, "rows": []}
    store.objects["7"] = {"id": "7", "name": "old", "role": "web", "beat": 0}

    def answer(request: Request) -> Reply:
        if request.method != "GET":
            output.update(at=time.monotonic() + 0.7, rows=[dict(row) for row in store.objects.values()])
            return store.answer(request)
        store.changes += 1
        rows = output["rows"] if time.monotonic() < output["at"] else list(store.objects.values())
        return Reply(200, [{**row, "beat": store.changes} for row in rows])

    expected = {"new": {}} if lag == "created" else {"old": {"body": {"role": "db"}}}
    if lag == "deleted":
        expected = {"old": {"ensure": "absent"}}
    with api(answer) as server:
        report = apply(server, expected, settle=10)
        assert (getattr(report.summary, lag), reason(report)) == (1, "")
        assert len(server.requests) > 3


def test_an_object_without_fields_is_an_object() -> None:
    """It is changed and deleted as any other."""
    objects: dict[str, dict[str, Any]] = {"x": {}, "y": {}}

    def answer(request: Request) -> Reply:
        name = request.parts[-1]
        if name not in objects:
            return Reply(404)
        if request.method == "DELETE":
            return Reply(200, objects.pop(name))
        objects[name].update(request.body or {})
        return Reply(200, objects[name])

    with api(answer) as server:
        expected = {"x": {"body": {"size": 1}}, "y": {"ensure": "absent"}}
        report = apply(server, expected, path="/parts/{part}")
        assert (report.summary.updated, report.summary.deleted, objects) == (1, 1, {"x": {"size": 1}})


def test_a_whole_number_is_equal_with_and_without_a_point(server: Api, store: Store) -> None:
    """JSON has one kind of numbers."""
    store.objects["7"] = {"id": "7", "name": "x", "size": 2, "ratio": 0.5, "parts": [{"n": 1.0}]}
    body = {"size": 2.0, "ratio": 0.5, "parts": [{"n": 1}]}
    assert apply(server, {"x": {"body": body}}).summary.unchanged == 1


def test_a_field_that_the_service_makes_cannot_be_declared(server: Api) -> None:
    """It is in ``output``; nothing is sent."""
    report = apply(server, {"x": {"body": {"id": "7"}}})
    assert "body.id is a field that the service makes: it is in the attribute output" in reason(report)
    assert sent(server, "POST") == []


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"path": "/orgs/{org}/repos/{repo}", "update": "PUT /x/{other}"}, "the paths have no value for {repo}"),
        ({"path": "/hosts/{id}/parts"}, "the paths have no value for {id}"),
        ({"path": "/hosts", "immutable": ["a..b"]}, "must be a field as 'region' or 'disks[*].type'"),
        ({"path": "/hosts", "headers": {"X-A": "a\nb"}}, "headers"),
        ({"path": "/hosts", "settle": -1}, "settle"),
    ],
)
def test_a_wrong_configuration_is_refused_before_anything_is_sent(
    server: Api, config: dict[str, Any], message: str
) -> None:
    """With the key that is wrong."""
    with pytest.raises(ManifestError) as caught:
        Runtime(REGISTRY).validate(manifest(server, {}, **config))
    assert message in str(caught.value)
    assert server.requests == []


def test_objects_beneath_what_does_not_exist_yet_are_absent(store: Store) -> None:
    """A manifest can create the parent and the child in one run; the list of all is refused with the reason."""

    def answer(request: Request) -> Reply:
        if request.path == "/orgs/new/hosts" and request.method == "GET" and not store.objects:
            return Reply(404)
        return store.answer(request)

    with api(answer) as server:
        config = {"path": "/orgs/{org}/hosts", "update": "PATCH /orgs/{org}/hosts/{id}"}
        assert apply(server, {"new/x": {"body": {"role": "web"}}}, **config).summary.created == 1
        assert apply(server, {"new/x": {"body": {"role": "db"}}}, **config).summary.updated == 1
        assert server.asked("PATCH") == ["/orgs/new/hosts/100"]
        with pytest.raises(Exception, match="objects are listed by a path without variables"):
            Runtime(REGISTRY).resources("http_resource", config={"url": server.url, **config})


def test_a_listing_has_what_the_service_makes_as_comments(server: Api, store: Store, tmp_path: Path) -> None:
    """By the configuration, and by what no resource of the manifest declares; it is a manifest that changes nothing."""
    for number in ("7", "8"):
        store.objects[number] = {"id": number, "name": f"h{number}", "role": "web", "beat": 1, "made": "now"}
    site = tmp_path / "site.json"
    site.write_text(json.dumps(manifest(server, {"h7": {"body": {"role": "web"}}}, output=["made"])))
    options = ("resource", "http_resource", "--provider", "http_resource", "--manifest", str(site))
    result = command(*options, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split("  Http_resource[h8]:\n")[1] == (
        "    ensure: present\n"
        "    body:\n"
        "      role: web\n"
        "    # body.beat: 1\n"
        '    # id: "8"\n'
        '    # output: {"id": "8", "made": "now"}\n'
    )
    head = "".join(site.read_text()[:-1].partition('"resources"')[:1])
    again = tmp_path / "again.yaml"
    again.write_text(f"providers: {json.dumps(json.loads(head.rstrip(', ') + '}')['providers'])}\n{result.stdout}")
    assert "2 unchanged" in command("apply", str(again), "--state", "memory:", cwd=tmp_path).stdout


def test_the_log_shows_the_fields_that_were_changed(server: Api, store: Store, tmp_path: Path) -> None:
    """And never the whole object."""
    store.objects["7"] = {"id": "7", "name": "x", "region": "eu", "beat": 1}
    site = tmp_path / "site.json"
    site.write_text(json.dumps(manifest(server, {"x": {"body": {"region": "us"}}})))
    planned = command("plan", str(site), "--state", "memory:", cwd=tmp_path)
    assert "~ Http_resource[x]\n    body.region: eu → us\n" in planned.stdout
    result = command("apply", str(site), "--state", "memory:", cwd=tmp_path)
    assert "Notice: Http_resource[x]: body.region changed from eu to us\n" in result.stderr
    assert "beat" not in planned.stdout + result.stdout + result.stderr
