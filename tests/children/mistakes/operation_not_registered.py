"""Loads a graph with an operation of a package that it does not import."""

import tensorflow as tf

graph = tf.compat.v1.GraphDef()
graph.node.add(name="sum", op="HorovodAllreduce")
with tf.Graph().as_default():
    tf.import_graph_def(graph)
