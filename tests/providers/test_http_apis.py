"""The three APIs of ``docs/http-apis.md``: its manifests are applied to servers that answer as those services do."""

from __future__ import annotations

import re
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from resource_api import Runtime
from tests.http_api import Api, Reply, api
from tests.providers.applied import REGISTRY, reason

if TYPE_CHECKING:
    from resource_api.model.report import RunReport
    from tests.http_api import Request

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "http-apis.md"


def manifest(api_name: str, url: str) -> dict[str, Any]:
    """Return the manifest of one section of the page, for the service at ``url``."""
    section = next(part for part in PAGE.read_text(encoding="utf-8").split("\n## ") if api_name in part.splitlines()[0])
    document: dict[str, Any] = yaml.safe_load(section.partition("```yaml\n")[2].partition("```")[0])
    for provider in document["providers"].values():
        provider["config"]["url"] = re.sub(r"https://[^/]+", url, provider["config"]["url"])
    return {"project": "p", **document}


class Session:
    """A runtime with one state, and a manifest that a test changes."""

    def __init__(self, section: str, server: Api) -> None:
        """Begin with the manifest of the page."""
        self.manifest = manifest(section, server.url)
        self.server = server
        self.runtime = Runtime(REGISTRY, state="memory:")

    def body(self, title: str) -> dict[str, Any]:
        """Return the declared body of a resource, to be changed."""
        declared: dict[str, Any] = self.manifest["resources"][f"Http_resource[{title}]"]
        body: dict[str, Any] = declared["body"]
        return body

    def apply(self, expected: int = 0) -> RunReport:
        """Apply the manifest; forget the requests of before."""
        self.server.requests.clear()
        report = self.runtime.apply(self.manifest)
        assert report.exit_code == expected, reason(report)
        return report

    def plan(self) -> str:
        """Return the plan's text."""
        return str(self.runtime.plan(self.manifest))

    def rows(self, provider: str) -> list[dict[str, Any]]:
        """Return what the service lists."""
        config = self.manifest["providers"][provider]["config"]
        return self.runtime.resources("http_resource", config={**config, "token": "example"})


class Forge:
    """Repositories and labels, as GitHub has them."""

    def __init__(self) -> None:
        """Begin with no repository, and 70 labels of somebody else."""
        self.repositories: dict[tuple[str, str], dict[str, Any]] = {}
        self.labels = {f"label-{number}": {"id": number, "name": f"label-{number}"} for number in range(70)}
        self.busy = 1
        self.changes = 0

    def answer(self, request: Request) -> Reply:
        """Answer one request."""
        versioned = request.headers["X-GitHub-Api-Version"] or "labels" in request.parts
        if request.headers["Authorization"] != "Bearer example" or not versioned:
            return Reply(401, {"message": "Bad credentials"})
        if self.busy and request.method == "POST":
            self.busy -= 1
            return Reply(429, {"message": "rate limit"}, {"Retry-After": "0"})
        if request.parts[0] == "orgs":
            _, org, _ = request.parts
            self.changes += 1
            created = {"id": self.changes, "node_id": "R_1", "full_name": f"{org}/{request.body['name']}"}
            repository = {"has_wiki": True, "updated_at": "now", **created, **request.body}
            self.repositories[org, request.body["name"]] = repository
            return Reply(201, repository)
        return self.label(request) if "labels" in request.parts else self.repository(request)

    def repository(self, request: Request) -> Reply:
        """Answer a request for one repository, whose ``ETag`` is its state."""
        key = (request.parts[1], request.parts[2])
        repository = self.repositories.get(key)
        if repository is None:
            return Reply(404, {"message": "Not Found"})
        tag = f'"{abs(hash(repr(repository)))}"'
        if request.method == "GET":
            return Reply(200, repository, {"ETag": tag})
        if request.headers["If-Match"] != tag:
            return Reply(412, {"message": "Precondition Failed"})
        if request.method == "DELETE":
            del self.repositories[key]
            return Reply(204)
        self.changes += 1
        repository |= {**request.body, "updated_at": f"change {self.changes}"}
        return Reply(200, repository)

    def label(self, request: Request) -> Reply:
        """Answer a request for labels, in pages of 30."""
        if request.parts[-1] != "labels":
            name = request.parts[-1]
            if name not in self.labels:
                return Reply(404)
            if request.method == "DELETE":
                del self.labels[name]
                return Reply(204)
            self.labels[name] |= request.body or {}
            return Reply(200, self.labels[name])
        if request.method == "POST":
            self.labels[request.body["name"]] = {"id": len(self.labels), **request.body}
            return Reply(201, request.body)
        page = int(request.query.get("page", 1))
        labels = list(self.labels.values())[(page - 1) * 30 : page * 30]
        more = {"Link": f'</repos/acme/site/labels?page={page + 1}>; rel="next"'} if len(labels) == 30 else {}
        return Reply(200, labels, more)


def test_github() -> None:
    """Nested paths, ``Link``, ``ETag``, 429, and a field that the service changes by itself."""
    forge = Forge()
    with api(forge.answer) as server:
        session = Session("GitHub", server)
        assert session.apply().summary.created == 2
        assert server.asked("POST") == ["/orgs/acme/repos"] * 2 + ["/repos/acme/site/labels"]
        assert forge.repositories["acme", "site"]["description"] == "The site."
        forge.repositories["acme", "site"] |= {"updated_at": "by itself"}
        assert session.plan() == "Plan: nothing to do; 2 unchanged."
        session.body("acme/site")["description"] = "Our site."
        assert "    body.description: The site. → Our site.\n" in session.plan()
        assert session.apply().summary.updated == 1
        assert [request.body for request in server.requests if request.method == "PATCH"] == [
            {"description": "Our site."}
        ]
        assert len(session.rows("label")) == 71
        session.manifest["resources"] = {
            "Http_resource[acme/site]": {"provider": "repository", "ensure": "absent"},
            "Http_resource[acme]": {"provider": "repository"},
        }
        report = session.apply(1)
        assert (report.summary.deleted, forge.repositories) == (1, {})
        assert any("its name must be ORG/NAME" in (step.error or "") for step in report.steps)


def test_a_change_of_somebody_else_is_kept() -> None:
    """Between reading and writing: 412, and the object is read and changed once more."""
    forge = Forge()

    def answer(request: Request) -> Reply:
        if request.method == "PATCH" and not forge.busy:
            forge.busy = -1
            forge.repositories["acme", "site"]["homepage"] = "theirs"
        return forge.answer(request)

    with api(answer) as server:
        session = Session("GitHub", server)
        session.apply()
        session.body("acme/site")["description"] = "Ours."
        session.apply()
        assert len(server.asked("PATCH")) == 2
        repository = forge.repositories["acme", "site"]
        assert (repository["description"], repository["homepage"]) == ("Ours.", "theirs")


class Zone:
    """DNS records, as Cloudflare has them."""

    def __init__(self, rest: int = 120) -> None:
        """Begin with the records of others."""
        self.records = {f"r{number}": self.record(f"r{number}", {"name": f"h{number}"}) for number in range(rest)}

    def record(self, number: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Return a record with what the service adds."""
        return {"id": number, "ttl": 1, "created_on": "2026-01-01", "meta": {"auto": False}, **fields}

    def answer(self, request: Request) -> Reply:
        """Answer one request."""
        number = request.parts[-1]
        if number == "dns_records" and request.method == "GET":
            size, page = int(request.query["per_page"]), int(request.query["page"])
            return self.envelope(list(self.records.values())[(page - 1) * size : page * size])
        if request.method == "POST":
            number = f"n{len(self.records)}"
            self.records[number] = self.record(number, request.body)
            return self.envelope(self.records[number])
        if number not in self.records:
            return Reply(404, {"success": False, "errors": [{"code": 81044, "message": "Record does not exist."}]})
        if request.method == "DELETE":
            return self.envelope({"id": self.records.pop(number)["id"]})
        if request.body["type"] != self.records[number]["type"]:
            return Reply(400, {"success": False, "errors": [{"message": "type cannot be changed"}]})
        self.records[number] = request.body
        return self.envelope(request.body)

    @staticmethod
    def envelope(result: Any) -> Reply:
        """Return an answer."""
        return Reply(200, {"success": True, "errors": [], "result": result})


def test_cloudflare() -> None:
    """An envelope, pages by number, PUT, and a field whose change needs another record."""
    zone = Zone()
    with api(zone.answer) as server:
        session = Session("Cloudflare", server)
        report = session.apply()
        assert report.summary.created == 1
        assert report.outputs == {"created": "2026-01-01"}
        assert len([request for request in server.requests if request.method == "GET"]) >= 2 * 3
        record = zone.records["n120"]
        assert {**record, **session.body("www.example.org"), "name": "www.example.org"} == record
        session.body("www.example.org")["content"] = "192.0.2.2"
        assert session.plan().splitlines()[:2] == [
            "~ Http_resource[www.example.org]",
            "    body.content: 192.0.2.1 → 192.0.2.2",
        ]
        assert session.apply().summary.updated == 1
        assert zone.records["n120"] == {**record, "content": "192.0.2.2"}
        session.body("www.example.org")["type"] = "CNAME"
        assert "# a change of body.type replaces it" in session.plan()
        assert session.apply().summary.replaced == 1
        assert [record["type"] for record in zone.records.values() if "type" in record] == ["CNAME"]


def test_two_objects_of_one_name_are_an_error_with_their_identifiers() -> None:
    """Nothing of them is changed."""
    zone = Zone(rest=0)
    with api(zone.answer) as server:
        session = Session("Cloudflare", server)
        for number in ("a", "b"):
            zone.records[number] = zone.record(number, {"name": "www.example.org", "type": "A"})
        before = deepcopy(zone.records)
        assert "the service has 2 objects of this name: id a, b" in reason(session.apply(1))
        assert zone.records == before


class Cloud:
    """Networks, as Azure Resource Manager has them: each change is a job of three answers."""

    def __init__(self, last: str = "Succeeded") -> None:
        """Begin with no network; jobs end with the word ``last``."""
        self.networks: dict[str, dict[str, Any]] = {}
        self.jobs: list[Any] = []
        self.last = last

    def answer(self, request: Request) -> Reply:
        """Answer one request."""
        if "operations" in request.parts:
            number = int(request.parts[-1])
            count, finish = self.jobs[number]
            self.jobs[number] = (count + 1, finish)
            if count < 2:
                return Reply(200, {"status": "InProgress"}, {"Retry-After": "0"})
            if self.last == "Succeeded":
                finish()
            return Reply(200, {"status": self.last, "error": {"message": "quota exceeded"}})
        if request.query.get("api-version") != "2024-05-01":
            return Reply(400, {"error": {"code": "MissingApiVersionParameter"}})
        name = request.parts[-1]
        if name == "virtualNetworks":
            at = int(request.query.get("$skiptoken", 0))
            result = list(self.networks.values())
            more = f"{request.path}?api-version=2024-05-01&$skiptoken={at + 2}" if len(result) > at + 2 else None
            return Reply(200, {"value": result[at : at + 2], "nextLink": more})
        if request.method == "GET":
            network = self.networks.get(name)
            return Reply(404, {"error": {}}) if network is None else Reply(200, network, {"ETag": network["etag"]})
        return self.change(request, name)

    def change(self, request: Request, name: str) -> Reply:
        """Begin a job."""
        number = len(self.jobs)
        if request.method == "DELETE":
            self.jobs.append((0, lambda: self.networks.pop(name)))
            return Reply(202, None, {"Location": f"/operations/{number}", "Retry-After": "0"})
        added = {"id": f"/{name}", "name": name, "etag": f'"{number}"', "type": "virtualNetworks"}
        properties = {**request.body["properties"], "provisioningState": "Succeeded", "resourceGuid": "0"}
        network = {**request.body, **added, "properties": properties}
        self.jobs.append((0, lambda: self.networks.update({name: network})))
        status = {"Azure-AsyncOperation": f"/operations/{number}", "Retry-After": "0"}
        return Reply(201, {**network, "properties": {**properties, "provisioningState": "Updating"}}, status)


def test_azure() -> None:
    """Objects by name, jobs, pages by URL, nested fields, ``If-Match``."""
    cloud = Cloud()
    with api(cloud.answer) as server:
        session = Session("Azure", server)
        assert session.apply().summary.created == 1
        assert cloud.networks["backend"]["tags"] == {"stage": "prod"}
        cloud.networks["backend"]["tags"]["by"] = "a policy"
        assert session.plan() == "Plan: nothing to do; 1 unchanged."
        session.body("backend")["properties"]["addressSpace"]["addressPrefixes"] = ["10.1.0.0/16"]
        assert "    body.properties.addressSpace.addressPrefixes[0]: 10.0.0.0/16 → 10.1.0.0/16\n" in session.plan()
        assert session.apply().summary.updated == 1
        (change,) = [request for request in server.requests if request.method == "PUT"]
        assert change.headers["If-Match"] == '"0"'
        assert cloud.networks["backend"]["tags"] == {"stage": "prod", "by": "a policy"}
        for number in range(4):
            name = f"other-{number}"
            cloud.networks[name] = {**cloud.networks["backend"], "name": name, "id": f"/{name}"}
        rows = session.rows("network")
        assert sorted(row["name"] for row in rows) == ["backend", *(f"other-{number}" for number in range(4))]
        assert rows[0]["output"]["properties"] == {"provisioningState": "Succeeded", "resourceGuid": "0"}
        assert rows[0]["body"]["properties"] == {"addressSpace": {"addressPrefixes": ["10.1.0.0/16"]}}
        session.body("backend")["location"] = "northeurope"
        assert session.apply().summary.replaced == 1


def test_a_job_that_fails_is_the_resources_failure() -> None:
    """With the words of the service, and nothing is reported as created."""
    cloud = Cloud(last="Failed")
    with api(cloud.answer) as server:
        session = Session("Azure", server)
        session.manifest["providers"]["network"]["config"]["settle"] = 0
        assert "quota exceeded" in reason(session.apply(1))
