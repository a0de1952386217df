"""Every namespace has a ServiceAccount named ``default``, for pods that name none."""

from __future__ import annotations

from collections.abc import Mapping

from labnet.api.meta import Object
from labnet.api.resource import Resource
from labnet.client.kinds import NAMESPACES, SERVICE_ACCOUNTS
from labnet.client.views import Key, is_deleting
from labnet.controllers.loop import KeysOf, Mirrors
from labnet.controllers.writes import Create, Outcome, Say, Write


def reconcile(namespace: Object, *, has_default: bool) -> Outcome:
    """Return the creation of the namespace's ``default`` ServiceAccount, if it lacks one."""
    if has_default or is_deleting(namespace):
        return Outcome()
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": namespace["metadata"]["name"]},
    }
    return Outcome((Create(SERVICE_ACCOUNTS, account),))


class ServiceAccounts:
    """The reconciler's eyes."""

    name = "serviceaccount-controller"

    def __init__(self, mirrors: Mirrors) -> None:
        self._namespaces = mirrors.of(NAMESPACES)
        self._accounts = mirrors.of(SERVICE_ACCOUNTS)

    def watched(self) -> Mapping[Resource, KeysOf]:
        """Namespaces, and accounts by their namespace."""
        return {
            NAMESPACES: lambda obj: (("", obj["metadata"]["name"]),),
            SERVICE_ACCOUNTS: lambda obj: (("", obj["metadata"]["namespace"]),),
        }

    def look(self, key: Key) -> Outcome:
        """Decide about one namespace."""
        namespace = self._namespaces.get(key[1])
        if namespace is None:
            return Outcome()
        has_default = self._accounts.get("default", key[1]) is not None
        return reconcile(namespace, has_default=has_default)

    def wrote(self, key: Key, write: Write, answer: Object | None) -> Say | None:
        """Nothing to remember: there is one account of that name."""
        return None
