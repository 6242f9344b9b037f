"""Rows about checkpoints and saved models that cannot be read, and training that is already complete."""

from __future__ import annotations

from clusterkit.explain.frames import calling, showing
from clusterkit.explain.row import Evidence, Row, Words

_ONE = ("--workers", "1")
_LOADS = showing(r"load_model\b|/saving/|deserializ")


def _no_epoch(evidence: Evidence) -> Words | None:
    """Check whether the error is at a line that reads a history of `fit`, and the task has completed no step."""
    made_none = evidence.first.step is None if evidence.job is not None else "KeyError: 'loss'" in evidence.first.text
    return calling(r"(?i)hist\w*(?:\.history)?\b.*\[")(evidence) if made_none else None


ROWS: tuple[Row, ...] = (
    Row(
        "history-is-empty",
        "KeyError: 'loss', at history.history['loss'][-1] after model.fit",
        r"^KeyError: '(?P<name>\w+)'",
        "The history of fit is empty at {line}, because fit had no epoch left to train. Either an earlier attempt or "
        "run, from which Backup resumed, has finished all epochs, or initial_epoch is not less than epochs.",
        "Check for an empty history: losses = history.history.get('{name}'); print(losses[-1]) if losses else None. "
        "To train longer, pass more epochs to fit.",
        when=_no_epoch,
        example=("--workers", "2"),
    ),
    Row(
        "checkpoint-cut-off",
        "file is too short to be an sstable; DataLossError: … Checksum does not match",
        r"file is too short to be an sstable|(?<!failed with )Read less bytes than requested"
        r"|TensorBundle at .*Checksum does not match",
        "The checkpoint that {line} reads is incomplete. Its writer was killed, two tasks wrote to it, or a copy of "
        "it was cut off.",
        "Restore an older checkpoint. Save with tf.train.CheckpointManager or clusterkit.training.Checkpointer, which "
        "record a checkpoint as the newest only when it is complete.",
        reported=("tensorflow/tensorflow#13588",),
        example=_ONE,
    ),
    Row(
        "not-a-checkpoint",
        "DataLossError: Unable to open table file …: not an sstable (bad magic number)",
        r"not an sstable \(bad magic number\)",
        "The file that {line} restores is not a TensorFlow checkpoint. It is a Keras file, or only a part of a "
        "checkpoint.",
        "Pass the name of the checkpoint without .index and .data-00000-of-00001. Load .keras, .h5 and .weights.h5 "
        "files with Keras.",
        reported=("tensorflow/models#2675", "tensorflow/tensorflow#23326"),
        example=_ONE,
    ),
    Row(
        "hdf5-cut-off",
        "OSError: Unable to synchronously open file (truncated file: eof = …, sblock->base_addr = 0, stored_eof = …)",
        r"truncated file: eof = (?P<size>\d+), sblock->base_addr = \d+, stored_eo[af] = (?P<whole>\d+)",
        "The HDF5 file that {line} reads has only {size} of its {whole} bytes. Either another task is still writing "
        "it, or its writer was killed.",
        "Delete the file, and write it only in the chief, or use clusterkit.training.Checkpointer.",
        reported=("keras-team/keras#8546", "matterport/Mask_RCNN#653"),
        example=_ONE,
    ),
    Row(
        "not-an-hdf5-file",
        "OSError: Unable to synchronously open file (file signature not found)",
        r"OSError: Unable to (?:synchronously )?open file \(file signature not found\)",
        "The file that {line} reads is not an HDF5 file, whatever its name. It may be a web page, a Git LFS pointer "
        "or a checkpoint.",
        "Look at the first line of the file, and download or save the file again.",
        reported=("asingh33/CNNGestureRecognizer#40",),
        example=_ONE,
    ),
    Row(
        "checkpoint-of-another-model",
        "ValueError: Received incompatible tensor with shape (8,) when attempting to restore variable with shape (4,)",
        r"Received incompatible tensor with shape (?P<saved>\([\d, ]*\)) when attempting to restore variable with "
        r"shape (?P<shape>\([\d, ]*\)) and name (?P<name>[^\s]+)",
        "The checkpoint contains a variable of shape {saved}, but the model has a variable of shape {shape} there. "
        "The checkpoint was written by another model, for example in an earlier run.",
        "Restore the checkpoint into the model that wrote it, or start with an empty checkpoint directory.",
        example=_ONE,
    ),
    Row(
        "checkpoint-of-another-program",
        "AssertionError: Found 1 Python objects that were not bound to checkpointed values",
        r"Found (?P<objects>\d+) Python objects that were not bound to checkpointed values"
        r"|AssertionError: Unresolved object in checkpoint"
        r"|AssertionError: Nothing except the root object matched a checkpointed value",
        "The checkpoint contains different objects from the program, because tf.train.Checkpoint(…) had other names "
        "or objects when the checkpoint was written.",
        "Use the same names and layers as the program that wrote the checkpoint, or call expect_partial() if objects "
        "may be missing.",
        example=_ONE,
    ),
    Row(
        "saved-by-keras-3",
        "TypeError: Error when deserializing class 'InputLayer' … Unrecognized keyword arguments: ['batch_shape']",
        r"Unrecognized keyword arguments: \['batch_shape'",
        "The model was saved by Keras 3, but this job loads it with Keras 2.",
        "Run the job without --keras 2, or load only the weights, into a model that the program builds.",
        reported=("tensorflow/tensorflow#64685", "haverland/Tenth-of-step-of-a-meter-digit#32"),
        example=(*_ONE, "--keras", "2"),
    ),
    Row(
        "saved-by-keras-2",
        "ValueError: Unrecognized keyword arguments passed to LSTM: {'time_major': False}",
        r"Unrecognized keyword arguments passed to (?P<layer>\w+): \{'(?P<argument>time_major|groups|implementation)'",
        "The model was saved by Keras 2, whose {layer} has the argument {argument}, but this job loads it with Keras "
        "3.",
        "Run the job with --keras 2, or load only the weights, into a model that the program builds.",
        when=_LOADS,
        reported=("keras-team/keras#19441", "keras-team/keras#19151"),
        example=_ONE,
    ),
    Row(
        "loss-in-an-hdf5-file",
        "ValueError: Could not deserialize 'keras.metrics.mse' because it is not a KerasSaveable subclass",
        r"Could not (?:deserialize|locate function) '(?:keras\.(?:metrics|losses)\.)?(?P<loss>mse|mae|mape|msle|"
        r"[a-z_]*crossentropy|mean_[a-z_]+_error)'",
        "The model was saved in an HDF5 file with the loss or metric {loss}, but Keras 3 does not find it by this "
        "name.",
        "Load the model with load_model(path, compile=False), and compile it again. Or save the model in a .keras "
        "file.",
        reported=("tensorflow/tensorflow#38423",),
        example=_ONE,
    ),
    Row(
        "no-checkpoint-yet",
        "TypeError: stat: path should be string, bytes, os.PathLike or integer, not NoneType, in load_weights",
        r"TypeError: [^\n]*path should be string[^\n]*NoneType",
        "{line} tries to load a checkpoint, but tf.train.latest_checkpoint or another search found no checkpoint and "
        "returned None.",
        "Load only if a checkpoint exists: path = tf.train.latest_checkpoint(directory); if path: …",
        when=calling(r"\bload_(?:weights|model)\("),
        example=_ONE,
    ),
    Row(
        "saved-model-called",
        "TypeError: '_UserObject' object is not callable, of tf.saved_model.load",
        r"TypeError: '_UserObject' object is not callable",
        "{line} calls the object that tf.saved_model.load returned, but this object only has the functions that were "
        "saved with it.",
        "Save the model with model.export(path), and call loaded.serve(x). Or call the function "
        "loaded.signatures['serving_default'].",
        example=_ONE,
    ),
)
