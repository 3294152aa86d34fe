"""Runs RabbitMQ and Kafka for tests: each in its own directory, on free ports, without a system service."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

import pytest
from gateway import PROGRAMS, free_port

RABBIT = PROGRAMS.parent / "rabbitmq/usr/lib/rabbitmq/bin/rabbitmq-server"
# The class path of Kafka; `make kafka-packages` fills it.
KAFKA = PROGRAMS.parent / "kafka"

needs_rabbit = pytest.mark.skipif(not RABBIT.exists(), reason="RabbitMQ is missing; `make rabbit-packages` installs it")


def wait_for_port(port, process, log, seconds=240):
    """Waits until a server accepts connections."""
    deadline = time.monotonic() + seconds
    while True:
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


class Rabbit:
    """A node of RabbitMQ with the user `gateway` and the password `secret`."""

    def __init__(self, dir, tls=None):
        self.dir = dir
        self.port, self.tls_port, distribution, self.epmd_port = (free_port() for _ in range(4))
        self.url = f"amqp://127.0.0.1:{self.port}"
        self.tls_url = f"amqps://127.0.0.1:{self.tls_port}"
        lines = [f"listeners.tcp.default = 127.0.0.1:{self.port}", "default_user = gateway", "default_pass = secret"]
        lines += ["log.console = false"]
        if tls:
            certificate, key = tls
            lines += [f"listeners.ssl.default = 127.0.0.1:{self.tls_port}", "ssl_options.verify = verify_none"]
            lines += [f"ssl_options.cacertfile = {certificate}", f"ssl_options.certfile = {certificate}"]
            lines += [f"ssl_options.keyfile = {key}", "ssl_options.fail_if_no_peer_cert = false"]
        (dir / "rabbitmq.conf").write_text("\n".join(lines) + "\n")
        self.environment = {
            "PATH": os.environ["PATH"],
            # For the cookie.
            "HOME": str(dir),
            "ERL_EPMD_PORT": str(self.epmd_port),
            "RABBITMQ_NODENAME": f"rabbit-{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_CONFIG_FILE": str(dir / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_MNESIA_BASE": str(dir / "mnesia"),
            "RABBITMQ_LOG_BASE": str(dir / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(dir / "plugins"),
            "RABBITMQ_PID_FILE": str(dir / "pid"),
        }
        self.log = dir / "out.log"
        self.node = None
        # Otherwise the node starts this daemon, which outlives it.
        self.epmd = subprocess.Popen(["epmd", "-port", str(self.epmd_port)], stderr=subprocess.DEVNULL)

    def start(self):
        with open(self.log, "a") as log:
            # In a process group of its own, which `kill` ends.
            self.node = subprocess.Popen([RABBIT], env=self.environment, stdout=log, stderr=log, start_new_session=True)
        wait_for_port(self.port, self.node, self.log)
        return self

    def kill(self):
        """Ends the node as a crash does."""
        if self.node:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.node.pid, signal.SIGKILL)
            self.node.wait(30)
            self.node = None

    def stop(self):
        self.kill()
        self.epmd.kill()
        self.epmd.wait(30)

    @contextlib.contextmanager
    def channel(self):
        """A channel of another client."""
        import pika

        login = pika.PlainCredentials("gateway", "secret")
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port, credentials=login))
        try:
            yield connection.channel()
        finally:
            connection.close()

    def declare(self, queue, **options):
        with self.channel() as channel:
            channel.queue_declare(queue, durable=True, **options)

    def length(self, queue):
        """The messages of a queue."""
        with self.channel() as channel:
            return channel.queue_declare(queue, passive=True).method.message_count

    def connections(self):
        """The connections of gateways."""
        command = [RABBIT.with_name("rabbitmqctl"), "-n", self.environment["RABBITMQ_NODENAME"], "--silent"]
        command += ["list_connections", "client_properties"]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.count("benthic-s3")

    def take(self, queue):
        """Takes all messages of a queue: their properties and bodies."""
        messages = []
        with self.channel() as channel:
            while True:
                found, properties, body = channel.basic_get(queue, auto_ack=True)
                if found is None:
                    return messages
                messages.append((properties, json.loads(body)))


@contextlib.contextmanager
def running_rabbit(dir, tls=None):
    rabbit = Rabbit(dir, tls)
    try:
        yield rabbit.start()
    finally:
        rabbit.stop()


class Kafka:
    """A broker of Kafka, which is its own controller. It has listeners without a login, with SASL, and
    with SASL over TLS, and the user `gateway` with the password `secret`.
    """

    def __init__(self, dir, tls):
        self.dir = dir
        self.port, self.sasl_port, self.tls_port, controller = (free_port() for _ in range(4))
        self.address, self.sasl_address, self.tls_address = (
            f"127.0.0.1:{port}" for port in [self.port, self.sasl_port, self.tls_port]
        )
        certificate, key = (pathlib.Path(path).read_text() for path in tls)
        (dir / "broker.pem").write_text(key + certificate)
        listeners = [
            f"OPEN://{self.address}",
            f"LOGIN://{self.sasl_address}",
            f"TLS://{self.tls_address}",
        ]
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule required user_gateway=\"secret\";"
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        lines = [
            "process.roles=broker,controller",
            "node.id=1",
            f"controller.quorum.bootstrap.servers=127.0.0.1:{controller}",
            "controller.listener.names=CONTROLLER",
            f"listeners={','.join(listeners)},CONTROLLER://127.0.0.1:{controller}",
            f"advertised.listeners={','.join(listeners)}",
            "listener.security.protocol.map=OPEN:PLAINTEXT,LOGIN:SASL_PLAINTEXT,TLS:SASL_SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name=OPEN",
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "ssl.keystore.type=PEM",
            f"ssl.keystore.location={dir}/broker.pem",
            f"log.dirs={dir}/data",
            "offsets.topic.replication.factor=1",
            "transaction.state.log.replication.factor=1",
            "transaction.state.log.min.isr=1",
            "auto.create.topics.enable=false",
            "group.initial.rebalance.delay.ms=0",
        ]
        for listener in ["login", "tls"]:
            lines.append(f"listener.name.{listener}.plain.sasl.jaas.config={plain}")
            lines += [f"listener.name.{listener}.scram-sha-{bits}.sasl.jaas.config={scram}" for bits in [256, 512]]
        self.properties = dir / "server.properties"
        self.properties.write_text("\n".join(lines) + "\n")
        self.log = dir / "out.log"
        self.process = None
        format = ["kafka.tools.StorageTool", "format", "--standalone", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", self.properties]
        for bits in [256, 512]:
            format += ["--add-scram", f"SCRAM-SHA-{bits}=[name=gateway,password=secret]"]
        done = subprocess.run(self.java(*format), capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr

    def java(self, *command):
        # Without options for servers, the virtual machine would take a quarter of the memory.
        return ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{KAFKA}/*", *map(str, command)]

    def start(self):
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(self.java("kafka.Kafka", self.properties), stdout=log, stderr=log)
        wait_for_port(self.port, self.process, self.log)
        return self

    def kill(self):
        """Ends the broker as a crash does."""
        if self.process:
            self.process.kill()
            self.process.wait(30)
            self.process = None

    def create_topic(self, name, partitions, **settings):
        from kafka.admin import KafkaAdminClient, NewTopic

        admin = KafkaAdminClient(bootstrap_servers=self.address)
        try:
            admin.create_topics([NewTopic(name, partitions, 1, topic_configs=settings)])
        finally:
            admin.close()

    def take(self, topic):
        """All records of a topic, by partition: their keys and messages."""
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(bootstrap_servers=self.address, auto_offset_reset="earliest", enable_auto_commit=False)
        try:
            places = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or []]
            records = {place.partition: [] for place in places}
            consumer.assign(places)
            ends = consumer.end_offsets(places)
            while any(consumer.position(place) < ends[place] for place in places):
                for place, found in consumer.poll(500).items():
                    records[place.partition] += [(record.key.decode(), json.loads(record.value)) for record in found]
            return records
        finally:
            consumer.close()


@contextlib.contextmanager
def running_kafka(dir, tls):
    assert shutil.which("java") and KAFKA.is_dir(), "Kafka is missing; `make kafka-packages` installs it"
    kafka = Kafka(dir, tls)
    try:
        yield kafka.start()
    finally:
        kafka.kill()
