"""What things may be called: DNS labels, label keys and values, port names.

Names end up in DNS, in URLs and in iptables comments, so the rules are those of RFC 1123
and RFC 1035. Every function returns what is wrong with a name, in the words of
``k8s.io/apimachinery/pkg/util/validation``; an empty list means nothing is.
"""

from __future__ import annotations

import re

from labnet.api import field
from labnet.api.status import Cause

LABEL_MAX = 63
SUBDOMAIN_MAX = 253
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_QUALIFIED})?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"

_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', "
    f"regex used for validation is '{_LABEL}')"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' "
    "or '.', and must start and end with an alphanumeric character (e.g. 'example.com', "
    f"regex used for validation is '{_SUBDOMAIN}')"
)
_LABEL_1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with "
    "an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or "
    f"'abc-123', regex used for validation is '{_LABEL_1035}')"
)
_LABEL_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' "
    "or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
    "'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_QUALIFIED_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
    "an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    f"validation is '{_QUALIFIED}')"
)
_CONFIG_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
    f"'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '{_CONFIG_KEY}')"
)


def _rules(name: str, pattern: str, rule: str, longest: int) -> list[str]:
    found = []
    if len(name) > longest:
        found.append(f"must be no more than {longest} characters")
    if not re.fullmatch(pattern, name):
        found.append(rule)
    return found


def label(name: str) -> list[str]:
    """A DNS label (RFC 1123): namespaces, containers, service ports."""
    return _rules(name, _LABEL, _LABEL_RULE, LABEL_MAX)


def subdomain(name: str) -> list[str]:
    """A DNS name (RFC 1123): most objects."""
    return _rules(name, _SUBDOMAIN, _SUBDOMAIN_RULE, SUBDOMAIN_MAX)


def label_1035(name: str) -> list[str]:
    """A DNS label that starts with a letter (RFC 1035): Services."""
    return _rules(name, _LABEL_1035, _LABEL_1035_RULE, LABEL_MAX)


def label_value(value: str) -> list[str]:
    """The value of a label."""
    return _rules(value, _LABEL_VALUE, _LABEL_VALUE_RULE, LABEL_MAX)


def qualified(key: str) -> list[str]:
    """The key of a label or annotation: a name, perhaps behind ``example.com/``."""
    prefix, slash, name = key.rpartition("/")
    found = []
    if slash and not prefix:
        found.append("prefix part must be non-empty")
    elif slash:
        found += [f"prefix part {problem}" for problem in subdomain(prefix)]
    if not name:
        found.append("name part must be non-empty")
        return found
    rules = _rules(name, _QUALIFIED, _QUALIFIED_RULE, LABEL_MAX)
    return found + [f"name part {problem}" for problem in rules]


def config_key(key: str) -> list[str]:
    """A key of a ConfigMap or Secret: it may become a file's name."""
    found = _rules(key, _CONFIG_KEY, _CONFIG_KEY_RULE, SUBDOMAIN_MAX)
    if key in (".", ".."):
        found.append(f"must not be '{key}'")
    return found


def port_name(name: str) -> list[str]:
    """The name of a container port (RFC 6335)."""
    found = []
    if len(name) > 15:
        found.append("must be no more than 15 characters")
    if not re.fullmatch("[-a-z0-9]+", name):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", name):
        found.append("must contain at least one letter (a-z)")
    if "--" in name:
        found.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        found.append("must not begin or end with a hyphen")
    return found


def problems(path: str, name: str, rules: list[str]) -> list[Cause]:
    """Return ``rules``, as one of the functions above gave them, under ``path``."""
    return [field.invalid(path, name, rule) for rule in rules]
