"""Hints for users who give `up` an option under the name that another launcher uses."""

from __future__ import annotations

from collections.abc import Collection, Mapping

_ADDRESSES = "Leave it out: clusterkit chooses the addresses and gives them to each task in TF_CONFIG."
_IDENTITY = "Leave it out: clusterkit starts every task and gives it its type and index in TF_CONFIG."
_OUTPUT = "Leave it out: the output of every task is kept. `clusterkit logs` prints it."
_PROGRAM = "Leave it to the program: what comes after the program, or after `-m NAME --`, is passed to it."
_DRY = "Leave it out: `clusterkit config --tasks` prints what `up` would start."

# Key: an option of clusterkit, or the reason why no option is needed. Value: the names in mpirun, horovodrun, torchrun,
# accelerate, deepspeed, ray, docker, batch systems and programs for TensorFlow 1.
_NAMES: Mapping[str, str] = {
    "workers": "n np nproc nproc-per-node npernode num-proc num-procs num-processes num-workers n-workers nworkers "
    "num-replicas replicas processes procs ntasks ntasks-per-node tasks num-tasks worker w",
    "hosts": "N nnodes num-nodes nodes num-machines num-hosts",
    "ps": "num-ps num-servers num-parameter-servers parameter-servers ps-replicas",
    "gpus-per-task": "gpus gpu num-gpus gpus-per-node gpus-per-worker gpu-ids multi-gpu use-gpu gres",
    "cpus-per-task": "c cpus cores num-cpus cpus-per-proc cpus-per-worker num-cpu-threads-per-process bind-to map-by",
    "env": "x export environment runtime-env runtime-env-json",
    "cwd": "wd wdir workdir working-dir chdir directory",
    "file": "config config-file job job-file",
    "host": "H",
    "hosts-file": "hostfile machinefile",
    "interface": "network-interface network-interfaces",
    "restart-budget": "max-restarts max-retries retries restarts reset-limit",
    "min-workers": "min-np min-num-proc",
    "startup-timeout": "start-timeout elastic-timeout",
    "run-id": "name rdzv-id submission-id",
    "watch": "reload",
    "detach": "b bg background daemon",
    "all-output": "v verbose",
    _ADDRESSES: "master-addr master-port master-address main-process-ip main-process-port rdzv-backend rdzv-endpoint "
    "rdzv-conf local-addr address port head worker-hosts ps-hosts",
    _IDENTITY: "node-rank machine-rank rank local-rank task-index task-type task-id job-name",
    _PROGRAM: "epochs batch-size lr learning-rate steps data-dir model-dir",
    _DRY: "dry-run dryrun",
    _OUTPUT: "log-dir output-filename redirects tee tag-output",
    "Leave it out: without --hosts, every task runs on this machine.": "standalone localhost local",
    "Leave it out: a program that is not Python is run as it is.": "no-python",
    "Leave it out: it is not needed here.": "allow-run-as-root oversubscribe mpi gloo nccl",
}
KNOWN: Mapping[str, str] = {name: key for key, names in _NAMES.items() for name in names.split()}


def hint_for(typed: str, own: Collection[str]) -> str | None:
    """Return a hint for the error "no such option" if `typed` is an option of another launcher; otherwise None.

    `own` are the flags, job file keys or keywords that are valid here. The hint names clusterkit's option in the same
    form.
    """
    name = typed.lstrip("-").replace("_", "-")
    known = KNOWN.get(name if len(name) == 1 else name.lower())
    if known is None or known.startswith("Leave"):
        return known
    forms = (f"--{known}", known, known.replace("-", "_"))
    return next((f"It is called {form} here." for form in forms if form in own), None)
