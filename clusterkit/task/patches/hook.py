"""The import hook: patches modules when they are imported, or at once if a fork server has already imported them.

entry.py loads this file by path if the task's plan names patches. The file imports only standard modules that entry.py
has already imported, and the hook imports only modules that the program itself imports.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, wraps
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Load = Callable[[str], ModuleType]
Apply = Callable[[ModuleType], None]
Calls = Mapping[str, Callable[..., object]]
NONE: Calls = {}
MARK = "clusterkit_patched"  # an attribute of `sys` in each interpreter that is patched now or later

TRAINER = "keras.src.backend.tensorflow.trainer"
CALLBACKS = ("keras.src.callbacks.callback_list", "tf_keras.src.callbacks")
OPTIMIZERS = (
    "keras.src.optimizers.base_optimizer",
    "tf_keras.src.optimizers.optimizer",
    "tf_keras.src.optimizers.legacy.optimizer_v2",
)
CONTEXT = "tensorflow.python.eager.context"
SERVER = "tensorflow.python.training.server_lib"
DISTRIBUTE = "tensorflow.python.distribute"
COORDINATOR = f"{DISTRIBUTE}.coordinator.cluster_coordinator"
STRATEGIES = f"{DISTRIBUTE}.distribute_lib"
FUNCTIONS = "tensorflow.python.eager.polymorphic_function.polymorphic_function"
MULTI_WORKER = f"{DISTRIBUTE}.collective_all_reduce_strategy"
SAVERS = (
    *(f"tensorflow.python.checkpoint.{name}" for name in ("checkpoint", "checkpoint_management", "functional_saver")),
    *("tensorflow.python.training.py_checkpoint_reader", "tensorflow.python.training.saver"),
    *("tensorflow.python.saved_model.save", "tensorflow.python.saved_model.load"),
    *("keras.src.saving.saving_lib", "keras.src.saving.saving_api", "keras.src.models.model"),
    *("tf_keras.src.saving.saving_lib", "tf_keras.src.saving.saving_api", "tf_keras.src.engine.training"),
)
RANDOM_OPERATIONS = tuple(
    f"tensorflow.python.ops.gen_{name}"
    for name in ("random_ops", "stateless_random_ops", "stateless_random_ops_v2", "stateful_random_ops")
)
# REPAIRS, REFUSALS and PROBES map the name of each patch to its modules, and each module to the file and the function
# that patch the module. Repairs change what the program does: words/repairs.py explains each one to people.
REPAIRS = {
    "tf-config": {"os": ("tf_config", "keep")},
    "keras-fit": {
        TRAINER: ("keras/fit", "watch"),
        "keras.src.optimizers.base_optimizer": ("refusals", "refuse_old_optimizers"),
        "keras.src.trainers.data_adapters.array_data_adapter": ("keras/fit", "disable_autotuner"),
    },
    "order": {
        "tensorflow.python.data.util.random_seed": ("order", "seed_datasets"),
        "tensorflow.python.data.ops.dataset_ops": ("order", "shuffle_differently"),
        f"{DISTRIBUTE}.input_lib": ("remaking", "agree"),
        "keras.src.trainers.data_adapters.array_data_adapter": ("order", "shuffle_arrays"),
        "keras.src.trainers.data_adapters.py_dataset_adapter": ("order", "shuffle_batches"),
        "tf_keras.src.engine.data_adapter": ("order", "shuffle_all_of_keras_2"),
        "tf_keras.src.utils.data_utils": ("order", "shuffle_batches"),
    },
    "callbacks-apart": {
        f"keras.src.callbacks.{name}": ("callbacks", "write_separately")
        for name in ("backup_and_restore", "csv_logger", "model_checkpoint", "tensorboard")
    }
    | {"tf_keras.src.callbacks": ("callbacks", "separate_keras_2")},
    "backup-whole": {
        "keras.src.callbacks.backup_and_restore": ("callbacks", "back_up_atomically"),
        **dict.fromkeys(
            ("keras.src.callbacks.model_checkpoint", "tf_keras.src.callbacks"), ("callbacks", "save_atomically")
        ),
    },
    "keras-ps": {
        TRAINER: ("refusals", "refuse_fit"),
        "keras.src.backend.tensorflow.core": ("keras/counters", "add_on_the_server"),
    },
    "coordinator-end": {COORDINATOR: ("endings", "disable_destructor")},
    "coordinator-functions": {CONTEXT: ("endings", "delay_removals")},
    "leader-first": {CONTEXT: ("leader", "wait_for_leader")},
    "sigterm-kept": {"signal": ("replaced_handlers", "chain")},
}
# Refusals only stop a program, with a message. The repair "keras-ps" also contains one.
REFUSALS = {
    "coordinator": dict.fromkeys(
        (f"{DISTRIBUTE}.parameter_server_strategy_v2", COORDINATOR), ("refusals", "refuse_coordination")
    ),
}
# Probes observe, or help to debug.
PROBES = {
    "keras-2": {"tf_keras.src.callbacks": ("keras_2", "watch")},
    "shared-backups": dict.fromkeys(
        ("keras.src.callbacks.backup_and_restore", "tf_keras.src.callbacks"), ("backups", "watch")
    ),
    "program-end": {COORDINATOR: ("endings", "report_end")},
    "sigterm": {
        "signal": ("sigterm", "watch_handlers"),
        MULTI_WORKER: ("sigterm", "watch_tensorflow"),
        f"{DISTRIBUTE}.failure_handling.failure_handling": ("sigterm", "watch_tensorflow"),
        f"{DISTRIBUTE}.failure_handling.preemption_watcher": ("sigterm", "watch_tensorflow"),
    },
    "steps": {
        **dict.fromkeys((*CALLBACKS, *OPTIMIZERS, COORDINATOR), ("steps", "watch")),
        "tensorflow._api.v2.summary": ("metrics", "watch_summaries"),
        f"{DISTRIBUTE}.coordinator.values": ("metrics", "watch_fetches"),
    },
    "evaluations": dict.fromkeys(CALLBACKS, ("steps", "watch_evaluations")),
    "stages": {
        "tensorflow": ("stages", "watch_import"),
        **dict.fromkeys((SERVER, MULTI_WORKER, COORDINATOR, *CALLBACKS), ("stages", "watch")),
    },
    "distribution": dict.fromkeys(
        (
            *(STRATEGIES, CONTEXT, SERVER, COORDINATOR, *CALLBACKS, *OPTIMIZERS),
            *("tensorflow.dtensor.python.layout", "tensorflow.python.eager.backprop"),
        ),
        ("distribution", "watch"),
    ),
    "tracebacks": {
        "tensorflow.python.util.tf_stack": ("tracebacks", "hide_in_graphs"),
        "traceback": ("tracebacks", "hide_in_prints"),
        "threading": ("tracebacks", "hide_in_threads"),
    },
    "breakpoints": {"pdb": ("breakpoints", "hold")},
    "post-mortem": {"sys": ("breakpoints", "hold_raised")},
    "debugpy": {"sys": ("editor", "start")},
    "recorder": {
        "sys": ("recorder/seeds", "keep_states"),
        "os": ("recorder/files", "watch"),
        "io": ("recorder/tables", "watch_os"),
        "tensorflow.python.lib.io.file_io": ("recorder/tables", "watch_gfile"),
        "random": ("recorder/seeds", "seed"),
        "numpy.random": ("recorder/seeds", "seed"),
        "tensorflow.python.ops.stateful_random_ops": ("recorder/seeds", "seed_generators"),
        "tensorflow": ("recorder/seeds", "seed_tensorflow"),
        **dict.fromkeys(("keras", "tf_keras"), ("recorder/seeds", "restore_states")),
        **dict.fromkeys(
            ("keras.src.random.seed_generator", "tf_keras.src.backend"), ("recorder/seeds", "share_layer_seeds")
        ),
        TRAINER: ("recorder/seeds", "build_from_specs"),
        **dict.fromkeys(RANDOM_OPERATIONS, ("recorder/draws", "watch")),
        "keras.src.backend.tensorflow.random": ("recorder/draws", "leave_out_dropout"),
        "keras.src.layers": ("recorder/draws", "leave_out_layers"),
        "tensorflow.python.ops.nn_ops": ("recorder/draws", "leave_out_dropout_of_tensorflow"),
        **dict.fromkeys(
            (
                *("tensorflow.python.ops.resource_variable_ops", f"{DISTRIBUTE}.values"),
                f"{DISTRIBUTE}.cross_device_utils",
                *("keras.src.backend.tensorflow.core", "keras.src.metrics.metric", "tf_keras.src.metrics.base_metric"),
            ),
            ("recorder/state", "watch"),
        ),
        **dict.fromkeys((STRATEGIES, "tensorflow.python.eager.backprop"), ("recorder/rows", "watch")),
        **dict.fromkeys(
            (
                *(*CALLBACKS, *OPTIMIZERS, COORDINATOR, FUNCTIONS),
                *("clusterkit.training.progress", "clusterkit.training.checkpointer"),
            ),
            ("recorder/recorder", "watch"),
        ),
    },
    "step-times": {COORDINATOR: ("closures", "watch_times")},
    "phases": {
        **dict.fromkeys(
            (
                *(*CALLBACKS, *OPTIMIZERS, TRAINER, COORDINATOR, STRATEGIES, FUNCTIONS, *SAVERS),
                *("clusterkit.training.checkpointer", "clusterkit.training.exporting", "clusterkit.training.progress"),
                "h5py._hl.files",
            ),
            ("phased", "watch"),
        ),
        "tensorflow.python.lib.io.file_io": ("phased", "watch_files"),
        "tensorflow.python.ops.gen_io_ops": ("phased", "watch_operations"),
        "sys": ("phases", "begin"),  # last: `begin` pauses a forked task if a fault is due at the program's start
    },
}
PATCHES = {**REPAIRS, **REFUSALS, **PROBES}


def install(names: Iterable[str], load: Load) -> Finder | None:
    """Apply the named patches to their modules, now or when a module is imported. `load` loads a file of task/.

    Return the finder that applies the patches to modules imported later, or None if there are no such patches.
    """
    setattr(sys, MARK, True)
    due: dict[str, list[Apply]] = {}
    for module, (file, function) in [item for name in names for item in PATCHES[name].items()]:
        apply = partial(patch, load=load, file=file, function=function)
        if module in sys.modules:
            apply(sys.modules[module])
        else:
            due.setdefault(module, []).append(apply)
    if not due:
        return None
    sys.meta_path.insert(0, finder := Finder(due))
    return finder


def patch(module: ModuleType, load: Load, file: str, function: str) -> None:
    """Call a patch function for a module; ignore the AttributeError if this module's version lacks an attribute."""
    try:
        getattr(load(f"task/patches/{file}"), function)(module, load)
    except AttributeError:
        return


def replace(owner: Any, name: str, method: Callable[..., Any]) -> None:
    """Replace a method or function by `method`, which takes over the name and docstring of the original.

    TensorFlow's AutoGraph does not convert `method`, just as it does not convert Keras's own functions.
    """
    method = wraps(getattr(owner, name))(method)
    method.autograph_info__ = None  # type: ignore[attr-defined]
    setattr(owner, name, method)


def before(owner: Any, name: str, call: Callable[..., object]) -> None:
    """Patch a method or function to run `call` first, with the same arguments."""
    plain = getattr(owner, name)

    def patched(*args: Any, **kwargs: Any) -> Any:
        call(*args, **kwargs)
        return plain(*args, **kwargs)

    replace(owner, name, patched)


def after(owner: Any, name: str, call: Callable[..., object]) -> None:
    """Patch a method or function to run `call` afterwards, with the same arguments."""
    plain = getattr(owner, name)

    def patched(*args: Any, **kwargs: Any) -> Any:
        result = plain(*args, **kwargs)
        call(*args, **kwargs)
        return result

    replace(owner, name, patched)


def before_first(owner: Any, name: str, call: Callable[..., object]) -> None:
    """Patch a method to run `call` before its first call, and then to undo the patch.

    If the method has been patched again in the meantime, this patch stays. So `call` may run several times, and must
    have no effect after the first time.
    """
    plain = getattr(owner, name)

    def patched(*args: Any, **kwargs: Any) -> Any:
        if getattr(owner, name) is patched:
            setattr(owner, name, plain)
        call(*args, **kwargs)
        return plain(*args, **kwargs)

    replace(owner, name, patched)


def watch(module: ModuleType, after_calls: Calls, before_calls: Calls = NONE, first_calls: Calls = NONE) -> None:
    """Patch methods, named `Class.method`, to run a function after or before each call, or before the first call.

    Skip classes that the module lacks.
    """
    for patched, calls in ((after, after_calls), (before, before_calls), (before_first, first_calls)):
        for path, call in calls.items():
            kind, _, method = path.partition(".")
            if hasattr(module, kind):
                patched(getattr(module, kind), method, call)


class Finder:
    """A meta path finder that patches the modules in `due` when they are imported, then removes itself."""

    def __init__(self, due: dict[str, list[Apply]]) -> None:
        self.due = due

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """For a module in `due`, return another finder's spec, with the loader wrapped in a Loader; otherwise None."""
        if name not in self.due:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: ModuleSpec | None = find(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = Loader(spec.loader, self)  # type: ignore[assignment]
                return spec
        return None

    def loaded(self, module: ModuleType) -> None:
        patches = self.due.pop(module.__name__, [])
        if not self.due and self in sys.meta_path:
            sys.meta_path.remove(self)
        for apply in patches:
            apply(module)


class Loader:
    """Wraps a module's loader to call `finder.loaded` after the import. `__loader__` remains the wrapped loader."""

    def __init__(self, plain: Any, finder: Finder) -> None:
        self.plain = plain
        self.finder = finder

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self.plain.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.plain
        if module.__spec__ is not None:
            module.__spec__.loader = self.plain
        self.plain.exec_module(module)
        self.finder.loaded(module)
