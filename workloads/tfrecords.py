"""Trains on input that does not fit into memory: sharded TFRecord files, which it writes first, read in parallel.

    clusterkit up --workers 2 workloads/tfrecords.py

Each worker reads its own files (AutoShardPolicy.FILE), several at a time (interleave), keeps the records in memory
(cache), shuffles, and prepares the next batch while a step runs (prefetch). `--no-cache` and `--readers 1` show the
effect of each. Under plain `python` it is a single process that reads all files.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import digits
import mwms_train
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from clusterkit import training


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", metavar="DIR", help="directory of the files [beside the checkpoints]")
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--records", type=int, default=4000, help="per file: shifted and noisy digits")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, default=64, help="records per step, over all workers")
    parser.add_argument("--readers", type=int, default=4, help="files that a worker reads in parallel")
    parser.add_argument("--cache", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--checkpoint-every", type=int, default=200, metavar="STEPS")
    return parser.parse_args()


def write_files(directory: Path, data: digits.Digits, args: argparse.Namespace) -> None:
    """Write this worker's share of the missing files, each of them atomically."""
    directory.mkdir(parents=True, exist_ok=True)
    for number in range(training.task_index(), args.files, training.num_workers()):
        path = directory / f"digits-{number:05}-of-{args.files:05}.tfrecord"
        if path.exists():
            continue
        random = np.random.default_rng([2017, number])
        part = path.with_suffix(f".{os.getpid()}.part")
        with tf.io.TFRecordWriter(str(part)) as writer:
            for index in random.integers(0, len(data.labels), args.records):
                image = np.roll(data.images[index].reshape(8, 8), random.integers(-1, 2), 1).reshape(-1)
                noisy = np.clip(image + random.normal(0, 0.1, digits.PIXELS), 0, 1)
                writer.write(record((noisy * 255).astype(np.uint8), int(data.labels[index])))
        part.replace(path)
        print(f"{path.name}: {args.records} records, {path.stat().st_size / 1e6:.1f} MB")


def record(pixels: npt.NDArray[np.uint8], label: int) -> bytes:
    feature = {
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[pixels.tobytes()])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }
    return bytes(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


def parsed(records: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Parse a whole batch at once, which is much faster than record by record."""
    spec = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    found = tf.io.parse_example(records, spec)
    return tf.cast(tf.io.decode_raw(found["image"], tf.uint8), tf.float32) / 255.0, found["label"]


def make_dataset(directory: Path, args: argparse.Namespace, first_step: int) -> tf.data.Dataset:
    """Create global batches; `experimental_distribute_dataset` gives each worker its own files and part of a batch."""
    names = [str(directory / f"digits-{number:05}-of-{args.files:05}.tfrecord") for number in range(args.files)]
    files = tf.data.Dataset.from_tensor_slices(names)
    records = files.interleave(
        tf.data.TFRecordDataset, cycle_length=args.readers, num_parallel_calls=args.readers, deterministic=True
    )
    if args.cache:
        records = records.cache()
    trained = first_step * args.batch_size // training.num_workers()  # this worker's part: read again, but not parsed
    shuffled = records.shuffle(10000, seed=2017).repeat().skip(trained)
    return training.sharded(shuffled.batch(args.batch_size).map(parsed).prefetch(tf.data.AUTOTUNE), "file")


def main() -> None:
    args = parse()
    strategy = training.strategy()
    training.per_replica_batch(args.batch_size, strategy)  # raises if it is not divisible
    learning, held_out = digits.load()
    directory = Path(args.data or Path(training.checkpoint_dir()).parent / "tfrecords")
    with training.phase("writing files"):
        write_files(directory, learning, args)
        # An all-reduce as a barrier: no worker reads before all files are written.
        strategy.reduce("SUM", strategy.run(lambda: tf.constant(1.0)), axis=None)
    with strategy.scope():
        model = mwms_train.make_model()
        optimizer = tf.keras.optimizers.SGD(args.learning_rate, momentum=0.9)
        optimizer.build(model.trainable_variables)
    checkpointer = training.Checkpointer(model=model, optimizer=optimizer)
    step = first = checkpointer.restore()
    step_on = mwms_train.make_step(strategy, model, optimizer)
    batches = iter(strategy.experimental_distribute_dataset(make_dataset(directory, args, first)))
    began = printed_at = time.monotonic()
    while step < args.steps:
        loss = step_on(next(batches))
        step += 1
        training.report(step, total=args.steps, loss=loss)
        if time.monotonic() - printed_at > 1:
            rate = (step - first) * args.batch_size / (time.monotonic() - began)
            print(f"step {step} loss {float(loss):.4f}, {rate:.0f} records/s")
            printed_at = time.monotonic()
        if step % args.checkpoint_every == 0 or step == args.steps:
            checkpointer.save(step)
    accuracy = digits.accuracy(model, held_out)
    training.report(args.steps, accuracy=accuracy)
    print(f"held-out accuracy {accuracy:.3f} after {args.steps} steps")


if __name__ == "__main__":
    main()
