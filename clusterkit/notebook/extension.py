"""The IPython extension that `%load_ext clusterkit` loads."""

from __future__ import annotations

from IPython.core.interactiveshell import InteractiveShell

from clusterkit.api.cluster import watchers
from clusterkit.notebook.magics import ClusterMagics


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register the magics, unless they are already registered."""
    if ClusterMagics.__name__ in shell.magics_manager.registry:
        return
    magics = ClusterMagics(shell)
    shell.register_magics(magics)
    watchers.append(magics.clusters.show)
    shell.events.register("pre_run_cell", magics.before)
    shell.events.register("post_run_cell", magics.after)
