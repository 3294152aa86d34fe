"""A web server that takes events, with failures on demand, and rules that ask for events."""

import contextlib
import http.server
import json
import ssl
import threading
import time

CREATED = ["s3:ObjectCreated:*"]
ALL = ["s3:ObjectCreated:*", "s3:ObjectRemoved:*", "s3:LifecycleExpiration:*"]


class Target:
    """Records the events that it takes. `answer` decides the status of each request from its record."""

    def __init__(self, answer=lambda record: 204, tls=None, body_seconds=0):
        self.taken = []
        self.headers = []
        self.attempts = 0
        self.answer = answer
        target = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                (record,) = json.loads(body)["Records"]
                target.attempts += 1
                status = target.answer(record)
                if 200 <= status < 300:
                    target.taken.append(record)
                    target.headers.append({name.lower(): value for name, value in self.headers.items()})
                self.send_response(status)
                body = b"" if status == 204 else b"ok"
                if body:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                time.sleep(body_seconds)
                with contextlib.suppress(OSError):
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.server.server_port}/events?from=benthic"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def names(self):
        """The names and the keys of the events so far."""
        return [(record["eventName"], record["s3"]["object"]["key"]) for record in self.taken]


@contextlib.contextmanager
def running_target(*args, **named):
    target = Target(*args, **named)
    try:
        yield target
    finally:
        target.stop()


def wait_until(is_done, seconds=60):
    """Waits until a condition holds."""
    deadline = time.monotonic() + seconds
    while not is_done():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.05)


def rule(arn, events=ALL, **filters):
    rules = [{"Name": name, "Value": value} for name, value in filters.items()]
    return {"TopicArn": arn, "Events": events, **({"Filter": {"Key": {"FilterRules": rules}}} if rules else {})}


def notify(client, bucket, *rules):
    client.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={"TopicConfigurations": list(rules)})


def rules_of(client, bucket):
    found = client.get_bucket_notification_configuration(Bucket=bucket)
    return found.get("TopicConfigurations", [])


def status(gateway, bucket, *options):
    return gateway.run("events", "status", bucket, *options)


def waiting(gateway, bucket):
    return sum(found["waiting"] for found in status(gateway, bucket) if found["queue"])
