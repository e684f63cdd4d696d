"""An HTTP server at the other end of a webhook: keeps what is posted to it."""

import http.server
import json
import threading


class Receiver:
    """`posts`: (path, JSON body) in the order in which they came. `address`: host:port."""

    def __init__(self):
        posts = self.posts = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                posts.append((self.path, json.loads(body)))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *unused):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://{self.address}/hook"

    @property
    def received(self):
        """The bodies alone."""
        return [body for _, body in self.posts]

    def close(self):
        self.server.shutdown()
        self.server.server_close()
