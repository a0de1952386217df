"""kube-controller-manager: loops that make what is be what was asked for.

Each reconciler is a pure function from a snapshot (the object and what belongs to it)
to the writes that bring it one step nearer; ``loop`` keeps the queue, carries the writes
out and looks again when anything of it changes. Running one twice in a row writes nothing.
"""
