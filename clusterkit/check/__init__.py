"""Static checks of a program: likely mistakes, found before it starts and used to explain its failure."""
