"""The programs with a planted flaw each: which cell of an exam finds it, and by what name."""

from __future__ import annotations

from typing import NamedTuple

EQUALITY, RESUME = "equality/1-against-2", "resume/killed-between-checkpoints"
FEWER = "resume/continued-by-1-worker"
COORDINATOR = "survival/kill/chief:0/step"
POWER = "survival/power-failure/saving-rename"
EXPORT = "survival/interrupted/exporting"
WRITING = "survival/kill/worker:0/saving-write"


class Flaw(NamedTuple):
    """A flaw of a program below tests/children/flawed, which takes its name as an argument."""

    program: str
    name: str
    cell: str
    code: str


FLAWS = (
    Flaw("loop", "loss_of_the_local_batch", EQUALITY, "loss-summed"),
    Flaw("loop", "loss_averaged_twice", EQUALITY, "averaged-twice"),
    Flaw("loop", "not_sharded", EQUALITY, "same-rows"),
    Flaw("loop", "sharded_twice", EQUALITY, "rows-missed"),
    Flaw("loop", "batch_grows_with_the_workers", EQUALITY, "global-batch"),
    Flaw("loop", "normalized_per_worker", EQUALITY, "batch-norm"),
    Flaw("loop", "clipped_per_worker", EQUALITY, "differs"),
    Flaw("loop", "weights_of_another_seed_in_each_worker", EQUALITY, "workers-differ"),
    Flaw("loop", "data_of_another_seed_in_each_worker", EQUALITY, "rows-missed"),
    Flaw("loop", "optimizer_not_saved", RESUME, "optimizer"),
    Flaw("loop", "moving_averages_not_saved", RESUME, "weights"),
    Flaw("loop", "random_state_not_saved", RESUME, "random-state"),
    Flaw("loop", "iterations_not_restored", RESUME, "counter"),
    Flaw("loop", "epochs_counted_anew", RESUME, "epoch"),
    Flaw("loop", "data_begins_anew", RESUME, "data-position"),
    Flaw("loop", "schedule_begins_anew", RESUME, "learning-rate"),
    Flaw("loop", "state_for_each_worker", FEWER, "not-recovered"),
    Flaw("fitted", "shuffled_anew_by_each_process", EQUALITY, "rows-missed"),
    Flaw("fitted", "batches_shuffled_by_numpy", EQUALITY, "rows-missed"),
    Flaw("fitted", "shuffled_by_random", EQUALITY, "rows-missed"),
    Flaw("fitted", "loss_times_workers", EQUALITY, "loss-summed"),
    Flaw("fitted", "patience_begins_anew", RESUME, "callbacks"),
    Flaw("fitted", "plateau_begins_anew", RESUME, "callbacks"),
    Flaw("fitted", "weights_alone_are_restored", RESUME, "counter"),
    Flaw("loop", "last_batch_is_uneven", EQUALITY, "uneven-rows"),
    Flaw("loop", "restored_before_it_is_built", RESUME, "not-recovered"),
    Flaw("fitted", "best_is_forgotten", RESUME, "callbacks"),
    Flaw("fitted", "exported_over_the_old", EXPORT, "export-in-place"),
    Flaw("served", "nothing_is_restored", COORDINATOR, "result-differs"),
    Flaw("served", "weights_begin_anew", COORDINATOR, "result-differs"),
    Flaw("served", "steps_are_added_after_a_restart", COORDINATOR, "result-differs"),
    Flaw("saves", "saved_by_all_workers", EQUALITY, "shared-file"),
    Flaw("saves", "step_not_restored", RESUME, "counter"),
    Flaw("saves", "renamed_before_it_is_on_the_disk", POWER, "not-synced"),
    Flaw("saves", "written_in_place", WRITING, "not-recovered"),
)
RIGHT = {
    "loop": (EQUALITY, RESUME, FEWER),
    "fitted": (EQUALITY, RESUME, FEWER, EXPORT),
    "saves": (EQUALITY, RESUME, FEWER, WRITING, POWER),
    "served": (EQUALITY, RESUME, FEWER, COORDINATOR),
}
