"""Static checks that find likely mistakes before a program starts, and help to explain why a program failed."""
