"""kube-scheduler: filter, score, bind.

``filters`` says which nodes can take a pod and why the others cannot, ``decide`` picks
one for each pending pod (pure: a snapshot in, decisions out), ``run`` mirrors the API and
carries the decisions out.
"""
