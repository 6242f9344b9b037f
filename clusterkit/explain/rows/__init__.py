"""The rows of the table of known failures, in a file for each subject."""
