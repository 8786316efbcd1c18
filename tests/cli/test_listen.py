#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server of metrics, among clients that mean it no good. GPUPOOL_COMMAND is the command."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import threading
import time
import unittest
import urllib.request

COMMAND = os.environ["GPUPOOL_COMMAND"]


class Listen(unittest.TestCase):
    def setUp(self):
        self.server = subprocess.Popen(
            [COMMAND, "top", "--prometheus", "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True
        )
        self.addCleanup(self.server.stderr.close)
        self.addCleanup(self.server.wait)
        self.addCleanup(self.server.kill)
        self.port = int(re.search(r"port (\d+)", self.server.stderr.readline()).group(1))

    def connect(self):
        client = socket.create_connection(("127.0.0.1", self.port))
        self.addCleanup(client.close)
        client.settimeout(30)
        return client

    def scrape(self):
        """How long it takes."""
        begin = time.monotonic()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30) as answer:
            self.assertIn("# TYPE gpupool_live_bytes gauge\n", answer.read().decode())
        return time.monotonic() - begin

    def drip(self, client, piece=b"G", until=None):
        """Sends a byte now and then, for ever. Returns after how long the server has had enough."""
        begin = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while until is None or not until.is_set():
                client.send(piece)
                time.sleep(0.2)
        return time.monotonic() - begin

    def test_slow_clients_hold_nobody_up(self):
        done = threading.Event()
        threads = [
            threading.Thread(target=self.drip, args=(self.connect(),), kwargs={"until": done}) for _ in range(100)
        ]
        for thread in threads:
            thread.start()
        silent = [self.connect() for _ in range(10)]
        self.assertLess(max(self.scrape() for _ in range(5)), 4)
        done.set()
        for thread in threads:
            thread.join()
        self.assertEqual(len(silent), 10)

    def test_a_client_has_its_time_for_all_of_its_request(self):
        self.assertLess(self.drip(self.connect()), 20)

    def test_a_client_that_does_not_read_holds_nobody_up(self):
        deaf = self.connect()
        deaf.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        self.assertLess(self.scrape(), 4)
        self.assertTrue(deaf.recv(1 << 20).startswith(b"HTTP/1.1 200 OK\r\n"))

    def test_requests_that_are_none(self):
        for request, status in (
            (b"GET / HTTP/1.1\r\n\r\n", b"404"), (b"POST /metrics HTTP/1.1\r\n\r\n", b"404"), (b"\0" * 8192, b"404"),
            (b"GET /metrics HTTP/1.1\r\n" + b"x" * 8192, b"200"), (b"\r\n\r\n", b"404"),
        ):  # fmt: skip
            client = self.connect()
            client.sendall(request)
            self.assertEqual(client.recv(1 << 16).split()[1], status, request[:30])
        self.assertLess(self.scrape(), 4)

    def test_it_ends_while_a_client_is_there(self):
        for _ in range(2):
            self.connect().send(b"GET /met")
        self.scrape()
        self.server.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.wait(3), 0)


if __name__ == "__main__":
    unittest.main()
