"""The magics of notebooks: `%cluster` and `%%cluster`."""

from clusterkit.notebook.extension import load_ipython_extension

__all__ = ["load_ipython_extension"]
