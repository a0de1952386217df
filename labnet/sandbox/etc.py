"""The files of a pod's /etc that depend on the pod: hosts, resolv.conf, passwd.

Name lookup in a container is decided by three files: nsswitch.conf says "files, then
dns", hosts holds the pod's own name, resolv.conf names the resolver and the suffixes it
tries. ``ndots:5`` makes a name with fewer than five dots go through the suffixes first:
that is why ``my-nginx`` resolves, and why ``example.com`` costs four queries.
The texts are those of kubelet (``pkg/kubelet/kubelet_pods.go``, ``network/dns/dns.go``).
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address

from labnet.sandbox.pod import Pod

HOSTS_HEADER = "# Kubernetes-managed hosts file"
LOCAL_HOSTS = (
    "127.0.0.1\tlocalhost",
    "::1\tlocalhost ip6-localhost ip6-loopback",
    "fe00::0\tip6-localnet",
    "fe00::0\tip6-mcastprefix",
    "fe00::1\tip6-allnodes",
    "fe00::2\tip6-allrouters",
)
NSSWITCH = (
    "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
    "networks: files\nprotocols: files\nservices: files\n"
)
MAX_NAMESERVERS, MAX_SEARCHES = 3, 32


def hosts(pod: Pod, address: IPv4Address, domain: str, node_hosts: str = "") -> str:
    """Return /etc/hosts; a pod in the node's network gets the node's and a header."""
    if pod.host_network:
        text = f"{HOSTS_HEADER} (host network).\n{node_hosts}"
    else:
        names = pod.hostname
        if pod.subdomain:
            fqdn = f"{pod.hostname}.{pod.subdomain}.{pod.namespace}.svc.{domain}"
            names = f"{fqdn}\t{pod.hostname}"
        lines = (f"{HOSTS_HEADER}.", *LOCAL_HOSTS, f"{address}\t{names}")
        text = "\n".join(lines) + "\n"
    if pod.host_aliases:
        aliases = "".join(f"{ip}\t" + "\t".join(names) + "\n" for ip, names in pod.host_aliases)
        text += "\n# Entries added by HostAliases.\n" + aliases
    return text


def resolv_conf(
    pod: Pod, cluster_dns: IPv4Address | None, domain: str, node_resolv_conf: str = ""
) -> str:
    """Return /etc/resolv.conf for the pod's dnsPolicy, its dnsConfig merged in.

    ``ClusterFirst`` means the cluster's DNS, for a pod in the node's network only as
    ``ClusterFirstWithHostNet``; without a cluster DNS it falls back to ``Default``,
    the node's own file.
    """
    policy = pod.dns_policy
    if policy == "ClusterFirst" and pod.host_network:
        policy = "Default"
    nameservers: list[str] = []
    searches: list[str] = []
    options: list[str] = []
    if policy.startswith("ClusterFirst") and cluster_dns is not None:
        nameservers = [str(cluster_dns)]
        searches = [f"{pod.namespace}.svc.{domain}", f"svc.{domain}", domain]
        options = ["ndots:5"]
    elif policy != "None":
        nameservers, searches, options = _parsed(node_resolv_conf)
    return _written(
        _unique([*nameservers, *pod.dns.nameservers])[:MAX_NAMESERVERS],
        _unique([*searches, *pod.dns.searches])[:MAX_SEARCHES],
        _merged(options, pod.dns.options),
    )


def _parsed(text: str) -> tuple[list[str], list[str], list[str]]:
    nameservers, searches, options = [], [], []
    for word, *rest in (line.split() for line in text.splitlines() if line.strip()):
        if word == "nameserver":
            nameservers += rest[:1]
        elif word in ("search", "domain"):
            searches = rest
        elif word == "options":
            options += rest
    return nameservers, searches, options


def _written(nameservers: Sequence[str], searches: Sequence[str], options: Sequence[str]) -> str:
    lines = [f"search {' '.join(searches)}"] if searches else []
    lines += [f"nameserver {server}" for server in nameservers]
    lines += [f"options {' '.join(options)}"] if options else []
    return "".join(f"{line}\n" for line in lines)


def _unique(words: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(words))


def _merged(base: Sequence[str], over: Sequence[str]) -> list[str]:
    """An option given twice has the pod's value."""
    by_name = {option.partition(":")[0]: option for option in (*base, *over)}
    return list(by_name.values())


def passwd(user: int | None) -> str:
    """Return /etc/passwd: root, nobody, and the user the container runs as."""
    lines = ["root:x:0:0:root:/root:/bin/sh", "nobody:x:65534:65534:nobody:/:/bin/sh"]
    if user not in (None, 0, 65534):
        lines.append(f"user:x:{user}:{user}:user:/:/bin/sh")
    return "\n".join(lines) + "\n"


def group(number: int | None) -> str:
    """Return /etc/group, with the group the container runs as."""
    lines = ["root:x:0:", "tty:x:5:", "nogroup:x:65534:"]
    if number not in (None, 0, 5, 65534):
        lines.append(f"user:x:{number}:")
    return "\n".join(lines) + "\n"
