"""Programs with mistakes that show when a task is stopped or restarted: handlers of SIGTERM, and backups of `fit`."""

from __future__ import annotations

from tests.check.programs import MADE, ONE, PLAIN, SERVED, TF, TWO, Row

BACKUP = "tf.keras.callbacks.BackupAndRestore('backup')"

INTERRUPTED = [
    Row(
        "handler-before-the-strategy",
        f"{TF}import signal\nsignal.signal(signal.SIGTERM, save)  # here\nstrategy = {MADE}\n",
        (
            ("strategy =", "signal.signal(signal.SIGTERM, save)\nstrategy ="),
            (f"strategy = {MADE}\n", ""),
            ("SIGTERM", "SIGUSR1"),
            ("SIGTERM, save", "SIGTERM, signal.SIG_IGN"),
            ("signal.signal", "if os.environ.get('X'): signal.signal"),
            ("signal.signal", "def on_begin():\n    signal.signal"),
            ("strategy =", "def make():\n    return"),
            ("strategy =", "strategy = made or "),
            ("strategy =", "loop.add_signal_handler(15, save)\nstrategy ="),
            ("strategy =", "handler = tf.distribute.experimental.PreemptionCheckpointHandler(r, c)\nstrategy ="),
            ("strategy =", "training.on_preemption(c)\nstrategy ="),
        ),
        TWO,
        (ONE, SERVED, {**TWO, "restart_scope": "task"}),
    ),
    Row(
        "handler-before-the-strategy",
        f"{TF}from signal import SIGTERM, signal\ndef main():\n    signal(signalnum=SIGTERM, handler=save)  # here\n"
        "    strategy = training.strategy()\n    train(strategy)\nmain()\n",
        (("    signal(", "    if SAVES: signal("), ("\nmain()", "")),
    ),
    Row(
        "shared-backup",
        f"{PLAIN}model.fit(x, callbacks=[{BACKUP}])\nmodel.fit(y, callbacks=[{BACKUP}])  # here\n",
        (
            ("y, callbacks=[tf.keras.callbacks.BackupAndRestore('backup'", "y, callbacks=[tf.keras.callbacks.Mine('x'"),
            ("y, callbacks=[tf.keras.callbacks.BackupAndRestore('backup'", f"y, callbacks=[{BACKUP[:-9]}'second'"),
            ("y, callbacks=[tf.keras.callbacks.BackupAndRestore('backup'", f"y, callbacks=[{BACKUP[:-9]}make()"),
            ("backup')])  #", "backup', delete_checkpoint=False)])  #"),
            ("model.fit(y", "if done: model.fit(y"),
            ("model.fit(y", "other.fit(y"),
        ),
        ONE,
    ),
    Row(
        "shared-backup",
        f"{PLAIN}place = 'backup'\nkept = [tf.keras.callbacks.BackupAndRestore(backup_dir=place)]\n"
        "model.fit(x, callbacks=kept)\nmodel.fit(y, epochs=3, callbacks=kept)  # here\n",
        (("epochs=3, callbacks=kept", "epochs=3"), ("kept = ", "kept = others or ")),
        {**ONE, "keras": 2},
    ),
]
