"""kube-controller-manager: one module per reconciler."""
