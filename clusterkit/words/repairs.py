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
        "The program's own TF_CONFIG was ignored, and that of clusterkit was kept.",
        "The job asked for this with --tf-config ours.",
    ),
    "keras-fit": Repair(
        "fit, evaluate and predict of Keras 3 compute losses, metrics, gradients and predictions from the whole batch "
        "instead of one worker's rows.",
        "In one process they also compute from the whole batch, and a job of one worker is not patched.",
    ),
    "order": Repair(
        "Shuffles without a seed got a seed that is the same in all workers.",
        "A program without a seed expects no particular order; shuffles with a seed are not changed.",
        "shuffles without a seed, which would lose and double rows on several workers",
    ),
    "callbacks-apart": Repair(
        "Keras's callbacks wrote this worker's files to a directory workertemp_N, which was removed after fit.",
        "The leader's files have the paths that the program gave, and all workers have the same weights.",
        "the paths of callbacks' files, which all workers would write to",
    ),
    "backup-whole": Repair(
        "BackupAndRestore saved to a directory beside its own, whose files then replaced the previous backup.",
        "A complete backup has the same files in the same place.",
        "BackupAndRestore, whose backup would be lost if a save is interrupted",
    ),
    "keras-ps": Repair(
        "Additions to Keras's variables, such as step counts and sums of metrics, were made by the parameter server.",
        "Only an assignment of a variable's old value plus a change became an addition, and only if nothing can have "
        "written to the variable in between, so a single worker computes the same.",
        "additions to Keras's variables, which would overwrite those of other workers",
    ),
    "coordinator-end": Repair(
        "At exit, the destructor of ClusterCoordinator was not run, since it can wait forever for a lock.",
        "The process ends at that point anyway, with all that it has.",
    ),
    "coordinator-functions": Repair(
        "TensorFlow functions that were no longer in use were removed from the servers later, or not at all.",
        "A function that is removed can't be called any more, so only the time of the removal differs.",
    ),
    "leader-first": Repair(
        "The worker waited until the leader of its gang listened, and then connected.",
        "TensorFlow itself tries again until the leader listens, but only once a second.",
    ),
}
