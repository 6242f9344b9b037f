"""Text tools: lines, words and numbers for people."""
