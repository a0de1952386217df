"""PID 1 of a lab: zygote, reaper and supervisor.

``launch`` starts it from the command line; ``__main__`` makes the namespaces; ``main``
is PID 1 itself, around a ``loop``. ``server`` takes requests and hands them to
``pod_verbs`` and ``lab_verbs``; ``pods`` and ``supervisor`` start processes through
``forks``, and ``become``, ``root`` and ``hosts`` are what those forks do. ``registry``
knows what became of them.
"""
