"""A program that dies, waits and resumes as a TensorFlow job does, over plain sockets at TF_CONFIG's addresses.

    mimic.py [--steps N] [--step-time S] [--every N] [--save-time S] [--gate STEP:FILE]...
             [--forget-restore] [--checkpoint-in-place]

With parameter servers: the chief has a worker do each step, and every ps add one to its variable. A worker that dies is
done without, and used again when it is back; one that is frozen is waited for; a ps that dies takes the chief with it,
and has lost its variable. Without: all workers meet at worker:0 for each step, and all die when one does.
Checkpoints are written aside and renamed; a damaged one is skipped. The accuracy is the share of the steps that are in
the variables at the end. A step with a gate waits for its file. `--forget-restore` and `--checkpoint-in-place` are
planted bugs.
"""

import argparse
import hashlib
import json
import os
import select
import socket
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--step-time", type=float, default=0.01)
parser.add_argument("--every", type=int, default=20)
parser.add_argument("--save-time", type=float, default=0.02, help="from the first byte of a checkpoint to the last")
parser.add_argument("--heartbeat", type=float, default=5.0, help="of silence, and a gang gives up a peer")
parser.add_argument("--gate", action="append", default=[], help="STEP:FILE: the step begins once the file is there")
parser.add_argument("--forget-restore", action="store_true")
parser.add_argument("--checkpoint-in-place", action="store_true")
options = parser.parse_args()
gates = {int(step): Path(file) for step, _, file in (gate.partition(":") for gate in options.gate)}

task, attempt = os.environ["CLUSTERKIT_TASK"], int(os.environ["CLUSTERKIT_ATTEMPT"])
kind, index = task.split(":")
config = json.loads(os.environ.get("TF_CONFIG", "{}"))
cluster, index = config.get("cluster", {}), config.get("task", {}).get("index", index)
saved = Path(os.environ["CLUSTERKIT_CHECKPOINT_DIR"])
progress = os.open(os.environ["CLUSTERKIT_PROGRESS"], os.O_WRONLY | os.O_NONBLOCK)


class UnavailableError(Exception):
    """As TensorFlow names it."""


def send(**message):
    os.write(progress, json.dumps({"attempt": attempt, **message}).encode() + b"\n")


def address(kind, index):
    host, _, port = cluster[kind][index].rpartition(":")
    return host.strip("[]"), int(port)


def listen():
    host, port = address(kind, int(index))
    server = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(("", port))
    server.listen(64)
    return server


def connect(place, patience):
    """A connection, tried again and again for so many seconds; None where there is none."""
    until = time.monotonic() + patience
    while True:
        try:
            peer = socket.create_connection(place, timeout=1)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.settimeout(None)
            return peer
        except OSError:
            if time.monotonic() >= until:
                return None
            time.sleep(0.02)


def tell(peer, **message):
    peer.sendall(json.dumps(message).encode() + b"\n")


def hear(peer, name):
    """The next message. Raises UnavailableError where the peer is gone."""
    data = b""
    try:
        while not data.endswith(b"\n"):
            if not (chunk := peer.recv(4096)):
                raise ConnectionResetError
            data += chunk
    except OSError as error:
        raise UnavailableError(f"{name}: {type(error).__name__}") from None
    return json.loads(data)


def serve():
    """Be a ps or its worker: answer until ended."""
    server, peers, value = listen(), [], None
    send(kind="ready")
    while True:
        for ready in select.select([server, *peers], [], [])[0]:
            if ready is server:
                peers.append(server.accept()[0])
                continue
            try:
                message = hear(ready, "the chief")
                if message["do"] == "step":
                    time.sleep(options.step_time)
                elif message["do"] == "set":
                    value = message["value"]
                elif message["do"] == "add":
                    value += 1
                tell(ready, value=value)
            except (UnavailableError, OSError):
                peers.remove(ready)
                ready.close()


def save(step):
    text = f"{json.dumps({'step': step})} {'x' * 4096}"
    text += hashlib.sha256(text.encode()).hexdigest()
    path = saved / ("model.ckpt" if options.checkpoint_in_place else f"model-{step:06}.ckpt")
    part = path if options.checkpoint_in_place else path.with_name(".model.part")
    with part.open("w") as file:
        file.write(text[:1000])
        file.flush()
        time.sleep(options.save_time)
        file.write(text[1000:])
    part.replace(path)
    for old in sorted(saved.glob("model-*.ckpt"))[:-3]:
        old.unlink()
    send(kind="checkpoint", step=step, path=str(path))


def restore():
    """The step of the newest intact checkpoint."""
    for path in sorted(saved.glob("model*.ckpt"), reverse=True):
        if options.forget_restore:
            return 0
        text = path.read_text(errors="replace")
        if hashlib.sha256(text[:-64].encode(errors="replace")).hexdigest() == text[-64:]:
            step = json.loads(text.partition(" x")[0])["step"]
            send(kind="resumed", step=step, path=str(path))
            return step
        if options.checkpoint_in_place:
            raise ValueError(f"{path} can't be read")
        print(f"skipped {path}", flush=True)
    if not options.forget_restore:
        send(kind="resumed", step=0, path=None)
    return 0


def await_gate(step):
    while step in gates and not gates[step].exists():
        time.sleep(0.01)


def report(step, **metrics):
    send(kind="progress", step=step, metrics={"loss": 1 / step, **metrics})


class Workers:
    """The workers of a parameter-server job, as its coordinator uses them."""

    def __init__(self):
        self.peers = [None] * len(cluster["worker"])
        self.turn = 0

    def step(self):
        while True:
            self.turn = (self.turn + 1) % len(self.peers)
            peer = self.peers[self.turn] = self.peers[self.turn] or connect(address("worker", self.turn), 0)
            if peer is None:
                time.sleep(0.005)
                continue
            try:
                tell(peer, do="step")
                return hear(peer, f"worker:{self.turn}")
            except (UnavailableError, OSError):
                print(f"worker:{self.turn} is gone; another one does its step", flush=True)
                peer.close()
                self.peers[self.turn] = None


def coordinate():
    servers = [connect(address("ps", n), 60) for n in range(len(cluster["ps"]))]
    first = restore()
    value = first
    for n, peer in enumerate(servers):
        ask(peer, n, do="set", value=first)
    workers = Workers()
    for step in range(first + 1, options.steps + 1):
        await_gate(step)
        workers.step()
        for n, peer in enumerate(servers):
            value = ask(peer, n, do="add")["value"]
        report(step)
        if step % options.every == 0:
            save(step)
    report(options.steps, accuracy=value / options.steps)


def ask(peer, n, **message):
    try:
        tell(peer, **message)
    except OSError as error:
        raise UnavailableError(f"ps:{n}: {type(error).__name__}") from None
    return hear(peer, f"ps:{n}")


def gang():
    """All workers in step: they meet at worker:0, which tells them to go on."""
    size, mine = len(cluster["worker"]), int(index)
    server = listen()
    if mine == 0:
        peers = [server.accept()[0] for _ in range(size - 1)]
    else:
        peers = [connect(address("worker", 0), 60)]
    for peer in peers:
        peer.settimeout(options.heartbeat)
    if mine == 0:  # the leader chooses, and all follow
        first = restore()
        for peer in peers:
            tell_peer(peer, first)
    else:
        first = hear(peers[0], "worker:0")["step"]
        if not options.forget_restore:
            send(kind="resumed", step=first, path=str(saved) if first else None)
    value = first
    for step in range(first + 1, options.steps + 1):
        await_gate(step)
        time.sleep(options.step_time)
        if mine == 0:
            for n, peer in enumerate(peers):
                hear(peer, f"a worker ({n})")
            for peer in peers:
                tell_peer(peer, step)
        else:
            tell_peer(peers[0], step)
            hear(peers[0], "worker:0")
        value += 1
        report(step)
        if mine == 0 and step % options.every == 0:
            save(step)
    report(options.steps, accuracy=value / options.steps)


def tell_peer(peer, step):
    try:
        tell(peer, step=step)
    except OSError as error:
        raise UnavailableError(f"a peer: {type(error).__name__}") from None


def alone():
    first = restore()
    for step in range(first + 1, options.steps + 1):
        await_gate(step)
        time.sleep(options.step_time)
        report(step)
        if step % options.every == 0:
            save(step)
    report(options.steps, accuracy=1.0)


if kind == "evaluator":
    sys.exit(0)
if "ps" in cluster:
    coordinate() if kind == "chief" else serve()
elif sum(map(len, cluster.values())) > 1:
    gang()
else:
    alone()
print(f"{task} is done", flush=True)
