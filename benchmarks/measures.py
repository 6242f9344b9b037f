"""The measures: every scenario, and the lines of the table with what is asked of them."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.counting import counting_scenarios, fit_ending_scenario
from benchmarks.edits import edit_scenarios
from benchmarks.figures import Kind, Row, Target
from benchmarks.networks import mwms_network_scenario, ps_network_scenario
from benchmarks.output import output_scenario
from benchmarks.plain import ending_scenario, growth_scenario, many_scenario, restart_scenario
from benchmarks.recovery import gang_scenario, worker_scenario
from benchmarks.scenario import Scenario
from benchmarks.slurm import slurm_scenario
from benchmarks.training import mwms_scenario, ps_scenario, steady_scenarios

# The supervisor's time for a task with 256 tasks over that with 64. 1 is what is meant; clocks of 10 ms are coarse.
NO_GROWTH = 1.15
# That steps are counted costs at most 0.5 % of them.
COUNTING = Target(0.995, "uncounted", least=True)

ROWS = (
    Row(
        "PS job (chief, 2 workers, ps), 200 steps, start to end", "ps", "end", "s",
        (Target(0.45, "honcho"), Target(0.50, "shell"), Target(0.45, "mpr")),
    ),
    Row("PS job, start to first step", "ps", "first", "s"),
    Row("PS job after `clusterkit warm`, start to first step", "ps", "first", "s", (Target(0.25, "honcho"),), "warmed"),
    Row("MWMS, 8 workers, start to first step", "mwms8", "first", "s", (Target(0.35, "honcho"),)),
    Row("memory of 8 tasks and all that starts them (PSS)", "mwms8", "pss", "MB", (Target(0.60, "cold"),)),
    Row("  of it not in the tasks", "mwms8", "beside", "MB"),
    Row("supervisor beside 8 training tasks, resident", "mwms8", "supervisor", "MB", (Target(60, kind=Kind.ABSOLUTE),)),
    Row("  its guardian", "mwms8", "guardian", "MB"),
    Row("  processor time of both, of a core", "mwms8", "cpu", "%", (Target(0.5, kind=Kind.ABSOLUTE),)),
    Row("PS worker SIGKILLed, kill to its server up again", "ps-worker-killed", "back", "s", (Target(0.15, "cold"),)),
    Row(
        "MWMS worker SIGKILLed, kill to first step of the new gang", "mwms-worker-killed", "back", "s",
        (Target(0.30, "cold"),),
    ),
    *(
        Row(f"{what} edited, save to first new step", f"edit-{kind}", "back", "s", (Target(1.2, "restart"),))
        for kind, what in (("ps", "PS job"), ("mwms", "MWMS, 2 workers,"))
    ),
    Row(
        "output of 4 tasks, short lines, merged and prefixed", "output", "rate", "MB/s",
        (Target(60, "honcho", least=True), Target(0.25, "limit", least=True)),
    ),
    Row("  of all lines", "output", "shown", "%"),
    Row("output of 4 tasks, their files alone", "output", "rate", "MB/s", (Target(0.6, "limit", least=True),), "files"),
    Row("256 tasks of sleep, all up and all down again", "many", "both", "s", (Target(2.5, "limit"),)),
    Row("  all up", "many", "up", "s"),
    Row("  all down", "many", "down", "s"),
    Row("supervisor's time per task, 64 tasks", "growth", "few", "ms"),
    Row("supervisor's time per task, 256 tasks", "growth", "many", "ms"),
    Row("  of that with 64", "growth", "growth", "times", (Target(NO_GROWTH, kind=Kind.ABSOLUTE),)),
    Row("SIGINT to everything gone, 8 obedient tasks", "ending", "down", "s", (Target(0.3, "limit", Kind.DIFFERENCE),)),
    Row(
        "SIGINT to everything gone, a mirrored `fit` of 2 workers", "fit-ending", "down", "s",
        (Target(2, kind=Kind.ABSOLUTE),),
    ),
    Row("plain program SIGKILLed, kill to it running again", "plain-restart", "back", "s"),
    Row(
        "PS job on Slurm, begin of its batch script to first step", "slurm", "first", "s", (Target(1.0, "srun"),)
    ),
    Row("  its worker SIGKILLed, kill to its server up again", "slurm", "back", "s", (Target(0.2, "srun"),)),
    Row(
        "training, PS job, a checkpoint every 250 steps", "steady", "rate", "steps/s",
        (Target(0.98, "without", least=True), Target(0.98, "shell", least=True)),
    ),
    Row("  a checkpoint holds up training for", "steady", "held", "ms", (Target(0.5, "shell"),)),
    Row("  the same without checkpoints", "steady-bare", "rate", "steps/s", (Target(0.98, "shell", least=True),)),
    *(
        Row(f"{what} whose steps clusterkit counts", f"counting-{kind}", "rate", "steps/s", (COUNTING,))
        for kind, what in (("ps", "a coordinator's closures"), ("mwms", "a mirrored loop"), ("fit", "one `fit`"))
    ),
    Row("training, PS job, virtual network", "ps-network", "rate", "steps/s", (Target(0.9, "host", least=True),)),
    Row("training, MWMS, virtual network", "mwms-network", "rate", "steps/s", (Target(0.9, "host", least=True),)),
)  # fmt: skip


def scenarios(torchrun: Sequence[str] | None) -> list[Scenario]:
    """In the order in which they are run. `torchrun` is how torchrun is started, where it is there."""
    start = list(torchrun) if torchrun else None
    return [
        output_scenario(start),
        many_scenario(start),
        growth_scenario(),
        ending_scenario(start),
        fit_ending_scenario(),
        restart_scenario(start),
        ps_scenario(),
        worker_scenario(),
        gang_scenario(),
        *edit_scenarios(),
        *steady_scenarios(),
        *counting_scenarios(),
        ps_network_scenario(),
        mwms_network_scenario(),
        mwms_scenario(),
        slurm_scenario(),
    ]
