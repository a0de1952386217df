"""What runs on every node: kubelet, kube-proxy, flanneld."""
