"""labnet: a Kubernetes cluster's network, built from the real thing on one machine."""
