"""The notebook magics `%cluster` and `%%cluster`, and the display of clusters in cells."""
