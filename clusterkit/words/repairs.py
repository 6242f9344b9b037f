"""The repairs: patches that change what a task computes, writes or waits for, each with an explanation for people.

Other patches only observe, or stop a program. A task's interpreter loads this file by its path, too, so the file
imports only what that interpreter has already imported.
"""

from __future__ import annotations

from typing import NamedTuple


class Repair(NamedTuple):
    """What a repair changes, and why a program that is right without the repair stays right.

    `line` is what the log of a task names when the repair first takes effect. It is empty if the repair changes no
    number and no file, or if the repair prints a line of its own.
    """

    change: str
    safe: str
    line: str = ""

    def __str__(self) -> str:
        return f"{self.change} {self.safe}"


# By the names of the patches in task/patches/hook.py.
REPAIRS = {
    "tf-config": Repair(
        "The program's own TF_CONFIG is ignored.",
        "The job asks for this with --tf-config ours.",
    ),
    "keras-fit": Repair(
        "fit, evaluate and predict of Keras 3 compute losses, metrics, gradients and predictions from the whole batch "
        "instead of each worker's rows.",
        "Without the patch they fail on several workers, or compute something else than one process does with the same "
        "batch. A job of one process is not patched.",
    ),
    "order": Repair(
        "Shuffles without a seed get a seed from the run, which is the same in all workers.",
        "No order is promised without a seed. Shuffles with a seed are not patched, and data that is not sharded keeps "
        "another order in each worker.",
        "shuffles without a seed",
    ),
    "callbacks-apart": Repair(
        "Keras's callbacks write this worker's files to a directory workertemp_N, which is removed after fit.",
        "Otherwise all workers would write to the same files. The leader's files stay at the paths that the program "
        "gives.",
        "the paths of callbacks' files",
    ),
    "backup-whole": Repair(
        "BackupAndRestore and ModelCheckpoint save beside their files, and then move the files to their place.",
        "A complete save has the same files in the same place.",
        "files of BackupAndRestore or ModelCheckpoint, which would be lost if a save is interrupted",
    ),
    "keras-ps": Repair(
        "The parameter server adds to Keras's variables, such as step counts and sums of metrics, instead of storing "
        "sums that workers have computed.",
        "Only an assignment of a variable's old value plus or minus a change becomes an addition, and only if nothing "
        "can have written to the variable in between. So a single worker computes the same.",
        "additions to Keras's variables, which would overwrite those of other workers",
    ),
    "coordinator-end": Repair(
        "At exit, the destructor of ClusterCoordinator does not run, since it can wait forever for a lock.",
        "The program has ended by then, and its process ends anyway.",
    ),
    "coordinator-functions": Repair(
        "TensorFlow functions that are no longer used are removed from the servers later, or not at all.",
        "Nothing can call such a function any more, so nothing is computed differently.",
    ),
    "leader-first": Repair(
        "The worker waits until the leader of its gang listens before it connects.",
        "TensorFlow itself waits for the leader, too, but tries only once a second.",
    ),
    "sigterm-kept": Repair(
        "A SIGTERM handler that the program has set before MultiWorkerMirroredStrategy runs, after TensorFlow's own.",
        "Otherwise TensorFlow replaces it without a word. TensorFlow's handler runs as before.",
    ),
}
