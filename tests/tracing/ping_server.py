"""A server that pings are sent to, which does what the path says; and what it was asked."""

from __future__ import annotations

import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

PATIENCE_SECONDS = 10.0


class Asked(NamedTuple):
    method: str
    path: str
    text: str
    agent: str


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        length = int(self.headers.get("Content-Length", 0))
        text = self.rfile.read(length).decode()
        asked = Asked(self.command, self.path, text, self.headers["User-Agent"])
        with self.server.changed:
            self.server.asked.append(asked)
            answer = self.server.script.pop(0) if self.server.script else 200
            self.server.changed.notify_all()
        getattr(self, f"answer_{answer}", lambda: self.answer(answer))()

    do_POST = do_GET  # noqa: N815 - as the base calls it

    def answer(self, code, **headers):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def answer_slow(self):
        self.server.let_go.wait(PATIENCE_SECONDS)

    def answer_trickle(self):
        """Send a byte of the headers now and then, for as long as somebody listens."""
        try:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            until = time.monotonic() + PATIENCE_SECONDS
            while time.monotonic() < until and not self.server.let_go.wait(0.02):
                self.wfile.write(b"x")
        except OSError:
            pass

    def answer_garbage(self):
        self.wfile.write(b"\x00\xffnothing of the kind\r\n\r\n")
        self.close_connection = True

    def answer_moved(self):
        self.answer(301, Location=f"{self.server.url}/moved")

    def answer_kept(self):
        self.answer(307, Location=f"{self.server.url}/kept")

    def answer_round(self):
        self.server.script.insert(0, "round")
        self.answer(302, Location=self.path)

    def answer_onward(self):
        self.server.script.insert(0, "onward")
        self.answer(302, Location=f"{self.path}/on")

    def answer_file(self):
        self.answer(302, Location="file:///etc/hostname")

    def answer_ftp(self):
        self.answer(302, Location="ftp://127.0.0.1/x")


class Server(ThreadingHTTPServer):
    """Answers 200 to everything, unless `script` has something else for the next requests."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.asked = []
        self.script = []
        self.let_go = threading.Event()
        self.changed = threading.Condition()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def wait_for(self, count):
        """Wait until so many requests have come, and return them."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.asked) >= count, PATIENCE_SECONDS)
            return list(self.asked)

    def handle_error(self, *_):
        pass  # whoever asked has gone

    def end(self):
        self.let_go.set()
        self.shutdown()
        self.server_close()
        self._thread.join()


def closed_port():
    """Return the address of a port where nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{held.getsockname()[1]}"
