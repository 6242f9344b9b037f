"""Programs that use TensorFlow. See cases.py for the options in brackets."""

TEXT = r"""
### computes with TensorFlow [no plain]
import tensorflow as tf
print(tf.__version__, tf.executing_eagerly(), tf.config.list_physical_devices())
print(tf.constant([1.0, 2.0]) @ tf.constant([[3.0], [4.0]]) if False else tf.linalg.matvec([[1.0, 2.0]], [3.0, 4.0]))
@tf.function
def f(x):
    if tf.reduce_sum(x) > 0:
        print('traced')
        return x * 2
    return x
print(f(tf.constant([1.0])), f(tf.constant([-1.0])))
print(list(tf.data.Dataset.range(6).shuffle(6, seed=1).map(lambda x: x + 1).batch(4).as_numpy_iterator()))
tf.random.set_seed(5)
print(tf.random.uniform([2]))
import keras
keras.utils.set_random_seed(7)
print(keras.__version__, keras.backend.backend(), tf.keras.__name__)
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile('sgd', 'mse')
print(model.fit(tf.ones([8, 2]), tf.ones([8, 1]), verbose=0, shuffle=False).history)
print(model.layers[0].name, [v.path for v in model.variables])
### configures TensorFlow before it is used [no plain]
import logging, os, sys
import tensorflow as tf
threads = len(os.listdir('/proc/self/task'))  # OpenBLAS begins with its own, in a fork when they are needed
print(tf.config.threading.get_intra_op_parallelism_threads(), tf.config.get_soft_device_placement())
cpu = tf.config.list_physical_devices('CPU')[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
tf.config.threading.set_inter_op_parallelism_threads(3)
print(tf.config.list_logical_devices())
with tf.device('CPU:2'):
    print(tf.constant(1).device)
print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['TF_NUM_INTRAOP_THREADS'])
a = tf.random.stateless_uniform([300, 300], [1, 2])
print(float(tf.reduce_sum(tf.linalg.matmul(a, a))))
print(len(os.listdir('/proc/self/task')) - threads)
tf.get_logger().warning('by its logger')
logging.warning('by the root logger')
tf.get_logger().warning('by its logger again')
try:
    tf.constant([1]) + tf.constant('x')
except Exception as error:
    print(type(error), str(error)[:200])
sys.exit(0)
### fails inside a traced function [no plain]
import re, traceback
import tensorflow as tf
@tf.function
def f(x):
    return tf.reshape(x, [7]) + undefined
try:
    f(tf.ones([3]))
except ValueError:
    print(re.sub('generated_file.*?[.]py', 'generated.py', traceback.format_exc()))
### fails inside TensorFlow [no plain] [fails]
import tensorflow as tf
tf.reshape(tf.ones([3]), [7])
### uses TensorFlow in its own processes [no plain]
import multiprocessing as m
import tensorflow as tf
def f(x):
    return float(tf.reduce_sum(tf.ones([x])))
if __name__ == '__main__':
    with m.get_context('fork').Pool(2) as pool:
        print(pool.map(f, [1, 2]))
### has TensorFlow's chances of its own [no plain] [differs]
import tensorflow as tf, keras
print(tf.random.uniform([2]), tf.random.Generator.from_non_deterministic_state().uniform([1]))
print(keras.random.uniform([2]), keras.initializers.GlorotUniform()((2, 2)))
print(next(tf.data.Dataset.range(10**9).shuffle(10**4).as_numpy_iterator()))
"""
