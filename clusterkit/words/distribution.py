"""Descriptions of how a task trains with TensorFlow, and of tasks that train alone although they have peers."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from clusterkit.text.spelling import listed
from clusterkit.words.model import Task

NAMED = 4  # the maximum number of tasks that a message lists; further tasks are only counted
DTENSOR = "DTensor"
SPANS_TASKS = ("MultiWorkerMirroredStrategy", "ParameterServerStrategy")


class Training(enum.StrEnum):
    """How a program trains with TensorFlow, as far as clusterkit's code in the task has observed."""

    NONE = "none"
    LOOP = "loop"  # the program has created an optimizer or taken a gradient, so it may have its own training loop
    SCOPED = "scoped fit"  # the program calls `fit` of a model that was created in the scope of a strategy
    FIT = "fit"  # the program calls `fit` only of models that were created outside the scope of a strategy
    UNCALLED = "uncalled"  # the program has ended without calling the function main() that it defines


class WhyAlone(enum.StrEnum):
    """Why a task trains alone, or does not train."""

    NEVER_CONNECTED = "never connected"  # the task did not join a TensorFlow cluster
    NO_SCOPE = "outside the scope"  # the task joined the cluster, but called `fit` outside the scope of the strategy
    ONE_FIT = "one fit outside the scope"  # the same, but another `fit` of the program was distributed
    UNCALLED = "main() is not called"


@dataclass(frozen=True, slots=True)
class Undistributed:
    """Tasks that trained alone, and the reason. `strategies` are the names of the strategies that the program created.

    `has_ps` is True if the job has parameter servers. `place` is where the program called the `fit` that trained alone,
    as in `train.py, line 14`; "" if unknown.
    """

    tasks: tuple[Task, ...]
    why: WhyAlone
    strategies: tuple[str, ...] = ()
    has_ps: bool = False
    place: str = ""

    def __str__(self) -> str:
        """Return one or two sentences for people: the tasks that trained alone, and the reason."""
        if self.why is WhyAlone.UNCALLED:
            return f"{self.clause}: the program defines main() but never calls it."
        if self.why is WhyAlone.NO_SCOPE:
            return f"{self.clause}: {self._fit} ran outside the scope of the strategy."
        if self.why is WhyAlone.ONE_FIT:
            return (
                f"{self.clause}: its model was created outside the scope of the strategy. Another fit of the program "
                "ran in a scope."
            )
        each = "it" if len(self.tasks) == 1 else "each"
        return f"{self._who()} never connected: {each} trained alone. {self._made()}"

    @property
    def clause(self) -> str:
        """Return a clause for people, such as `worker:0 and worker:1 each trained alone`."""
        if self.why is WhyAlone.UNCALLED:
            return f"{self._who()} did not train"
        fit = f" in {self._fit}" if self.why is WhyAlone.ONE_FIT else ""
        return f"{self._who()} {'' if len(self.tasks) == 1 else 'each '}trained alone{fit}"

    @property
    def mend(self) -> tuple[str, ...]:
        """Return the lines of code that make the training distributed."""
        if self.why is WhyAlone.UNCALLED:
            return ('if __name__ == "__main__":', "    main()")
        if self.has_ps and self.why is WhyAlone.NEVER_CONNECTED:
            return (
                "from clusterkit import training",
                "training.serve()  # workers and parameter servers serve here, and never return",
                "strategy = training.strategy()  # the coordinator creates its variables in strategy.scope()",
            )
        if self.why is WhyAlone.ONE_FIT:
            return ("with strategy.scope():", "    model = …  # create, or load, the second model here, too")
        if DTENSOR in self.strategies:
            return (
                'config = json.loads(os.environ["TF_CONFIG"]); workers = config["cluster"]["worker"]',
                'os.environ |= {"DTENSOR_JOB_NAME": "worker", "DTENSOR_JOBS": ",".join(workers)}',
                'os.environ["DTENSOR_NUM_CLIENTS"] = str(len(workers))',
                'os.environ["DTENSOR_CLIENT_ID"] = str(config["task"]["index"])',
            )
        kind, made = ("ParameterServerStrategy", "…") if self.has_ps else ("MultiWorkerMirroredStrategy", "")
        return (
            f"strategy = tf.distribute.{kind}({made})  # before anything else",
            "with strategy.scope():",
            "    model = …  # create and compile it here",
        )

    @property
    def _fit(self) -> str:
        return f"the fit at {self.place}" if self.place else "fit"

    def _who(self) -> str:
        return listed(self.tasks, None if len(self.tasks) <= NAMED else NAMED - 1)

    def _made(self) -> str:
        if not self.strategies:
            return "The program creates no tf.distribute strategy."
        if DTENSOR in self.strategies:
            return "Without DTensor's environment variables, DTensor does not find the other tasks."
        one = self.strategies[0]
        if one in SPANS_TASKS:
            return (
                f"The cluster of the program's {one} has only one task, so the cluster does not come from clusterkit's "
                "TF_CONFIG."
            )
        return f"The program's {one} uses only the devices of one task."
