"""One ``kubectl exec``: a process in a container, its streams over one WebSocket.

A single loop looks at everything that can move: the connection, the process' output,
its input, its end. Input waits in a bounded buffer while the process does not read it,
so a ``cat`` of a gigabyte neither blocks the loop nor fills the memory. The exit code
travels in the last message, a Status on the error channel.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import selectors
import ssl
import struct
import termios
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from labnet.node.kubelet import websocket
from labnet.node.kubelet.pipes import Pipes, Wish
from labnet.node.kubelet.websocket import CLOSE, ERROR, RESIZE, STDIN, STDOUT, Frame
from labnet.node.runtime.model import Execution
from labnet.sandbox.spec import Exit

CHUNK = 32 * 1024
INPUT_MAX = 256 * 1024
LINGER_SECONDS = 2.0
SIZE_SECONDS = 0.1  # how long a terminal waits for its size before the program starts


def status_of(exit_: Exit) -> dict[str, Any]:
    """Return the Status that ends an exec, as kubelet's remotecommand sends it."""
    if exit_.code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {exit_.code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(exit_.code)}]},
    }


def status_of_error(message: str) -> dict[str, Any]:
    """Return the Status of a command that could not be started."""
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {message}",
        "reason": "InternalError",
        "details": {"causes": [{"message": message}]},
        "code": 500,
    }


@dataclass(slots=True)
class Session:
    """One exec on ``sock``, which has been upgraded to WebSocket."""

    sock: ssl.SSLSocket
    wish: Wish
    pipes: Pipes
    reader: websocket.Reader = field(default_factory=websocket.Reader)
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    pending: bytearray = field(default_factory=bytearray)
    process: Execution = field(init=False)
    sized: bool = False
    input_over: bool = False
    ended: bool = False
    connected: bool = True

    def begin(self, first: bytes) -> None:
        """Take ``first``, what came with the request; a terminal waits for its size.

        kubectl tells the size as soon as it is connected. A program that asks for it
        first of all must not be told 0 × 0.
        """
        self._feed(first)
        if not self.wish.tty or self.sized:
            return
        self.sock.settimeout(SIZE_SECONDS)
        with suppress(OSError):
            self._feed(self.sock.recv(CHUNK))

    def refuse(self, message: str) -> None:
        """Say that the command could not be started, and end."""
        self.pipes.close_ours()
        self._end(status_of_error(message))

    def run(self, process: Execution) -> None:
        """Carry everything until ``process`` has ended and its output is out."""
        self.process = process
        self.sock.setblocking(False)
        for fd, channel in self.pipes.outputs.items():
            os.set_blocking(fd, False)
            self._on(fd, selectors.EVENT_READ, self._reading(fd, channel))
        self._on(self.process.fileno(), selectors.EVENT_READ, self._note_end)
        if not self._listening():
            self._on(self.sock.fileno(), selectors.EVENT_READ, self._receive)
        self._send(STDOUT, b"")  # kubectl waits for a first message
        self._push_input()
        try:
            while self.connected and (not self.ended or self.pipes.outputs):
                if not self._step():
                    break
            self._finish()
        finally:
            self._close()

    def _step(self) -> bool:
        """Move what can be moved; False when the process has ended and nothing comes any more.

        A process left in the background may hold the output open: a tenth of a second of
        silence after the end is the end.
        """
        held = bool(self.sock.pending()) and self._listening()
        ready = self.selector.select(0 if held else 0.1 if self.ended else None)
        for key, _ in ready:
            key.data()
        if held:
            self._receive()
        return held or bool(ready) or not self.ended

    def _listening(self) -> bool:
        return self.sock.fileno() in self.selector.get_map()

    def _on(self, fd: int, events: int, act: Callable[[], None]) -> None:
        self.selector.register(fd, events, act)

    def _reading(self, fd: int, channel: int) -> Callable[[], None]:
        def read() -> None:
            try:
                data = os.read(fd, CHUNK)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.EIO:  # what a terminal says when its last user is gone
                    raise
                data = b""
            if data:
                if channel == STDOUT or self.wish.stderr:
                    self._send(channel, data)
                return
            self.selector.unregister(fd)
            del self.pipes.outputs[fd]
            if fd != self.pipes.stdin:
                os.close(fd)

        return read

    def _note_end(self) -> None:
        self.ended = True
        self.selector.unregister(self.process.fileno())

    def _receive(self) -> None:
        """Take what has come, until there is no more or the input has to wait."""
        while self._listening():
            try:
                data = self.sock.recv(CHUNK)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            except OSError:
                data = b""
            if not data:
                self.connected = False
                return
            self._feed(data)

    def _feed(self, data: bytes) -> None:
        try:
            frames = self.reader.feed(data)
        except websocket.ProtocolError:
            self.connected = False
            return
        for frame in frames:
            self._take(frame)

    def _take(self, frame: Frame) -> None:
        if frame.opcode == websocket.PING:
            self._write(websocket.encode(websocket.PONG, frame.payload))
        elif frame.opcode == websocket.CLOSING:
            self.connected = False
        elif frame.payload:
            self._take_channel(frame.payload[0], frame.payload[1:])

    def _take_channel(self, channel: int, data: bytes) -> None:
        if channel == STDIN and self.pipes.stdin is not None:
            self.pending += data
            self._push_input()
        elif channel == CLOSE and data[:1] == bytes((STDIN,)):
            self.input_over = True
            self._push_input()
        elif channel == RESIZE and self.pipes.tty:
            self._resize(data)

    def _push_input(self) -> None:
        fd = self.pipes.stdin
        if fd is None:
            return
        os.set_blocking(fd, False)
        try:
            while self.pending:
                del self.pending[: os.write(fd, self.pending[:CHUNK])]
        except BlockingIOError:
            pass
        except OSError:
            self.pending.clear()  # the process does not read any more
        self._watch_input(fd)
        if self.input_over and not self.pending and not self.pipes.tty:
            self._stop_watching(fd)
            os.close(fd)
            self.pipes.stdin = None

    def _watch_input(self, fd: int) -> None:
        """Wait for room while input is pending, and read no more of it than the buffer holds."""
        if not self.pipes.tty:
            watched = fd in self.selector.get_map()
            if self.pending and not watched:
                self._on(fd, selectors.EVENT_WRITE, self._push_input)
            elif watched and not self.pending:
                self.selector.unregister(fd)
        elif fd in self.selector.get_map():
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self.pending else 0)
            self.selector.modify(fd, events, self._both(fd) if self.pending else self._read_tty(fd))
        self._pause_client(len(self.pending) > INPUT_MAX)

    def _read_tty(self, fd: int) -> Callable[[], None]:
        return self._reading(fd, STDOUT)

    def _both(self, fd: int) -> Callable[[], None]:
        read = self._read_tty(fd)

        def act() -> None:
            read()
            if fd in self.pipes.outputs:
                self._push_input()

        return act

    def _pause_client(self, pause: bool) -> None:
        if pause and self._listening():
            self.selector.unregister(self.sock.fileno())
        elif not pause and not self._listening():
            self._on(self.sock.fileno(), selectors.EVENT_READ, self._receive)

    def _stop_watching(self, fd: int) -> None:
        if fd in self.selector.get_map():
            self.selector.unregister(fd)

    def _resize(self, data: bytes) -> None:
        try:
            size = json.loads(data)
            packed = struct.pack("HHHH", int(size["Height"]), int(size["Width"]), 0, 0)
        except (ValueError, KeyError, TypeError, struct.error):
            return
        if self.pipes.stdin is not None:
            with suppress(OSError):  # the terminal is gone
                fcntl.ioctl(self.pipes.stdin, termios.TIOCSWINSZ, packed)
        self.sized = True

    def _send(self, channel: int, data: bytes) -> None:
        self._write(websocket.message(channel, data))

    def _write(self, data: bytes) -> None:
        """Write all of ``data``; while the client does not read, the process waits too."""
        view = memoryview(data)
        while view and self.connected:
            try:
                view = view[self.sock.send(view) :]
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                self._await_writable()
            except OSError:
                self.connected = False

    def _await_writable(self) -> None:
        with selectors.DefaultSelector() as one:
            one.register(self.sock, selectors.EVENT_WRITE | selectors.EVENT_READ)
            if not one.select(60.0):
                self.connected = False

    def _finish(self) -> None:
        """Say how it ended, or end it because nobody is there any more."""
        if not self.ended:
            self.process.kill()
        exit_ = self.process.wait(10.0)
        if exit_ is not None and self.connected:
            self._end(status_of(exit_))

    def _end(self, status: dict[str, Any]) -> None:
        self._send(ERROR, json.dumps(status).encode())
        self._write(websocket.encode(websocket.CLOSING, struct.pack("!H", 1000)))
        self._linger()

    def _linger(self) -> None:
        """Read on until the client closes: with input left unread, the kernel would answer
        with a reset, and the Status might be lost on its way."""
        self.sock.settimeout(LINGER_SECONDS)
        with suppress(OSError):
            while self.sock.recv(CHUNK):
                pass

    def _close(self) -> None:
        self.selector.close()
        self.pipes.close_ours()
        self.process.close()
