"""Uses Horovod, which is not installed."""

import horovod.tensorflow.keras as hvd

hvd.init()
