"""kube-apiserver: Flask on top, the store below."""
