"""Asks the person at the terminal."""

print(input("How many epochs? "))
