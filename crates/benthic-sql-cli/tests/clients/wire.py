"""A small client of Postgres' protocol that can send invalid messages."""

import base64
import contextlib
import hashlib
import hmac
import socket
import struct


def message(kind, body=b""):
    return kind + struct.pack("!i", len(body) + 4) + body


def text(value):
    return value.encode() + b"\0"


class Wire:
    """A connection. `log_in` may be left out."""

    def __init__(self, server, timeout=20):
        self.server = server
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def finish(self):
        """Sends nothing more. The server may have closed the connection."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def read(self):
        """The next message: its kind and body. None at the end of the connection."""
        head = self.exactly(5)
        if head is None:
            return None
        return head[:1], self.exactly(struct.unpack("!i", head[1:])[0] - 4)

    def exactly(self, count):
        data = b""
        while len(data) < count:
            try:
                part = self.socket.recv(count - len(data))
            except ConnectionResetError:
                return None
            if not part:
                return None
            data += part
        return data

    def until(self, *kinds):
        """All messages up to one of these kinds, or the end."""
        found = []
        while (read := self.read()) is not None:
            found.append(read)
            if read[0] in kinds:
                break
        return found

    def start(self, version=3 << 16, **parameters):
        body = b"".join(text(name) + text(value) for name, value in parameters.items()) + b"\0"
        self.send(struct.pack("!ii", len(body) + 8, version) + body)

    def log_in(self, key=None, password=None):
        """Logs in with SCRAM-SHA-256, and reads until the server is ready, or an error."""
        user, secret = key or self.server.key
        self.start(user=user, database="benthic")
        assert self.read() == (b"R", struct.pack("!i", 10) + b"SCRAM-SHA-256\0\0")
        bare = "n=,r=abcdef"
        first = ("n,," + bare).encode()
        self.send(message(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first))
        kind, body = self.read()
        assert kind == b"R", body
        challenge = body[4:].decode()
        fields = dict(field.split("=", 1) for field in challenge.split(","))
        salt, rounds = base64.b64decode(fields["s"]), int(fields["i"])
        salted = hashlib.pbkdf2_hmac("sha256", (password or secret).encode(), salt, rounds)

        def sign(key, what):
            return hmac.new(key, what, "sha256").digest()

        client_key = sign(salted, b"Client Key")
        unproved = f"c=biws,r={fields['r']}"
        signed = f"{bare},{challenge},{unproved}".encode()
        proof = bytes(a ^ b for a, b in zip(client_key, sign(hashlib.sha256(client_key).digest(), signed)))
        self.send(message(b"p", f"{unproved},p={base64.b64encode(proof).decode()}".encode()))
        return self.until(b"Z", b"E")

    def query(self, sql):
        self.send(message(b"Q", text(sql)))
        return self.until(b"Z")


def fields(body):
    """The fields of an error."""
    return {part[:1].decode(): part[1:].decode() for part in body.rstrip(b"\0").split(b"\0")}


def errors(messages):
    return [fields(body) for kind, body in messages if kind == b"E"]
