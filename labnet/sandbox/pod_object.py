"""From a v1 Pod, as the API server stores it, to the values the node works on.

The object has been admitted, so required fields are there and defaults are mostly filled
in; what may be absent all the same (a pod restored from container labels has no spec)
gets Kubernetes' default here. Named ports become numbers, the pod's securityContext is
merged into each container's, and fields that nothing on the node reads are left behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from json import dumps
from typing import Any

from labnet.clock import parse_rfc3339
from labnet.sandbox.pod import (
    Action,
    Container,
    DnsConfig,
    EnvVar,
    Pod,
    Probe,
    Security,
    Volume,
    VolumeMount,
)

DEFAULT_GRACE_SECONDS = 30

Object = Mapping[str, Any]


def parse(pod: Object) -> Pod:
    """Return the view of ``pod``, a v1 Pod that the API server has admitted."""
    meta, spec = pod["metadata"], pod.get("spec", {})
    security = spec.get("securityContext") or {}
    deleted = meta.get("deletionTimestamp")
    grace = meta.get("deletionGracePeriodSeconds")
    if grace is None:
        grace = spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS)
    return Pod(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        node=spec.get("nodeName", ""),
        labels=meta.get("labels") or {},
        annotations=meta.get("annotations") or {},
        containers=_containers(spec.get("containers"), security),
        init_containers=_containers(spec.get("initContainers"), security),
        volumes=tuple(_volume(v) for v in spec.get("volumes") or ()),
        restart_policy=spec.get("restartPolicy", "Always"),
        grace=int(grace),
        host_network=bool(spec.get("hostNetwork")),
        hostname=spec.get("hostname") or meta["name"][:63].rstrip("-."),
        subdomain=spec.get("subdomain", ""),
        dns_policy=spec.get("dnsPolicy", "ClusterFirst"),
        dns=_dns(spec.get("dnsConfig") or {}),
        host_aliases=tuple(
            (alias["ip"], tuple(alias.get("hostnames") or ()))
            for alias in spec.get("hostAliases") or ()
        ),
        service_account=spec.get("serviceAccountName", "default"),
        sysctls=tuple((s["name"], s["value"]) for s in security.get("sysctls") or ()),
        deleted=parse_rfc3339(deleted) if deleted else None,
        phase=(pod.get("status") or {}).get("phase", "Pending"),
    )


def _dns(config: Object) -> DnsConfig:
    options = config.get("options") or ()
    return DnsConfig(
        tuple(config.get("nameservers") or ()),
        tuple(config.get("searches") or ()),
        tuple(o["name"] + (f":{o['value']}" if o.get("value") else "") for o in options),
    )


def _containers(specs: Sequence[Object] | None, security: Object) -> tuple[Container, ...]:
    return tuple(_container(spec, security) for spec in specs or ())


def _container(spec: Object, pod_security: Object) -> Container:
    ports = {p["name"]: p["containerPort"] for p in spec.get("ports") or () if p.get("name")}
    hooks = spec.get("lifecycle") or {}
    return Container(
        name=spec["name"],
        image=spec.get("image", ""),
        command=tuple(spec.get("command") or ()),
        args=tuple(spec.get("args") or ()),
        cwd=spec.get("workingDir", ""),
        env=(*_env_from(spec.get("envFrom") or ()), *(_env(e) for e in spec.get("env") or ())),
        mounts=tuple(_mount(m) for m in spec.get("volumeMounts") or ()),
        security=_security(spec.get("securityContext") or {}, pod_security),
        liveness=_probe(spec.get("livenessProbe"), ports),
        readiness=_probe(spec.get("readinessProbe"), ports),
        startup=_probe(spec.get("startupProbe"), ports),
        pre_stop=_action(hooks.get("preStop"), ports),
        post_start=_action(hooks.get("postStart"), ports),
        tty=bool(spec.get("tty")),
        stdin=bool(spec.get("stdin")),
        hash=sha256(dumps([spec["name"], spec.get("image")]).encode()).hexdigest()[:8],
    )


def _env_from(sources: Sequence[Object]) -> tuple[EnvVar, ...]:
    kinds = {"configMapRef": "configmap", "secretRef": "secret"}
    return tuple(
        EnvVar(
            name=source.get("prefix", ""),
            source=kinds[kind],
            source_name=source[kind]["name"],
            optional=bool(source[kind].get("optional")),
        )
        for source in sources
        for kind in kinds
        if kind in source
    )


def _env(env: Object) -> EnvVar:
    origin = env.get("valueFrom") or {}
    if field := origin.get("fieldRef"):
        return EnvVar(env["name"], field=field["fieldPath"])
    for kind, source in (("configMapKeyRef", "configmap"), ("secretKeyRef", "secret")):
        if ref := origin.get(kind):
            optional = bool(ref.get("optional"))
            name = ref.get("name", "")
            return EnvVar(
                env["name"], source=source, source_name=name, key=ref["key"], optional=optional
            )
    return EnvVar(env["name"], env.get("value") or "", unsupported=next(iter(origin), ""))


def _mount(mount: Object) -> VolumeMount:
    return VolumeMount(
        mount["name"],
        mount["mountPath"],
        mount.get("subPath", ""),
        bool(mount.get("readOnly")),
    )


def _volume(volume: Object) -> Volume:
    kind = next((k for k in volume if k != "name"), "emptyDir")
    source = volume.get(kind) or {}
    return Volume(
        name=volume["name"],
        kind=kind,
        source_name=source.get("name") or source.get("secretName") or "",
        items=tuple((i["key"], i["path"]) for i in source.get("items") or () if "key" in i),
        optional=bool(source.get("optional")),
        memory=source.get("medium") == "Memory",
    )


def _security(own: Object, pod: Object) -> Security:
    def either(name: str) -> Any:
        return own.get(name, pod.get(name))

    capabilities = own.get("capabilities") or {}
    return Security(
        add=tuple(_capability(c) for c in capabilities.get("add") or ()),
        drop=tuple(_capability(c) for c in capabilities.get("drop") or ()),
        privileged=bool(own.get("privileged")),
        run_as_user=either("runAsUser"),
        run_as_group=either("runAsGroup"),
        run_as_non_root=bool(either("runAsNonRoot")),
        read_only_root=bool(own.get("readOnlyRootFilesystem")),
        allow_escalation=own.get("allowPrivilegeEscalation", True) is not False,
    )


def _capability(name: str) -> str:
    return name.upper().removeprefix("CAP_")


def _probe(probe: Object | None, ports: Mapping[str, int]) -> Probe | None:
    action = _action(probe, ports)
    if probe is None or action is None:
        return None
    return Probe(
        action,
        initial_delay=float(probe.get("initialDelaySeconds") or 0),
        period=float(probe.get("periodSeconds") or 10),
        timeout=float(probe.get("timeoutSeconds") or 1),
        success_threshold=int(probe.get("successThreshold") or 1),
        failure_threshold=int(probe.get("failureThreshold") or 3),
        grace=probe.get("terminationGracePeriodSeconds"),
    )


def _action(source: Object | None, ports: Mapping[str, int]) -> Action | None:
    if source is None:
        return None
    if "exec" in source:
        return Action("exec", argv=tuple(source["exec"].get("command") or ()))
    if http := source.get("httpGet"):
        return Action(
            "httpGet",
            host=http.get("host", ""),
            port=_port(http.get("port"), ports),
            path=http.get("path") or "/",
            tls=http.get("scheme", "HTTP").upper() == "HTTPS",
            headers=tuple((h["name"], h["value"]) for h in http.get("httpHeaders") or ()),
        )
    if tcp := source.get("tcpSocket"):
        return Action("tcpSocket", host=tcp.get("host", ""), port=_port(tcp.get("port"), ports))
    if "sleep" in source:
        return Action("sleep", seconds=int(source["sleep"].get("seconds") or 0))
    return Action("grpc" if "grpc" in source else "none")


def _port(port: int | str | None, ports: Mapping[str, int]) -> int:
    """Return a port's number; 0 where a name is not among the container's ports."""
    if isinstance(port, str) and not port.isdigit():
        return ports.get(port, 0)
    return int(port or 0)
