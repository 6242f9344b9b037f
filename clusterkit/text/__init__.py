"""Text: what is done with lines, words and numbers for people."""
