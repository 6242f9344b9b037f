"""Synchronous training with a side-car evaluator, which evaluates the checkpoints without slowing training down.

    clusterkit up --workers 2 --evaluator workloads/evaluator.py

The evaluator is not a member of the cluster. It restores the newest checkpoint as soon as there is one, writes the
accuracy for TensorBoard, and evaluates the last checkpoint after training. Killing it does not affect training.
"""

from __future__ import annotations

import digits
import mwms_train
import tensorflow as tf

from clusterkit import training


def evaluate(held_out: digits.Digits) -> None:
    """Evaluate each new checkpoint until training is over."""
    model = mwms_train.make_model()
    checkpointer = training.Checkpointer(model=model)
    writer = tf.summary.create_file_writer(training.tensorboard_dir())
    for checkpoint in training.new_checkpoints():
        step = checkpointer.restore(checkpoint)
        accuracy = digits.accuracy(model, held_out)
        with writer.as_default():
            tf.summary.scalar("held-out accuracy", accuracy, step=step)
        writer.flush()
        training.report(step, accuracy=accuracy)
        print(f"held-out accuracy {accuracy:.3f} at step {step}")


def main() -> None:
    args = mwms_train.parse(__doc__)
    strategy = training.strategy()
    learning, held_out = digits.load()
    if training.is_evaluator():
        evaluate(held_out)
        return
    with strategy.scope():
        model = mwms_train.make_model()
        optimizer = tf.keras.optimizers.SGD(args.learning_rate, momentum=0.9)
        optimizer.build(model.trainable_variables)
    checkpointer = training.Checkpointer(model=model, optimizer=optimizer)
    first = checkpointer.restore()
    print(f"training from step {first} to {args.steps} on {training.num_workers()} workers")
    batches = mwms_train.make_batches(strategy, learning, args, first)
    step_on = mwms_train.make_step(strategy, model, optimizer)
    mwms_train.train(step_on, batches, optimizer, checkpointer.save, args, first)
    print(f"training is done after {args.steps} steps")


if __name__ == "__main__":
    main()
