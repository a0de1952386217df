"""What is wrong with a Deployment, a ReplicaSet, and the other owners of pods."""

from __future__ import annotations

from labnet.api import field, names
from labnet.api.meta import Object
from labnet.api.selectors import label_selector
from labnet.api.status import Cause
from labnet.api.validation_pod import pod_spec

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def deployment(obj: Object) -> list[Cause]:
    """Return what is wrong with a Deployment."""
    spec = obj.get("spec") or {}
    found = _counts(spec, "replicas", "minReadySeconds", "revisionHistoryLimit")
    found += _selected(spec, "deployment") + _template(spec, ("Always",)) + _strategy(spec)
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        rule = "must be greater than minReadySeconds"
        found.append(field.invalid("spec.progressDeadlineSeconds", deadline, rule))
    return found


def _strategy(spec: Object) -> list[Cause]:
    strategy = spec.get("strategy") or {}
    found = field.one_of("spec.strategy.type", strategy.get("type"), ("Recreate", "RollingUpdate"))
    rolling = strategy.get("rollingUpdate")
    if rolling is None:
        return found
    path = "spec.strategy.rollingUpdate"
    if strategy.get("type") == "Recreate":
        rule = "may not be specified when strategy `type` is 'Recreate'"
        return [*found, field.forbidden(path, rule)]
    for name in ("maxUnavailable", "maxSurge"):
        found += _count_or_percent(f"{path}.{name}", rolling.get(name, 0))
    if rolling.get("maxUnavailable") in (0, "0%") and rolling.get("maxSurge") in (0, "0%"):
        rule = "may not be 0 when `maxSurge` is 0"
        found.append(field.invalid(f"{path}.maxUnavailable", rolling["maxUnavailable"], rule))
    return found


def _count_or_percent(path: str, value: int | str) -> list[Cause]:
    if isinstance(value, int):
        return field.non_negative(path, value)
    if value.endswith("%") and value[:-1].isdigit():
        return []
    rule = (
        "a valid percent string must be a numeric string followed by an ending '%' "
        "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
    )
    return [field.invalid(path, value, rule)]


def replica_set(obj: Object) -> list[Cause]:
    """Return what is wrong with a ReplicaSet."""
    spec = obj.get("spec") or {}
    return (
        _counts(spec, "replicas", "minReadySeconds")
        + _selected(spec, "deployment")
        + _template(spec, ("Always",))
    )


def daemon_set(obj: Object) -> list[Cause]:
    """Return what is wrong with a DaemonSet."""
    spec = obj.get("spec") or {}
    return _selected(spec, "daemonset") + _template(spec, ("Always",))


def stateful_set(obj: Object) -> list[Cause]:
    """Return what is wrong with a StatefulSet."""
    spec = obj.get("spec") or {}
    return _counts(spec, "replicas") + _selected(spec, "statefulset") + _template(spec, ("Always",))


def job(obj: Object) -> list[Cause]:
    """Return what is wrong with a Job."""
    spec = obj.get("spec") or {}
    found = _counts(spec, "parallelism", "completions", "backoffLimit")
    template = (spec.get("template") or {}).get("spec") or {}
    policy = template.get("restartPolicy")
    if policy == "Always":
        path = "spec.template.spec.restartPolicy"
        found.append(field.not_supported(path, policy, ("OnFailure", "Never")))
    return found + _template(spec, None)


def replication_controller(obj: Object) -> list[Cause]:
    """Return what is wrong with a ReplicationController: its selector is a plain map."""
    spec = obj.get("spec") or {}
    found = _counts(spec, "replicas") + _template(spec, ("Always",))
    selector = spec.get("selector") or {}
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if not selector:
        found.append(field.required("spec.selector"))
    elif any(labels.get(k) != v for k, v in selector.items()):
        found.append(_mismatch(labels))
    return found


def _counts(spec: Object, *fields: str) -> list[Cause]:
    found: list[Cause] = []
    for name in fields:
        if spec.get(name) is not None:
            found += field.non_negative(f"spec.{name}", spec[name])
    return found


def _mismatch(labels: Object) -> Cause:
    rule = "`selector` does not match template `labels`"
    return field.invalid("spec.template.metadata.labels", labels, rule)


def _selected(spec: Object, kind: str) -> list[Cause]:
    """Return what is wrong with the selector, also that its own pods don't match it."""
    selector = spec.get("selector")
    if selector is None:
        return [field.required("spec.selector")]
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        rule = f"empty selector is invalid for {kind}"
        return [field.invalid("spec.selector", selector, rule)]
    if found := selector_problems("spec.selector", selector):
        return found
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    return [] if label_selector(selector).matches(labels) else [_mismatch(labels)]


def selector_problems(path: str, selector: Object) -> list[Cause]:
    """Return what is wrong with a metav1.LabelSelector."""
    found: list[Cause] = []
    for key, value in (selector.get("matchLabels") or {}).items():
        found += names.problems(f"{path}.matchLabels", key, names.qualified(key))
        found += names.problems(f"{path}.matchLabels", value, names.label_value(value))
    for n, expression in enumerate(selector.get("matchExpressions") or ()):
        at = f"{path}.matchExpressions[{n}]"
        operator, values = expression.get("operator"), expression.get("values") or []
        if operator not in _OPERATORS:
            rule = "not a valid selector operator"
            found.append(field.invalid(f"{at}.operator", operator or "", rule))
        elif operator in ("In", "NotIn") and not values:
            rule = "must be specified when `operator` is 'In' or 'NotIn'"
            found.append(field.required(f"{at}.values", rule))
        elif operator in ("Exists", "DoesNotExist") and values:
            rule = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            found.append(field.forbidden(f"{at}.values", rule))
        key = expression.get("key", "")
        found += names.problems(f"{at}.key", key, names.qualified(key))
    return found


def _template(spec: Object, restart: tuple[str, ...] | None) -> list[Cause]:
    template = spec.get("template")
    if template is None:
        return [field.required("spec.template")]
    path = "spec.template"
    found: list[Cause] = []
    for key, value in ((template.get("metadata") or {}).get("labels") or {}).items():
        found += names.problems(f"{path}.labels", key, names.qualified(key))
        found += names.problems(f"{path}.labels", value, names.label_value(value))
    pod = template.get("spec") or {}
    found += pod_spec(f"{path}.spec", pod)
    if restart is not None and pod.get("restartPolicy") in ("OnFailure", "Never"):
        found += field.one_of(f"{path}.spec.restartPolicy", pod["restartPolicy"], restart)
    return found


def selector_update(old: Object, new: Object) -> list[Cause]:
    """Return that a selector changed, which would orphan the pods it selected."""
    before, after = (o.get("spec") or {} for o in (old, new))
    if before.get("selector") == after.get("selector"):
        return []
    return [field.invalid("spec.selector", after.get("selector"), "field is immutable")]
