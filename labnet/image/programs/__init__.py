"""The programs behind the catalogue's images: small servers, standard library only.

Each module is used in two ways. The zygote imports it once and a container forked
from it calls ``main(argv)``: no exec, no interpreter start, memory shared. A shell in
the container finds the same program as a script (``/agnhost``, ``nginx``), two lines
that import this package from where the container has it. A program is PID 1 of its pid
namespace, so signals it does not ask for are ignored: every one of them asks for SIGTERM.
"""
