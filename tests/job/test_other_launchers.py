"""What other launchers call the options of `up`: each name leads to the option here, or to why there is none."""

from __future__ import annotations

import pytest

from clusterkit.job.jobfile import KEYS
from clusterkit.job.options import OPTIONS
from clusterkit.job.other_launchers import KNOWN, hint_for

FLAGS = [entry.flag for entry in OPTIONS.values()]
TYPED = {  # what people type for mpirun, horovodrun, torchrun, accelerate, deepspeed, srun and ray
    "-np": "It is called --workers here.",
    "-n": "It is called --workers here.",
    "--np": "It is called --workers here.",
    "--nproc-per-node": "It is called --workers here.",
    "--nproc_per_node": "It is called --workers here.",
    "--num_workers": "It is called --workers here.",
    "--num-processes": "It is called --workers here.",
    "--nnodes": "It is called --hosts here.",
    "-N": "It is called --hosts here.",
    "--num_machines": "It is called --hosts here.",
    "--gpus": "It is called --gpus-per-task here.",
    "--num-gpus": "It is called --gpus-per-task here.",
    "--num-cpus": "It is called --cpus-per-task here.",
    "--parameter-servers": "It is called --ps here.",
    "-x": "It is called --env here.",
    "--working-dir": "It is called --cwd here.",
    "--hostfile": "It is called --hosts-file here.",
    "-H": "It is called --host here.",
    "--config_file": "It is called --file here.",
    "--max-restarts": "It is called --restart-budget here.",
    "--min-np": "It is called --min-workers here.",
    "--master_port": "Leave it out: clusterkit chooses the addresses and gives them to each task in TF_CONFIG.",
    "--rdzv-backend": "Leave it out: clusterkit chooses the addresses and gives them to each task in TF_CONFIG.",
    "--task_index": "Leave it out: clusterkit starts every task and gives it its type and index in TF_CONFIG.",
    "--epochs": "Leave it to the program: what comes after the program, or after `-m NAME --`, is passed to it.",
    "--restarts": "It is called --restart-budget here.",
    "--worker": "It is called --workers here.",
    "--standalone": "Leave it out: without --hosts, every task runs on this machine.",
    "--log-dir": "Leave it out: the output of every task is kept. `clusterkit logs` prints it.",
}


@pytest.mark.parametrize("name", TYPED)
def test_the_option_that_is_meant(name: str) -> None:
    """With dashes or underscores, and with one dash or two."""
    assert hint_for(name, FLAGS) == TYPED[name]


def test_a_key_of_a_job_file_has_no_dashes() -> None:
    """It leads to the key; a keyword of Python to the keyword."""
    assert hint_for("max_restarts", OPTIONS) == "It is called restart_budget here."
    assert hint_for("num_workers", KEYS) == "It is called workers here."


def test_other_names_say_nothing() -> None:
    """A mistyped option is suggested by its spelling."""
    assert {hint_for(name, FLAGS) for name in ("--wrokers", "-", "--", "", "-ñ", "--\0")} == {None}


def test_every_name_is_none_of_ours_and_leads_to_one_of_ours() -> None:
    """A name that becomes an option here must leave the table."""
    keys = {entry.key for entry in OPTIONS.values()}
    assert hint_for("--gpus", ("--workers",)) is None
    assert not keys & KNOWN.keys()
    keys |= {"detach", "all-output"}  # of `up` itself
    assert {key for key, known in KNOWN.items() if not known.startswith("Leave") and known not in keys} == set()
