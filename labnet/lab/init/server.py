"""Two doors to PID 1: ``control.sock`` for the host, ``zygote.sock`` for components.

Both speak the zygote's protocol. What a kubelet needs is open at both; making hosts,
components, running code and ending the lab only at the host's. A verb either returns
its reply at once or keeps the :class:`Request` and answers later, when a fork has
reported; meanwhile the loop goes on.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from labnet.errors import LabnetError, Unavailable
from labnet.lab.init.loop import Loop
from labnet.linux import seqpacket
from labnet.sandbox import protocol
from labnet.sandbox.protocol import Message


class Connection:
    """One client; knows whom to tell when the client goes."""

    def __init__(self, channel: socket.socket, *, control: bool) -> None:
        self.channel = channel
        self.control = control
        self.open = True
        self.on_close: list[Callable[[], None]] = []

    def send(self, message: Message, fds: Sequence[int] = ()) -> bool:
        """Send, unless the client is gone or does not read; then return False."""
        if not self.open:
            return False
        try:
            seqpacket.send(self.channel, protocol.dump(message), fds)
        except OSError:
            return False
        return True

    def shut(self) -> None:
        """End the conversation; the loop sees it as closed and tidies up."""
        with suppress(OSError):
            self.channel.shutdown(socket.SHUT_RDWR)


class Request:
    """One request and the right to answer it, once."""

    def __init__(self, connection: Connection, message: Message, fds: tuple[int, ...]) -> None:
        self.connection = connection
        self.message = message
        self.fds = fds

    def reply(self, message: Message, fds: Sequence[int] = ()) -> None:
        """Answer with results and descriptors, which stay PID 1's."""
        self.connection.send(message, fds)

    def fail(self, error: BaseException) -> None:
        """Answer with an error."""
        self.connection.send(protocol.error_message(error))

    def release(self) -> None:
        """Close the received descriptors that nobody took."""
        seqpacket.close_all(self.fds)
        self.fds = ()


Verb = Callable[[Request], Message | None]


class Server:
    """Accepts, reads, hands each request to its verb.

    ``everywhere`` are the verbs of both doors, ``control`` those of the host's only.
    """

    def __init__(
        self, loop: Loop, everywhere: Mapping[str, Verb], control: Mapping[str, Verb]
    ) -> None:
        self._loop = loop
        self._everywhere = everywhere
        self._control = control

    def listen(self, path: Path, *, control: bool) -> None:
        """Open one of the two doors."""
        listener = seqpacket.listen(path)
        self._loop.on_readable(listener.fileno(), lambda: self._accept(listener, control))

    def _accept(self, listener: socket.socket, control: bool) -> None:
        with suppress(BlockingIOError, ConnectionAbortedError):
            channel, _ = listener.accept()
            channel.setblocking(False)
            connection = Connection(channel, control=control)
            self._loop.on_readable(channel.fileno(), lambda: self._read(connection))

    def _read(self, connection: Connection) -> None:
        try:
            payload, fds = seqpacket.receive(connection.channel)
        except BlockingIOError:
            return
        except (OSError, Unavailable):
            payload, fds = b"", ()
        if not payload:
            seqpacket.close_all(fds)
            self._close(connection)
            return
        self._serve(connection, payload, fds)

    def _close(self, connection: Connection) -> None:
        connection.open = False
        self._loop.forget(connection.channel.fileno())
        connection.channel.close()
        for callback in connection.on_close:
            callback()

    def _serve(self, connection: Connection, payload: bytes, fds: tuple[int, ...]) -> None:
        request = Request(connection, {}, fds)
        try:
            request.message = protocol.load(payload)
            reply = self._verb(request)(request)
        except (LabnetError, OSError) as error:
            request.fail(error)
        except (KeyError, TypeError, ValueError) as error:
            request.fail(LabnetError(f"not a valid request: {error!r}"))
        else:
            if reply is not None:
                request.reply(reply)
        finally:
            request.release()

    def _verb(self, request: Request) -> Verb:
        name = str(request.message.get("verb"))
        if name in self._everywhere:
            return self._everywhere[name]
        if name not in self._control:
            raise LabnetError(f"PID 1 knows no verb {name!r}")
        if not request.connection.control:
            raise LabnetError(f"{name!r} is for the host's control socket only")
        return self._control[name]
