"""Options of `up` that change the scenario, as dotted paths and values.

`--proxy-mode ipvs` is shorthand for `--set spec.proxy.mode=ipvs`; the loader checks both
the same way it checks the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

Override = tuple[str, str]

SHORTHANDS = {
    "name": "metadata.name",
    "proxy_mode": "spec.proxy.mode",
    "rule_style": "spec.proxy.style",
    "backend": "spec.backend.type",
    "runtime": "spec.runtime",
}


def assignments(settings: Sequence[str]) -> list[Override]:
    """Return ``path=value`` settings as pairs; a usage error for anything else."""
    found = []
    for setting in settings:
        path, equals, value = setting.partition("=")
        if not equals or not path:
            raise click.UsageError(f"--set takes PATH=VALUE, like spec.proxy.mode=ipvs: {setting}")
        found.append((path, value))
    return found


def overrides(options: Mapping[str, str | None], settings: Sequence[str]) -> list[Override]:
    """Return the overrides that shorthands in ``options`` and ``--set`` ask for, in order."""
    short = [(path, value) for key, path in SHORTHANDS.items() if (value := options.get(key))]
    return [*short, *assignments(settings)]
