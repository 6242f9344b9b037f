"""The programs with a planted flaw each: which cell of an exam finds it, and by what name."""

from __future__ import annotations

from typing import NamedTuple

EQUALITY, RESUME = "equality/1-against-2", "resume/killed-between-checkpoints"
FEWER = "resume/continued-by-1-worker"
SECOND = "resume/killed-in-the-second-fit"
COORDINATOR = "survival/kill/chief:0/step"
POWER = "survival/power-failure/saving-rename"
EXPORT = "survival/interrupted/exporting"
WRITING = "survival/kill/worker:0/saving-write"


Edits = tuple[tuple[str, str], ...]


class Flaw(NamedTuple):
    """A flaw of a program below tests/children/flawed, which takes its name as an argument.

    The first finding in `cell` has the code `code`. Its remedy contains the words `remedy`, and `mend` is what somebody
    does who follows it: texts of the program that are replaced.
    """

    program: str
    name: str
    cell: str
    code: str
    remedy: str
    mend: Edits


ONE_SEED = "with the same seed before they shard it"
# Keras's callbacks keep what they know in attributes, and begin anew in each `fit`.
KEPT = """
class Kept:
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._is_new = True

    def _path(self, epoch):
        return os.path.join(training.checkpoint_dir(), f"kept-{epoch}-{training.task_index()}.pickle")

    def on_epoch_begin(self, epoch, logs=None):
        super().on_epoch_begin(epoch, logs)
        if self._is_new and os.path.exists(self._path(epoch - 1)):
            with open(self._path(epoch - 1), "rb") as file:
                vars(self).update(pickle.load(file))
        self._is_new = False

    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch, logs)
        names = ("wait", "best", "best_epoch", "best_weights", "cooldown_counter")
        kept = {name: vars(self)[name] for name in names if name in vars(self)}
        os.makedirs(training.checkpoint_dir(), exist_ok=True)
        with open(self._path(epoch) + ".new", "wb") as file:
            pickle.dump(kept, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(self._path(epoch) + ".new", self._path(epoch))


class KeptStopping(Kept, tf.keras.callbacks.EarlyStopping):
    pass


class KeptPlateau(Kept, tf.keras.callbacks.ReduceLROnPlateau):
    pass


callbacks = [training.Backup(every=5)]
"""
KEPT_ROWS = """
if logs and os.path.exists(log):
    with open(log) as file:
        kept = [row for row in file if int(row.partition(",")[0]) <= first]
    with open(log + ".new", "w") as file:
        file.writelines(kept)
        file.flush()
        os.fsync(file.fileno())
    os.replace(log + ".new", log)
"""
KEEP: Edits = (
    ("callbacks = [training.Backup(every=5)]\n", KEPT),
    ("import random\n", "import pickle\nimport random\n"),
    ("tf.keras.callbacks.EarlyStopping(", "KeptStopping("),
    ("tf.keras.callbacks.ReduceLROnPlateau(", "KeptPlateau("),
)
SEEDED: Edits = (('if FLAW not in ("batches_shuffled_by_numpy", "shuffled_by_random"):', "if True:"),)
FLAWS = (
    Flaw(
        "loop", "loss_of_the_local_batch", EQUALITY, "loss-summed",
        "tf.nn.compute_average_loss(per_example_loss, global_batch_size=GLOBAL_BATCH)",
        (
            (
                "loss = tf.reduce_mean(losses)\n",
                "loss = tf.nn.compute_average_loss(tf.reshape(losses, [-1]), global_batch_size=batch)\n",
            ),
        ),
    ),
    Flaw(
        "loop", "loss_averaged_twice", EQUALITY, "averaged-twice",
        "Divide the loss by the global batch, once",
        (("loss = loss / workers\n", "pass\n"),),
    ),
    Flaw(
        "loop", "rate_times_workers", EQUALITY, "rate-differs",
        "Set the learning rate for the global batch, whatever the number of workers",
        (("rate = 0.02 * workers", "rate = 0.02"),),
    ),
    Flaw(
        "fitted", "rate_of_fit_times_workers", EQUALITY, "rate-differs",
        "Set the learning rate for the global batch, whatever the number of workers",
        (("SGD(0.01 * strategy.num_replicas_in_sync)", "SGD(0.01)"),),
    ),
    Flaw(
        "fitted", "steps_divided_by_workers", EQUALITY, "steps-differ",
        "steps_per_epoch = rows // GLOBAL_BATCH",
        (("192 // 16 // strategy.num_replicas_in_sync", "192 // 16"),),
    ),
    Flaw(
        "loop", "not_sharded", EQUALITY, "same-rows",
        "let strategy.experimental_distribute_dataset shard one global dataset",
        (("AutoShardPolicy.OFF", "AutoShardPolicy.DATA"),),
    ),
    Flaw(
        "loop", "sharded_twice", EQUALITY, "rows-missed",
        "Shard the data once: either by tf.distribute or by the program",
        (("data = data.shard(workers, me)", "pass"),),
    ),
    Flaw(
        "loop", "batch_grows_with_the_workers", EQUALITY, "global-batch",
        "Batch by the global batch, of a size that does not depend on the number of workers",
        (("BATCH * workers", "BATCH"),),
    ),
    Flaw(
        "loop", "normalized_per_worker", EQUALITY, "batch-norm",
        "BatchNormalization(synchronized=True)",
        (('synchronized=FLAW != "normalized_per_worker"', "synchronized=True"),),
    ),
    Flaw(
        "loop", "clipped_per_worker", EQUALITY, "differs",
        "what is computed from a worker's own rows alone: a norm to clip by",
        (
            (
                "        gradients, _ = tf.clip_by_global_norm(gradients, 0.3)",
                '        gradients = tf.distribute.get_replica_context().all_reduce("SUM", gradients)\n'
                "        gradients, _ = tf.clip_by_global_norm(gradients, 0.3)\n"
                "        gradients = [gradient / workers for gradient in gradients]  # the optimizer adds them up",
            ),
        ),
    ),
    Flaw(
        "loop", "weights_of_another_seed_in_each_worker", EQUALITY, "workers-differ",
        "Create every variable inside strategy.scope(), from the same seed",
        (
            ("start = np.random.default_rng(me)", "start = np.random.default_rng(0)"),
            ("    weight = tf.Variable(start", "    with strategy.scope():\n        weight = tf.Variable(start"),
        ),
    ),
    Flaw(
        "loop", "data_of_another_seed_in_each_worker", EQUALITY, "rows-missed",
        ONE_SEED,
        (('default_rng(me if FLAW == "data_of_another_seed_in_each_worker" else 0)', "default_rng(0)"),),
    ),
    Flaw(
        "loop", "optimizer_not_saved", RESUME, "optimizer",
        "Save the optimizer: tf.train.Checkpoint(model=model, optimizer=optimizer)",
        (('del everything["optimizer"]', "pass"),),
    ),
    Flaw(
        "loop", "moving_averages_not_saved", RESUME, "weights",
        "Save ",
        (('"dense": model.layers[0], "last": model.layers[-1]', '"model": model'),),
    ),
    Flaw(
        "loop", "own_variable_not_saved", RESUME, "differs",
        "Save warmth with the checkpoint",
        (('everything = {"model": model', 'everything = {"warmth": warmth, "model": model'),),
    ),
    Flaw(
        "loop", "random_state_not_saved", RESUME, "random-state",
        "Save the generators and seed generators with the model",
        (('**{f"w{n}": v for n, v in enumerate(model.weights)}', '"model": model'),),
    ),
    Flaw(
        "loop", "iterations_not_restored", RESUME, "counter",
        "Save the optimizer, with its iterations",
        (("optimizer.iterations.assign(0)", "pass"),),
    ),
    Flaw(
        "loop", "epochs_counted_anew", RESUME, "epoch",
        "begin with those that are left",
        (
            ('first = 0 if FLAW == "epochs_counted_anew" else', "first ="),
            ('number = int(done.numpy()) if FLAW == "epochs_counted_anew" else 0', "number = 0"),
            ('("data_begins_anew", "epochs_counted_anew")', '("data_begins_anew",)'),
        ),
    ),
    Flaw(
        "loop", "data_begins_anew", RESUME, "data-position",
        "Skip the batches that were trained",
        (
            ('("data_begins_anew", "epochs_counted_anew")', '("epochs_counted_anew",)'),
            ("number = int(done.numpy()) + 1", "pass"),
        ),
    ),
    Flaw(
        "loop", "order_of_epochs_since_the_start", RESUME, "data-position",
        "numpy.random.default_rng([seed, epoch])",
        (("in_order_of(started)", "in_order_of(epoch)"),),
    ),
    Flaw(
        "loop", "schedule_begins_anew", RESUME, "learning-rate",
        "Let the schedule follow optimizer.iterations",
        (("0.9 ** ((number - first) / 4)", "0.9 ** (float(optimizer.iterations.numpy()) / 4)"),),
    ),
    Flaw(
        "loop", "rows_logged_twice", RESUME, "rows-twice",
        "keep the rows up to the restored step and drop the later ones",
        (("started = 0 if FLAW", KEPT_ROWS + "started = 0 if FLAW"),),
    ),
    Flaw(
        "loop", "log_written_anew", RESUME, "rows-lost",
        "keep the rows up to the restored step, and append to them",
        (('    open(log, "w").close()\n', "    pass\n"), ("started = 0 if FLAW", KEPT_ROWS + "started = 0 if FLAW")),
    ),
    Flaw(
        "loop", "highest_of_this_process", RESUME, "file-differs",
        "read it from the file when the program continues",
        (
            (
                'highest = -float("inf")\n',
                'highest = -float("inf")\n'
                'if first and os.path.exists(os.path.join(os.path.dirname(log), "losses.json")):\n'
                '    with open(os.path.join(os.path.dirname(log), "losses.json")) as file:\n'
                '        highest = json.load(file)["highest"]\n',
            ),
        ),
    ),
    Flaw(
        "loop", "log_of_all_workers", EQUALITY, "rows-twice",
        "Let worker:0 alone write it",
        (('if logs or FLAW == "log_of_all_workers":', "if me == 0:"),),
    ),
    Flaw(
        "loop", "state_for_each_worker", FEWER, "not-recovered",
        "Save only what is the same for any number of workers",
        (("tf.Variable(tf.zeros(workers)", "tf.Variable(tf.zeros(1)"),),
    ),
    Flaw(
        "fitted", "shuffled_anew_by_each_process", EQUALITY, "rows-missed",
        ONE_SEED,
        (("np.random.default_rng().permutation", "np.random.default_rng(1).permutation"),),
    ),
    Flaw("fitted", "batches_shuffled_by_numpy", EQUALITY, "rows-missed", ONE_SEED, SEEDED),
    Flaw("fitted", "shuffled_by_random", EQUALITY, "rows-missed", ONE_SEED, SEEDED),
    Flaw(
        "fitted", "loss_times_workers", EQUALITY, "loss-summed",
        "multiply neither it nor its weight by the number of workers",
        (("scale * tf.reduce_mean", "tf.reduce_mean"),),
    ),
    Flaw("fitted", "patience_begins_anew", RESUME, "callbacks", "Save what the callback keeps", KEEP),
    Flaw("fitted", "plateau_begins_anew", RESUME, "callbacks", "Save what the callback keeps", KEEP),
    Flaw("fitted", "best_is_forgotten", RESUME, "callbacks", "Save what the callback keeps", KEEP),
    Flaw(
        "fitted", "weights_alone_are_restored", RESUME, "counter",
        "Add clusterkit.training.Backup() to the callbacks of fit",
        (
            ("weights = training.Checkpointer(", "weights = dict("),
            (
                "[tf.keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: weights.save(epoch + 1))]",
                "[training.Backup()]",
            ),
            ('weights.restore() if FLAW == "weights_alone_are_restored" else 0', "0"),
        ),
    ),
    Flaw(
        "fitted", "backup_of_two_fits", SECOND, "shared-backup",
        "Give each fit a backup directory of its own, with delete_checkpoint=False",
        (("BackupAndRestore(directory)", 'BackupAndRestore(f"{directory}-{number}", delete_checkpoint=False)'),),
    ),
    Flaw(
        "loop", "last_batch_is_uneven", EQUALITY, "uneven-rows",
        "or batch with drop_remainder",
        (('FLAW not in ("sharded_twice", "last_batch_is_uneven")', 'FLAW != "sharded_twice"'),),
    ),
    Flaw(
        "loop", "restored_before_it_is_built", RESUME, "not-recovered",
        "Build the model and the optimizer before the checkpoint is restored",
        (('if FLAW != "restored_before_it_is_built":', "if True:"),),
    ),
    Flaw(
        "fitted", "exported_over_the_old", EXPORT, "export-in-place",
        "Save under another name in the same directory, then os.replace(new, path)",
        (('exported if FLAW == "exported_over_the_old" else f"{exported}.new.keras"', 'f"{exported}.new.keras"'),),
    ),
    Flaw(
        "served", "nothing_is_restored", COORDINATOR, "result-differs",
        "Restore the newest checkpoint before the first step",
        (('0 if FLAW == "nothing_is_restored" else checkpoints.restore()', "checkpoints.restore()"),),
    ),
    Flaw(
        "served", "weights_begin_anew", COORDINATOR, "result-differs",
        "set none of it again",
        (("weight.assign(tf.zeros((4, 1)) + 30)", "pass"),),
    ),
    Flaw(
        "served", "steps_are_added_after_a_restart", COORDINATOR, "result-differs",
        "Train the steps that are left",
        (('begun + STEPS if FLAW == "steps_are_added_after_a_restart" else STEPS', "STEPS"),),
    ),
    Flaw(
        "served", "momentum_not_saved", RESUME, "optimizer",
        "Save the optimizer: tf.train.Checkpoint(model=model, optimizer=optimizer)",
        (('del saved["optimizer"]', "pass"),),
    ),
    Flaw(
        "served", "saved_before_join", RESUME, "saved-before-join",
        "Call coordinator.join() before the checkpoint is saved",
        (('if FLAW == "saved_before_join":', "if False:"), ('if FLAW != "saved_before_join":', "if True:")),
    ),
    Flaw(
        "saves", "saved_by_all_workers", EQUALITY, "shared-file",
        "Let worker:0 alone write it",
        (('(leads or FLAW == "saved_by_all_workers")', "leads"),),
    ),
    Flaw(
        "saves", "step_not_restored", RESUME, "counter",
        "Save the optimizer",
        (('0 if FLAW == "step_not_restored" else int(saved["number"])', 'int(saved["number"])'),),
    ),
    Flaw(
        "saves", "renamed_before_it_is_on_the_disk", POWER, "not-synced",
        "Before os.replace: file.flush(); os.fsync(file.fileno())",
        (('if FLAW != "renamed_before_it_is_on_the_disk":', "if True:"),),
    ),
    Flaw(
        "saves", "written_in_place", WRITING, "not-recovered",
        "then os.replace(new, path)",
        (('path if FLAW == "written_in_place" else f"{path}.{training.task_index()}.npz"', 'f"{path}.new"'),),
    ),
)  # fmt: skip
RIGHT = {
    "loop": (EQUALITY, RESUME, FEWER),
    "fitted": (EQUALITY, RESUME, FEWER, EXPORT),
    "saves": (EQUALITY, RESUME, FEWER, WRITING, POWER),
    "served": (EQUALITY, RESUME, FEWER, COORDINATOR),
}


def mended(flaw: Flaw, text: str) -> str:
    """Return the text of a program to which the remedy of its flaw is applied."""
    for before, after in flaw.mend:
        text = text.replace(before, after)
    return text
