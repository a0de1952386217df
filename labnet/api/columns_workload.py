"""The columns of Deployments, ReplicaSets and the other owners of pods."""

from __future__ import annotations

from datetime import datetime

from labnet.api.columns import AGE, NAME, NONE, Column, at, labels_text, path, selector_text
from labnet.api.duration import human, since
from labnet.api.meta import Object
from labnet.clock import parse_rfc3339


def _template_parts(obj: Object, part: str) -> str:
    spec = obj.get("spec") or {}
    template = spec.get("template") or at(spec, "jobTemplate", "spec", "template")
    containers = at(template, "spec", "containers") or ()
    return ",".join(c.get(part) or "" for c in containers)


CONTAINERS = Column("Containers", lambda obj, _: _template_parts(obj, "name"), priority=1)
IMAGES = Column("Images", lambda obj, _: _template_parts(obj, "image"), priority=1)
SELECTOR = Column("Selector", lambda obj, _: selector_text(at(obj, "spec", "selector")), priority=1)
_WIDE = (CONTAINERS, IMAGES, SELECTOR)


def _count(title: str, *names: str, description: str = "") -> Column:
    cell = path(*names, default=0)
    return Column(title, cell, type="integer", description=description)


def _ready(obj: Object, _: datetime) -> str:
    ready = at(obj, "status", "readyReplicas") or 0
    return f"{ready}/{at(obj, 'spec', 'replicas') or 0}"


DEPLOYMENT = (
    NAME,
    Column("Ready", _ready, description="Pods that are ready, of those that are wanted."),
    _count("Up-to-date", "status", "updatedReplicas"),
    _count("Available", "status", "availableReplicas"),
    AGE,
    *_WIDE,
)
REPLICA_SET = (
    NAME,
    _count("Desired", "spec", "replicas"),
    _count("Current", "status", "replicas"),
    _count("Ready", "status", "readyReplicas"),
    AGE,
    *_WIDE,
)


def _node_selector(obj: Object, _: datetime) -> str:
    return labels_text(at(obj, "spec", "template", "spec", "nodeSelector"))


DAEMON_SET = (
    NAME,
    _count("Desired", "status", "desiredNumberScheduled"),
    _count("Current", "status", "currentNumberScheduled"),
    _count("Ready", "status", "numberReady"),
    _count("Up-to-date", "status", "updatedNumberScheduled"),
    _count("Available", "status", "numberAvailable"),
    Column("Node Selector", _node_selector),
    AGE,
    *_WIDE,
)
STATEFUL_SET = (NAME, Column("Ready", _ready), AGE, CONTAINERS, IMAGES)


def _job_status(job: Object, _: datetime) -> str:
    conditions = {c.get("type"): c.get("status") for c in at(job, "status", "conditions") or ()}
    names = (
        ("Complete", "Complete"),
        ("Failed", "Failed"),
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    )
    for condition, word in names:
        if conditions.get(condition) == "True":
            return word
    return "Terminating" if at(job, "metadata", "deletionTimestamp") else "Running"


def _completions(job: Object, _: datetime) -> str:
    done, wanted = at(job, "status", "succeeded") or 0, at(job, "spec", "completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallel = at(job, "spec", "parallelism") or 0
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _took(job: Object, now: datetime) -> str:
    start, end = at(job, "status", "startTime"), at(job, "status", "completionTime")
    if not start:
        return ""
    if not end:
        return since(start, now)
    return human((parse_rfc3339(end) - parse_rfc3339(start)).total_seconds())


JOB = (
    NAME,
    Column("Status", _job_status),
    Column("Completions", _completions),
    Column("Duration", _took),
    AGE,
    *_WIDE,
)


def _suspended(job: Object, _: datetime) -> str:
    return "True" if at(job, "spec", "suspend") else "False"


def _last_schedule(job: Object, now: datetime) -> str:
    last = at(job, "status", "lastScheduleTime")
    return since(last, now) if last else NONE


CRON_JOB = (
    NAME,
    Column("Schedule", path("spec", "schedule")),
    Column("Timezone", path("spec", "timeZone", default=NONE)),
    Column("Suspend", _suspended, type="boolean"),
    Column("Active", lambda job, _: len(at(job, "status", "active") or ()), type="integer"),
    Column("Last Schedule", _last_schedule),
    AGE,
    CONTAINERS,
    IMAGES,
    Column("Selector", lambda _job, _: NONE, priority=1),
)
SCALE = (
    NAME,
    _count("Desired", "spec", "replicas"),
    _count("Available", "status", "replicas"),
    AGE,
)


def _budget(name: str) -> Column:
    titles = {"minAvailable": "Min Available", "maxUnavailable": "Max Unavailable"}
    return Column(titles[name], lambda obj, _: _text_or_na(at(obj, "spec", name)))


def _text_or_na(value: object) -> str:
    return "N/A" if value is None else str(value)


DISRUPTION_BUDGET = (
    NAME,
    _budget("minAvailable"),
    _budget("maxUnavailable"),
    _count("Allowed Disruptions", "status", "disruptionsAllowed"),
    AGE,
)
