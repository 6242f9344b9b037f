"""Looking at a machine: facts, collected with effects, and the rules that judge them."""
