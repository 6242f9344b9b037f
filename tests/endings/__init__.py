"""Random situations, in which the tasks of tiny jobs end in every way: what the run says of them, and what is left."""
