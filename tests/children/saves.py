"""Saves checkpoints in the background, in forks of this process: `saves.py DIRECTORY SEED KILLS`.

Each fork but the last ones restores the newest checkpoint, checks it, saves one after the other, and is killed at a
random moment. The last ones end in other ways. What came of all is printed in one line of JSON.
"""

import json
import os
import random
import resource
import signal
import sys
import time
import traceback

import tensorflow as tf

from clusterkit import training
from clusterkit.training import checkpoint_store, progress

directory, seed, kills = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
chance = random.Random(seed)
FULL = 5  # exit code of a fork that was told that its checkpoint failed


def make(step=0):
    """Two variables that always have the same value, and the directory's checkpointer."""
    one, many = tf.Variable(step, dtype=tf.int64), tf.Variable(tf.fill((20_000,), float(step)))
    return one, many, training.Checkpointer(directory, one=one, many=many)


def restored(one, many, checkpointer):
    """The step that was restored, if all values are of it."""
    step = checkpointer.restore()
    assert int(one.numpy()) == step, (int(one.numpy()), step)
    assert bool((many.numpy() == step).all()), (step, many.numpy())
    return step


def told_by(pipe):
    """A `send` that writes the steps of complete checkpoints to a pipe."""

    def send(channel, kind, **fields):
        if kind == "checkpoint":
            os.write(pipe, b"%d\n" % fields["step"])

    return send


def advance(one, many, by=1):
    one.assign_add(by)
    many.assign_add(tf.fill(many.shape, float(by)))


def save_for_ever(pipe):
    progress.ProgressChannel.send = told_by(pipe)
    one, many, checkpointer = make()
    step = restored(one, many, checkpointer)
    os.write(pipe, b"ready\n")
    while True:
        step += 1
        advance(one, many)
        checkpointer.save(step)
        advance(one, many, 1000)  # while the step is written
        advance(one, many, -1000)


def end_at_once(pipe):
    one, many, checkpointer = make()
    step = restored(one, many, checkpointer) + 1
    advance(one, many)
    sync = checkpoint_store._sync
    checkpoint_store._sync = lambda path: (time.sleep(0.1), sync(path))
    checkpointer.save(step)


def end_with_a_full_disk(pipe):
    one, many, checkpointer = make()
    step = restored(one, many, checkpointer) + 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    checkpointer.save(step)


def save_twice_on_a_full_disk(pipe):
    one, many, checkpointer = make()
    step = restored(one, many, checkpointer) + 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    checkpointer.save(step)
    try:
        checkpointer.save(step + 1)
    except training.CheckpointNotSaved as error:
        os.write(pipe, str(error).encode())
        sys.exit(FULL)


def is_preempted(pipe):
    one, many, checkpointer = make()
    step = restored(one, many, checkpointer) + 1
    handler = training.on_preemption(checkpointer)
    sync = checkpoint_store._sync
    checkpoint_store._sync = lambda path: (time.sleep(0.05), sync(path))
    advance(one, many)
    checkpointer.save(step)
    os.kill(os.getpid(), signal.SIGTERM)  # while the step is written
    advance(one, many)
    handler.step(step + 1)


def forked(function):
    """A fork that calls `function` and ends as a program does; its pid and what it writes."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    if pid := os.fork():
        os.close(writer)
        return pid, os.fdopen(reader, "rb")
    os.close(reader)
    try:
        function(writer)
    except SystemExit:
        raise
    except BaseException:
        os.write(writer, traceback.format_exc().encode())
        sys.exit(9)
    sys.exit()


def killed(least):
    """A fork that is killed after `least` checkpoints or more: the newest step that it reported, or its error."""
    pid, pipe = forked(save_for_ever)
    lines = [pipe.readline() for _ in range(1 + least + chance.randrange(3))]
    time.sleep(chance.uniform(0, 0.03))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    lines += pipe.readlines()
    if lines[0] != b"ready\n":
        return b"".join(lines).decode()
    return int(lines[-1]) if len(lines) > 1 else None


def ended(function):
    pid, pipe = forked(function)
    said = pipe.read().decode()
    _, status = os.waitpid(pid, 0)
    return [os.waitstatus_to_exitcode(status), said, newest()]


def newest():
    store = checkpoint_store.CheckpointStore(directory, "worker:0")
    found = store.found()
    for each in found:
        checkpoint_store.verify(each)  # raises Damaged
    return found[0].step if found else None


def main():
    last, seen = 0, []
    for number in range(kills):
        step = killed(least=int(number == 0))
        assert step is None or isinstance(step, int), step
        last = max(last, step or 0)
        complete = newest() or 0
        assert complete >= last, f"{complete} is there, but {last} was complete"
        seen.append(complete)
    ways = (end_at_once, end_with_a_full_disk, save_twice_on_a_full_disk, is_preempted)
    ends = {way.__name__: ended(way) for way in ways}
    left = sorted(os.listdir(directory))
    print(json.dumps({"killed": seen, **ends, "restored": restored(*make()), "left": left}))


main()
