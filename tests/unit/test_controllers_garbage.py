"""Objects and their owners: who goes with whom."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from labnet.client.kinds import PODS, REPLICA_SETS
from labnet.controllers.garbage import FOREGROUND, ORPHAN, Owned, Snapshot, reconcile
from labnet.controllers.namespace import LATEST
from labnet.controllers.namespace import reconcile as namespace
from labnet.controllers.writes import Clear, Patch, Remove, Update, Write

Object = dict[str, Any]


def replica_set(*finalizers: str, deleting: bool = False) -> Object:
    metadata: Object = {
        "name": "web",
        "namespace": "default",
        "uid": "rs",
        "resourceVersion": "7",
        "finalizers": list(finalizers),
    }
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": metadata}


def pod(*owners: str, deleting: bool = False) -> Object:
    metadata: Object = {
        "name": "a",
        "namespace": "default",
        "uid": "pod",
        "ownerReferences": [{"uid": uid} for uid in owners],
    }
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": metadata}


def of_pod(
    obj: Object, *, gone: Collection[str] = (), leaving: Collection[str] = ()
) -> tuple[Write, ...]:
    return reconcile(Snapshot(PODS, obj, (), frozenset(gone), frozenset(leaving))).writes


def of_owner(obj: Object, *dependents: Object) -> tuple[Write, ...]:
    owned = tuple(Owned(PODS, d) for d in dependents)
    return reconcile(Snapshot(REPLICA_SETS, obj, owned, frozenset(), frozenset())).writes


def test_what_never_had_an_owner_stays() -> None:
    assert of_pod(pod(), gone={"x"}) == ()


def test_what_lost_its_last_owner_goes() -> None:
    [write] = of_pod(pod("a", "b"), gone={"a", "b"})
    assert isinstance(write, Remove)
    assert write.uid == "pod"


def test_what_still_has_an_owner_only_loses_the_others() -> None:
    [write] = of_pod(pod("a", "b"), gone={"a"})
    assert isinstance(write, Patch)
    assert write.patch["metadata"]["ownerReferences"] == [{"uid": "b"}]


def test_an_owner_that_waits_for_its_dependents_takes_them() -> None:
    [write] = of_pod(pod("a"), leaving={"a"})
    assert isinstance(write, Remove)


def test_in_the_foreground_the_owner_goes_last() -> None:
    dying = replica_set(FOREGROUND, deleting=True)
    assert [type(w) for w in of_owner(dying, pod("rs"))] == [Remove]
    assert of_owner(dying, pod("rs", deleting=True)) == ()
    owned = (Owned(REPLICA_SETS, pod("rs")),)
    [below] = reconcile(Snapshot(REPLICA_SETS, dying, owned, frozenset(), frozenset())).writes
    assert isinstance(below, Remove)
    assert below.propagation == "Foreground", "what depends on it has to go first, too"
    [write] = of_owner(dying)
    assert isinstance(write, Patch)
    assert write.patch == {"metadata": {"finalizers": None, "resourceVersion": "7"}}


def test_orphans_lose_the_reference_before_the_owner_goes() -> None:
    first, second = of_owner(replica_set("keep", ORPHAN, deleting=True), pod("rs", "other"))
    assert isinstance(first, Patch)
    assert isinstance(second, Patch)
    assert first.patch["metadata"]["ownerReferences"] == [{"uid": "other"}]
    assert second.patch["metadata"]["finalizers"] == ["keep"]


def test_other_peoples_finalizers_are_left_alone() -> None:
    assert of_owner(replica_set("keep", deleting=True), pod("rs")) == ()


def test_a_dying_namespace_is_emptied_kind_by_kind_then_let_go() -> None:
    dying: Object = {
        "metadata": {"name": "shop", "deletionTimestamp": "x"},
        "spec": {"finalizers": ["kubernetes"]},
    }
    outcome = namespace(dying, [PODS, REPLICA_SETS], 0)
    assert outcome.writes == (Clear(PODS, "shop"), Clear(REPLICA_SETS, "shop"))
    assert outcome.again is not None
    assert outcome.again < 0.1
    assert namespace(dying, [PODS], 50).again == LATEST
    [write] = namespace(dying, [], 1).writes
    assert isinstance(write, Update)
    assert (write.subresource, write.object["spec"]) == ("finalize", {"finalizers": []})


def test_a_living_namespace_is_left_alone() -> None:
    alive: Object = {"metadata": {"name": "shop"}, "spec": {"finalizers": ["kubernetes"]}}
    assert namespace(alive, [PODS], 0).writes == ()
