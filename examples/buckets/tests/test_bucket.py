"""Buckets of a real service that shows changes late: the laws of providers, and the command killed at each request."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from resource_api import Registry, Runtime
from resource_api.testing import ProviderCompliance

HOME = Path(__file__).resolve().parents[1]


class TestBucket(ProviderCompliance):
    """The laws, with a service that shows nothing late; two of them make it late."""

    type_name = "bucket"
    module_path = (HOME,)

    @pytest.fixture
    def config(self, serve):
        return {"url": serve().url}

    @pytest.fixture
    def present(self):
        return {"name": "ra-test-a", "region": "eu", "versioning": True}

    @pytest.fixture
    def updated(self, present):
        return {**present, "versioning": False}

    @pytest.fixture
    def neighbours(self):
        return "it reads no file"


def manifest(server, resources, **config):
    """Return a manifest of buckets."""
    return {
        "project": "buckets",
        "providers": {"bucket": {"config": {"url": server.url, **config}}},
        "resources": resources,
    }


def failures(report):
    """Return the reasons of failures by reference."""
    return {step.reference: step.error for step in report.steps if step.status == "failed"}


LAGS = {"the list": {"list_lag": 2.0}, "the items": {"item_lag": 2.0}, "both": {"list_lag": 2.0, "item_lag": 1.0}}
MANY = {f"Bucket[many-{number}]": {"region": "eu", "versioning": False} for number in range(8)}


@pytest.mark.parametrize("lags", LAGS)
def test_nothing_is_orphaned_or_made_twice(serve, tmp_path, lags):
    """Eight buckets are read by the list, one by its name: created, changed and deleted, each once."""
    server = serve(**LAGS[lags])
    runtime = Runtime(Registry.from_path(HOME), state=f"sqlite:{tmp_path}/state.db")
    for resources in (MANY, {**MANY, "Bucket[one]": {"region": "us"}}):
        assert runtime.apply(manifest(server, resources)).exit_code == 0
    changed = {**MANY, "Bucket[one]": {"region": "us", "versioning": True}}
    assert runtime.apply(manifest(server, changed)).summary.updated == 1
    assert runtime.apply(manifest(server, changed)).summary.changed == 0
    assert failures(runtime.destroy(manifest(server, {}))) == {}
    assert (server.store.buckets, server.requests.count("POST /buckets")) == ({}, 9)


def test_a_configuration_says_how_long_is_waited(serve, tmp_path):
    """It takes precedence over the type; a bucket that is not seen in that time is ours, and the next run finds it."""
    server = serve(item_lag=1.5)
    runtime = Runtime(Registry.from_path(HOME), state=f"sqlite:{tmp_path}/state.db")
    source = manifest(server, {"Bucket[one]": {"region": "eu"}}, settle=0.2)
    [step] = runtime.apply(source).steps
    assert (step.status, step.unconfirmed) == ("failed", True)
    time.sleep(1.5)
    assert runtime.apply(source).exit_code == 0
    assert server.requests.count("POST /buckets") == 1
    server.item_lag = 0
    assert runtime.destroy(manifest(server, {})).exit_code == 0
    assert server.store.buckets == {}


@pytest.mark.parametrize("request_number", range(1, 8))
def test_a_kill_at_any_request_loses_nothing(serve, tmp_path, request_number):
    """The command is killed at a request of the first run; it is run again, and destroy leaves nothing."""
    server = serve(item_lag=1.0)
    site = tmp_path / "site.json"
    resources = {"Bucket[one]": {"region": "eu"}, "Bucket[two]": {"region": "us"}}
    site.write_text(json.dumps(manifest(server, resources, settle=3)), encoding="utf-8")
    environment = {
        **os.environ,
        "RESOURCE_API_STATE": f"sqlite:{tmp_path}/state.db",
        "RESOURCE_API_MODULE_PATH": str(HOME),
    }

    def run(*arguments):
        command = [sys.executable, "-m", "resource_api", *arguments]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    process = run("apply", site)
    while process.poll() is None and len(server.requests) < request_number:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    again = run("apply", site)
    assert (again.communicate(timeout=50)[0], again.returncode)[1] == 0
    assert server.requests.count("POST /buckets") >= len(server.store.buckets) == 2
    destroyed = run("destroy", site, "--yes")
    assert (destroyed.communicate(timeout=50)[0], destroyed.returncode)[1] == 0
    assert server.store.buckets == {}
