"""kube-scheduler: filter, score, bind."""
