"""A run as its entities, made by hand: a worker is killed, its chief dies of that, and both come back."""

from __future__ import annotations

from dataclasses import replace

from clusterkit.page.model import entities as en

RUN = en.Run(
    id="20261122-080115-c2ea", program="ps_train.py", command="clusterkit up --workers 2 ps_train.py",
    shape="1 chief, 1 worker, 1 ps", strategy="ParameterServerStrategy", phase="over", state="succeeded",
    text="chief:0 exited with code 0", wall=1.7e9, ended=30.0, step=90, total=90, speed=None, restarts=1, exit_code=0,
    network="host", engine="local", tensorboard=None, resume=None, directory="/runs/20261122-080115-c2ea",
)  # fmt: skip


def row(task: str, **more: object) -> en.TaskRow:
    """A task."""
    made = en.TaskRow(
        task=task, type=task.partition(":")[0], color=1, state="down", attempt=2, host=None, endpoint="127.0.0.1:9",
        pid=None, ready=True, step=90, old=False, steps=True, total=90, speed=3.0, metrics={"loss": 0.25}, cpu=150.0,
        memory=2**30, faults=(), note="",
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


def bar(task: str, number: int, begin: float, end: float | None, how: str, *segments: en.Segment) -> en.Attempt:
    """An attempt."""
    return en.Attempt(task, number, begin, end, how, "killed by SIGKILL", segments, (1, 40), None)


def entities() -> dict[str, en.Entity]:
    """Of the whole run."""
    return {
        "run": RUN,
        "task/chief:0": row("chief:0"),
        "task/worker:0": row("worker:0", metrics={"loss": None, "accuracy": 0.5, "name": "x"}, step=None),
        "attempt/chief:0/1": bar(
            "chief:0", 1, 0.5, 10.2, "collateral", en.Segment(0.5, 2.0, "start"), en.Segment(2.0, 8.0, "run"),
            en.Segment(8.0, 10.2, "lost", "These steps were computed again."),
        ),
        "attempt/chief:0/2": bar("chief:0", 2, 11.0, 30.0, "success", en.Segment(11.0, None, "run")),
        "attempt/worker:0/1": bar("worker:0", 1, 0.6, 10.0, "fault"),
        "attempt/worker:0/2": bar("worker:0", 2, 11.0, None, "running", en.Segment(11.0, 12.0, "start")),
        "mark/0": en.Mark(10.0, "fault", "worker:0", "Fault 1: kill worker:0", None, 1),
        "mark/1": en.Mark(15.0, "fault", None, "Fault 2: slow worker:0, chief:0 share=20%", 18.0, 2),
        "mark/2": en.Mark(8.0, "checkpoint", "chief:0", "checkpoint of step 40"),
        "mark/3": en.Mark(10.4, "restart", None, "Restarting chief:0 and worker:0"),
        "link/0": en.CauseLink(("worker:0", 10.0), ("chief:0", 10.2), "brought down"),
        "story/0": en.Story(10.0, "kill", (), 4.0, 12, 10.1, 10.4, 11.5, 14.0, "ckpt-40"),
        "goodput": en.Goodput(30.0, 0.8, (en.TimeShare("training", 24.0), en.TimeShare("start-up", 6.0)), "start-up"),
        "startup/chief:0": en.Startup(
            "chief:0", (en.Segment(0.5, 1.5, "import"), en.Segment(1.5, 2.0, "connect")), (True, False)
        ),
    }  # fmt: skip


SERIES = {
    "step/chief:0": {"t": [2.0, 8.0, 12.0], "v": [1.0, 40.0, 41.0]},
    "loss/chief:0": {"t": [2.0, 8.0], "v": [float("nan"), 0.5]},
    "a/b/worker:0": {"t": [2.0], "v": [3.0]},
    "loss/nobody:7": {"t": [1.0], "v": [1.0]},
}
