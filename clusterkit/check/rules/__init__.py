"""The rules of `clusterkit check`, in a file for each subject."""
