"""The types, for annotations, of the JSON documents that commands write and read, as in ``resource_api/schemas``."""

from __future__ import annotations

from typing import NotRequired, TypedDict

ChangeJson = TypedDict("ChangeJson", {"attribute": str, "is": object, "should": object, "message": str | None})


class SideEffectJson(TypedDict):
    """A side effect of a step on another resource."""

    name: object
    action: str
    type: NotRequired[str]


class PathJson(TypedDict):
    """A part of a hash or an array that differs."""

    path: list[str | int]
    kind: str


class PlannedChangeJson(ChangeJson):
    """An attribute that a step would change."""

    kind: str
    paths: NotRequired[list[PathJson]]


DriftChangeJson = TypedDict("DriftChangeJson", {"attribute": str, "was": object, "is": object})


class DriftJson(TypedDict):
    """A resource that differs from its record."""

    reference: str
    changes: list[DriftChangeJson]


class ProblemJson(TypedDict):
    """A diagnostic."""

    severity: str
    code: str
    message: str
    hint: str | None
    reference: str | None
    file: str | None
    line: int | None
    column: int | None
    attribute: str | None


class CountsJson(TypedDict):
    """The numbers of resources by outcome, or by planned action."""

    created: int
    updated: int
    replaced: int
    deleted: int
    imported: int
    forgotten: int
    refreshed: int
    ran: int
    outputs_changed: int
    unchanged: int
    failed: int
    skipped: int
    noop: bool


class SummaryJson(CountsJson):
    """The counts of a run."""

    exit_code: NotRequired[int]
    run: NotRequired[str]


class RetryJson(TypedDict):
    """The retries of a step."""

    tries: int
    delay: float


class StepOptionsJson(TypedDict):
    """The metaparameters of a step that decide how it is carried out."""

    noop: bool
    loglevel: str
    tags: list[str]
    replace: NotRequired[str]
    retry: NotRequired[RetryJson]


class OriginJson(TypedDict):
    """The element of ``for_each`` that a resource is made for; its index where it has no key."""

    for_each: str
    key: str | int | float | None
    index: NotRequired[int]


_PlanStepIs = TypedDict("_PlanStepIs", {"is": dict[str, object] | None})


class PlanStepJson(_PlanStepIs):
    """A step of a plan."""

    reference: str
    urn: str
    parent: str | None
    action: str
    previous: str | None
    reasons: list[str]
    should: dict[str, object]
    unknown: list[str]
    expressions: dict[str, object]
    sensitive: list[str]
    replaces_because: list[str]
    changes: list[PlannedChangeJson]
    depends_on: list[str]
    notifies: list[str]
    refreshed_by: list[str]
    options: StepOptionsJson
    predicted: NotRequired[list[PlannedChangeJson]]
    side_effects: NotRequired[list[SideEffectJson] | None]
    error: NotRequired[str]
    may_change: NotRequired[bool]
    corrective: NotRequired[bool]
    origin: NotRequired[OriginJson]


OutputChangeJson = TypedDict("OutputChangeJson", {"is": object, "should": object})


class StackOutputJson(TypedDict):
    """An output of another stack."""

    stack: str
    output: str


class LeftOutJson(TypedDict):
    """A part of a manifest whose condition does not hold: a reference, an output or a file, and the reason."""

    reference: str
    why: str


class FailureHandlerJson(TypedDict):
    """A resource that is carried out only if others fail."""

    reference: str
    of: list[str]


class PlanJson(TypedDict):
    """``plan --json``, and the file of ``plan -o``, which has ``manifest``."""

    format_version: int
    tool_version: str
    project: str
    stack: str
    lineage: str
    serial: int
    manifest_sha256: str
    steps: list[PlanStepJson]
    drift: list[DriftJson]
    outputs: dict[str, object]
    output_changes: dict[str, OutputChangeJson]
    unknown: list[str]
    only_if_failed: NotRequired[list[FailureHandlerJson]]
    left_out: NotRequired[list[LeftOutJson]]
    stacks: NotRequired[list[StackOutputJson]]
    summary: CountsJson
    complete: bool
    applicable: bool
    problems: NotRequired[list[ProblemJson]]
    warnings: NotRequired[list[ProblemJson]]
    manifest: NotRequired[dict[str, object]]


class RefreshJson(TypedDict):
    """``refresh --json``."""

    refreshed: list[str]
    changes: list[DriftJson]
    output_changes: dict[str, OutputChangeJson]
    exit_code: int


class RunStepJson(TypedDict):
    """A step of a run that acted, failed, was skipped, or was noop."""

    reference: str
    action: str
    status: str
    changes: list[ChangeJson]
    error: str | None
    corrective: bool
    seconds: float
    call: int | None
    file: str | None
    line: int | None
    late: NotRequired[bool]
    unconfirmed: NotRequired[bool]


class CallJson(TypedDict):
    """A call of a provider."""

    worker: int
    provider: str
    method: str
    started: float
    seconds: float
    resources: int
    first: str


NotificationJson = TypedDict("NotificationJson", {"from": str, "to": str})


class RunJson(TypedDict):
    """``history show --json`` and ``report --json``."""

    kind: str
    format_version: int
    run: str
    command: str
    started: float
    ended: float
    seconds: float | None
    steps: list[RunStepJson]
    calls: list[CallJson]
    critical_path: list[int]
    notifications: list[NotificationJson]
    drift: list[DriftJson]
    problems: list[ProblemJson]
    tool_version: NotRequired[str]
    project: NotRequired[str]
    stack: NotRequired[str]
    parallel: NotRequired[int]
    drifted: NotRequired[int]
    summary: NotRequired[SummaryJson]
    kept: NotRequired[bool]


class FinishedRunJson(TypedDict):
    """A finished run in an overview; times in seconds since 1970."""

    run: str
    project: str
    stack: str
    command: str
    ended: float
    seconds: float
    exit_code: int
    changes: int
    failed: int


class ChangedResourceJson(TypedDict):
    """A resource that a run has changed."""

    reference: str
    action: str


class ChangedResourcesJson(FinishedRunJson):
    """The last run with changes, and the resources that it changed."""

    resources: list[ChangedResourceJson]


class FailingResourceJson(TypedDict):
    """A resource that failed in the last run of its stack; ``since``: the end of the first failed run in a row."""

    reference: str
    error: str
    file: str | None
    line: int | None
    project: str
    stack: str
    since: float


class DriftedResourceJson(TypedDict):
    """A resource that had drifted before ``runs`` runs."""

    reference: str
    runs: int
    last: float
    attributes: list[str]


class SlowCallJson(TypedDict):
    """A call of a provider that took long."""

    method: str
    first: str
    resources: int
    seconds: float


class OverviewJson(TypedDict):
    """``report --since --json``: the recent runs of a machine."""

    kind: str
    format_version: int
    since: float
    until: float
    status: str
    runs: int
    failed_runs: int
    changes: int
    drifted: int
    longest: float
    last: FinishedRunJson | None
    last_change: ChangedResourcesJson | None
    failing: list[FailingResourceJson]
    drift: list[DriftedResourceJson]
    slow: list[SlowCallJson]


class FindingJson(TypedDict):
    """A finding about one resource."""

    reference: str
    text: str
    attribute: str
    place: str


class VerdictJson(TypedDict):
    """The answer to one question of a rehearsal."""

    question: str
    ok: bool
    text: str
    findings: list[FindingJson]


class EffectJson(TypedDict):
    """A side effect of a rehearsal on one path."""

    references: list[str]
    verb: str
    path: str
    package: str
    place: str


class RehearsalJson(TypedDict):
    """``rehearse --json``."""

    format_version: int
    verdicts: list[VerdictJson]
    side_effects: list[EffectJson]
    not_rehearsed: list[FindingJson]
    not_damaged: list[FindingJson]
    run: RunJson | None
    exit_code: int


class HostJson(TypedDict):
    """The outcome of one host."""

    name: str
    status: str
    summary: dict[str, int] | None
    error: str
    code: int | None
    seconds: float
    batch: int


class HostGroupJson(TypedDict):
    """Hosts with equal results, and the lines of these."""

    status: str
    hosts: list[str]
    count: int
    error: str | None
    lines: list[str]
    more: int


class FleetJson(TypedDict):
    """The document of a run over hosts, for reporters."""

    kind: str
    format_version: int
    tool_version: str
    command: str
    run: str
    started: float
    ended: float
    seconds: float
    stop: str | None
    summary: dict[str, object]
    project: str
    stack: str | None
    counts: dict[str, int]
    groups: list[HostGroupJson]
    hosts: list[HostJson]


class LastRunJson(TypedDict):
    """The last run of an agent."""

    source: str
    manifest: str
    mode: str
    problem: str
    version: str
    signer: str
    run: str
    project: str
    failure: str
    boot_id: str
    trust: str
    generation: int
    corrective: int
    exit_code: int
    summary: dict[str, int]
    period: float
    started: float
    ended: float
    ended_boot: float


class PauseJson(TypedDict):
    """The pause of an agent."""

    reason: str
    since: float
