"""The notebook magics `%cluster` and `%%cluster`, and the output of clusters in cells."""
