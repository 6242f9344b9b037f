"""The magics of notebooks: `%cluster` and `%%cluster`."""
