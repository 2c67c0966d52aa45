"""A server that says what it likes, whatever it is asked."""

from __future__ import annotations

import contextlib
import socket
import threading


class Hostile:
    """A server that answers each connection with these bytes, one each `pause` seconds."""

    def __init__(self, data, pause, host="127.0.0.1"):
        self._data, self._pause = data, pause
        self._socket = socket.create_server((host, 0))
        self.address = self._socket.getsockname()[:2]
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._serve)]
        self._threads[0].start()

    def _serve(self):
        self._socket.settimeout(0.02)
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                client, _ = self._socket.accept()
                thread = threading.Thread(target=self._drip, args=(client,))
                self._threads.append(thread)
                thread.start()

    def _drip(self, client):
        with client, contextlib.suppress(OSError):
            for byte in self._data:
                client.send(bytes([byte]))
                if self._over.wait(self._pause):
                    return
            self._over.wait()

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()

    def close(self):
        self._over.set()
        for thread in list(self._threads):
            thread.join()
        self._socket.close()
