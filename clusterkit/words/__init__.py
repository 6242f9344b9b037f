"""The vocabulary: frozen values, such as jobs, events and actions, that all other packages of clusterkit use."""
