# SPDX-License-Identifier: Apache-2.0
"""A real ZooKeeper for a test: one node, or an ensemble of three.

    zookeeper = Standalone().start()            # about half a second
    self.addCleanup(zookeeper.close)            # or: with Standalone().start() as zookeeper:
    server = self.launch("--zookeeper", zookeeper.connect_string, "--datacenter-id", 1,
                         "--create-registry")
    zookeeper.kill(); zookeeper.restart()       # same data, same port

    ensemble = Ensemble().start()               # about two seconds
    ensemble.leader().kill()
    ensemble.wait_serving()

    zookeeper = Secure(authority, pair, pair_of_client).start()     # one node, with TLS alone

A node can be stopped (SIGTERM), killed (SIGKILL), paused (SIGSTOP), resumed and restarted. Its data
and its log are files in a temporary directory, which close() removes together with the processes;
the end of the interpreter also closes it. If a start fails, the exception contains the log.
back_up() copies a node's data, and restore() replaces them with a copy. ZooKeeper's tick is 200 ms
here, so that it grants session timeouts from 400 ms on.

Debian packages: zookeeper, default-jre-headless, libslf4j-java; python3-kazoo for client().
"""
import atexit
import logging
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile

from harness import HANG_GUARD_S, forget_faketime, wait_for

JAVA = ["java", "-Xmx48m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
        "-Dorg.slf4j.simpleLogger.showThreadName=false",
        "-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.server.NIOServerCnxn=warn",
        "-Dorg.slf4j.simpleLogger.showShortLogName=true"]
# netty's jars for TLS, some of which zookeeper.jar itself names.
CLASS_PATH = [pathlib.Path("/usr/share/java") / name
              for name in ("zookeeper.jar", "slf4j-simple.jar", "netty-codec.jar",
                           "netty-resolver.jar")]
MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
# A loopback address that only this process uses: no other test can take a port that a server has
# left for a moment.
HOST = f"127.{64 | os.getpid() >> 16}.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
TICK_MS = 200
START_ATTEMPTS = 5
LOG_SHOWN_CHARACTERS = 4000
MEMORY = "version-2"  # directory in a node's data, next to the node's number
START_MARK = "---- started\n"

_chance = random.SystemRandom()


def free_port():
    """Returns a port of HOST that no process has bound. It is below the ports that the kernel
    assigns to outgoing connections, so that a process gets it again after a restart."""
    while True:
        port = _chance.randrange(12000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        return port


def client(connect_string, timeout=10, **settings):
    """Returns a connected kazoo client. The caller ends it: stop(), then close()."""
    from kazoo.client import KazooClient  # only some tests need it

    logging.getLogger("kazoo").addHandler(logging.NullHandler())
    # by default, it waits for up to a minute before it tries to connect again
    made = KazooClient(hosts=connect_string, timeout=timeout,
                       connection_retry={"max_tries": -1, "delay": 0.1, "max_delay": 1},
                       **settings)
    made.start(timeout=HANG_GUARD_S)
    return made


class Node:
    """A ZooKeeper node, which a test can restart. `client_port`: its port; `data`: the directory of
    its snapshots and logs; `log_path`: its log. `context`: for clients, if it uses TLS."""

    def __init__(self, directory, client_port, config, environment=None, context=None):
        self.data = directory / "data"
        self.log_path = directory / "log"
        self.client_port = client_port
        self.config_path = directory / "zoo.cfg"
        self.environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", **(environment or {})}
        self.context = context
        self.process = None
        self.paused = False
        self.data.mkdir(parents=True, exist_ok=True)
        self.configure(config)

    def configure(self, config):
        self.config_path.write_text("".join(f"{key}={value}\n" for key, value in config.items()))

    @property
    def address(self):
        return f"{HOST}:{self.client_port}"

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None

    @property
    def log(self):
        """Returns the log since the last start, or its end if it is long."""
        return self._log()[-LOG_SHOWN_CHARACTERS:]

    def _log(self):
        return self.log_path.read_text(errors="replace").rpartition(START_MARK)[2]

    def launch(self):
        """Starts the process without waiting for it."""
        if self.running:
            raise AssertionError(f"the node on port {self.client_port} is running already")
        self.paused = False
        with open(self.log_path, "ab") as log:
            log.write(START_MARK.encode())
            log.flush()
            self.process = subprocess.Popen(
                [*JAVA, "-cp", ":".join(map(str, CLASS_PATH)), MAIN_CLASS, str(self.config_path)],
                env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=self.data)

    def lost_its_port(self):
        """Whether the process failed because another one had taken its port."""
        return "Address already in use" in self._log()

    def _connect(self, timeout):
        connection = socket.create_connection((HOST, self.client_port), timeout)
        return self.context.wrap_socket(connection) if self.context else connection

    def four_letter_word(self, word, timeout=1):
        """Returns the answer to an admin word such as "srvr", or "" if there is none."""
        try:
            with self._connect(timeout) as connection:
                connection.sendall(word.encode())
                answer = b""
                while data := connection.recv(1 << 16):
                    answer += data
                return answer.decode(errors="replace")
        except OSError:
            return ""

    def status(self):
        """Returns the fields of "srvr" by name ("Mode", "Zxid", ...); {} while the node does not
        serve."""
        if not self.running or self.paused:
            return {}
        pairs = (line.split(": ", 1) for line in self.four_letter_word("srvr").splitlines())
        status = dict(pair for pair in pairs if len(pair) == 2)
        return status if "Mode" in status else {}

    def mode(self):
        """Returns "standalone", "leader" or "follower"; None while the node does not serve."""
        return self.status().get("Mode")

    def wait_serving(self):
        def look():
            if not self.running:
                raise AssertionError(f"ZooKeeper ended with status {self.process.returncode}")
            return self.mode()

        try:
            return wait_for(look, f"ZooKeeper on port {self.client_port} to serve")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log}") from None

    def restart(self):
        """Restarts a stopped or killed node with its data and port, and waits until it serves."""
        self.launch()
        self.wait_serving()
        return self

    def stop(self):
        """Stops the node in order."""
        self._end(signal.SIGTERM)

    def kill(self):
        self._end(signal.SIGKILL)

    def _end(self, number):
        if not self.running:
            return
        self.process.send_signal(number)
        if self.paused:
            self.resume()
        self.process.wait(HANG_GUARD_S)
        forget_faketime(self.process.pid)

    def pause(self):
        """Stops the process (SIGSTOP): its connections stay open, but it does not answer."""
        self.process.send_signal(signal.SIGSTOP)
        self.paused = True

    def resume(self):
        self.process.send_signal(signal.SIGCONT)
        self.paused = False

    def back_up(self, directory):
        """Copies the current snapshots and logs of a running or stopped node."""
        shutil.copytree(self.data / MEMORY, directory)

    def restore(self, directory):
        """Replaces the data with the copy, while the node does not run."""
        shutil.rmtree(self.data / MEMORY, ignore_errors=True)
        shutil.copytree(directory, self.data / MEMORY)


class _Owner:
    """A directory with nodes, which ends with its owner. `config` adds lines to zoo.cfg or replaces
    them; `environment`: the JVM's environment."""

    def __init__(self, config=None, environment=None):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="snowflake-zookeeper-"))
        self.nodes = []
        self._extra = config or {}
        self._environment = environment
        atexit.register(self.close)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Kills all processes and removes the directory. Can be called twice."""
        atexit.unregister(self.close)
        for node in self.nodes:
            node.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def client(self, timeout=10):
        return client(self.connect_string, timeout)

    @property
    def connect_string(self):
        """Returns the value of --zookeeper, without a chroot."""
        return ",".join(node.address for node in self.nodes)

    def _config(self, node_directory, **more):
        return {"tickTime": TICK_MS, "maxSessionTimeout": 600000,
                "dataDir": node_directory / "data", "preAllocSize": 1024, "maxClientCnxns": 0,
                "admin.enableServer": "false", "4lw.commands.whitelist": "*",
                **more, **self._extra}

    def start(self):
        """Starts on free ports and waits until it serves. If another program takes a port before it
        is used, tries other ports."""
        for _ in range(START_ATTEMPTS):
            self._make_nodes()
            for node in self.nodes:
                node.launch()
            try:
                self.wait_serving()
                return self
            except AssertionError:
                lost = [node for node in self.nodes if node.lost_its_port()]
                for node in self.nodes:
                    node.kill()
                if not lost:
                    self.close()
                    raise
        self.close()
        raise AssertionError(f"no free ports for ZooKeeper in {START_ATTEMPTS} attempts")


class Standalone(_Owner):
    """One node."""

    def _make_nodes(self):
        directory = self.directory / "node"
        shutil.rmtree(directory, ignore_errors=True)
        port = free_port()
        config = self._config(directory, clientPort=port, clientPortAddress=HOST)
        self.nodes = [Node(directory, port, config, self._environment)]

    @property
    def node(self):
        return self.nodes[0]

    @property
    def data(self):
        return self.node.data

    def wait_serving(self):
        self.node.wait_serving()
        return self

    def stop(self):
        self.node.stop()

    def kill(self):
        self.node.kill()

    def pause(self):
        self.node.pause()

    def resume(self):
        self.node.resume()

    def restart(self):
        """Restarts with the same data and port, after a stop() or kill()."""
        self.node.restart()
        return self


class Secure(Standalone):
    """One node that only accepts TLS, with the certificate `pair`, from clients with a certificate
    that `authority` signed, such as the test's `own_pair`."""

    def __init__(self, authority, pair, own_pair, **settings):
        super().__init__(**settings)
        self.authority = authority
        self.own_pair = own_pair
        store = self.directory / "store.pem"  # ZooKeeper requires both in one file
        store.write_text(pair.key.read_text() + pair.certificate.read_text())
        self._extra = {
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.keyStore.location": store, "ssl.keyStore.type": "PEM",
            "ssl.trustStore.location": authority.certificate, "ssl.trustStore.type": "PEM",
            **self._extra}

    def _make_nodes(self):
        directory = self.directory / "node"
        shutil.rmtree(directory, ignore_errors=True)
        port = free_port()
        config = self._config(directory, secureClientPort=port, secureClientPortAddress=HOST)
        context = self.authority.context(self.own_pair)
        context.check_hostname = False  # clients connect to its IP address
        self.nodes = [Node(directory, port, config, self._environment, context)]

    def client(self, timeout=10):
        return client(self.connect_string, timeout, use_ssl=True,
                      ca=str(self.authority.certificate),
                      certfile=str(self.own_pair.certificate), keyfile=str(self.own_pair.key))


class Ensemble(_Owner):
    """Three nodes, `nodes`. It serves while two of them do."""
    SIZE = 3

    def _make_nodes(self):
        ports = [[free_port() for _ in range(3)] for _ in range(self.SIZE)]
        members = {f"server.{index}": f"{HOST}:{peer}:{election}:participant;{HOST}:{clients}"
                   for index, (peer, election, clients) in enumerate(ports, 1)}
        self.nodes = []
        for index, (_, _, clients) in enumerate(ports, 1):
            directory = self.directory / f"node-{index}"
            shutil.rmtree(directory, ignore_errors=True)
            config = self._config(directory, standaloneEnabled="false", initLimit=25, syncLimit=10,
                                  quorumListenOnAllIPs="false", **members)
            node = Node(directory, clients, config, self._environment)
            (node.data / "myid").write_text(f"{index}\n")
            self.nodes.append(node)

    def wait_serving(self, all_nodes=True):
        """Waits until every running node is in the quorum, or, if not `all_nodes`, until one of
        them leads."""
        if all_nodes:
            for node in self.nodes:
                if node.running and not node.paused:
                    node.wait_serving()
        self.wait_leader()
        return self

    def leader(self):
        """Returns the leader, or None while there is none. After a pause, an old leader considers
        itself leader for some time, so the latest epoch counts."""
        leaders = [(int(status["Zxid"], 16), node) for node in self.nodes
                   if (status := node.status()).get("Mode") == "leader"]
        return max(leaders, key=lambda pair: pair[0])[1] if leaders else None

    def restore(self, directory):
        """Kills all nodes, and starts them with the copy of one of them, on the same ports."""
        for node in self.nodes:
            node.kill()
        for node in self.nodes:
            node.restore(directory)
            node.launch()
        return self.wait_serving()

    def wait_leader(self):
        return wait_for(self.leader, "ZooKeeper to have a leader")
