"""Services as rules: one service model, and a pure planner per mode of kube-proxy."""
