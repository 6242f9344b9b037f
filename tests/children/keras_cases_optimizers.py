"""Optimizers, schedules, clipping, averages, accumulation and mixed precision."""

from keras_cases import LESS, X, classifier, compiled, fitted, keras, layers, several, table

CASES, case = table()
optimizers = keras.optimizers


def with_optimizer(make):
    return fitted(classifier(optimizer=make()), rows=LESS)


several(
    CASES,
    "optimizer",
    with_optimizer,
    momentum=lambda: optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    adam=lambda: optimizers.Adam(0.02),
    amsgrad=lambda: optimizers.Adam(0.02, amsgrad=True),
    adamw=lambda: optimizers.AdamW(0.02, weight_decay=0.1),
    rmsprop=lambda: optimizers.RMSprop(0.02, centered=True, momentum=0.5),
    adagrad=lambda: optimizers.Adagrad(0.1),
    adadelta=lambda: optimizers.Adadelta(1.0),
    nadam=lambda: optimizers.Nadam(0.02),
    ftrl=lambda: optimizers.Ftrl(0.1, l1_regularization_strength=0.01),
    lion=lambda: optimizers.Lion(0.01),
    adafactor=lambda: optimizers.Adafactor(0.1),
    lamb=lambda: optimizers.Lamb(0.02),
    schedule=lambda: optimizers.SGD(optimizers.schedules.ExponentialDecay(0.3, 2, 0.8)),
    warm_cosine=lambda: optimizers.SGD(optimizers.schedules.CosineDecay(0.01, 10, warmup_target=0.3, warmup_steps=3)),
    clipnorm=lambda: optimizers.SGD(0.5, clipnorm=0.05),
    global_clipnorm=lambda: optimizers.SGD(0.5, global_clipnorm=0.05),
    clipvalue=lambda: optimizers.SGD(0.5, clipvalue=0.02),
    average=lambda: optimizers.SGD(0.3, use_ema=True, ema_momentum=0.7),
    average_overwritten=lambda: optimizers.SGD(0.3, use_ema=True, ema_momentum=0.7, ema_overwrite_frequency=3),
    accumulation=lambda: optimizers.SGD(0.3, gradient_accumulation_steps=2),
    accumulation_of_adam=lambda: optimizers.Adam(0.02, gradient_accumulation_steps=2),
    accumulation_with_a_schedule=lambda: optimizers.SGD(
        optimizers.schedules.ExponentialDecay(0.3, 2, 0.8), weight_decay=0.01, gradient_accumulation_steps=3
    ),
    accumulation_clipped=lambda: optimizers.SGD(0.5, clipnorm=0.05, gradient_accumulation_steps=2),
    accumulation_averaged=lambda: optimizers.SGD(
        0.3, use_ema=True, ema_momentum=0.7, ema_overwrite_frequency=2, gradient_accumulation_steps=2
    ),
    loss_scale=lambda: optimizers.LossScaleOptimizer(optimizers.SGD(0.2), initial_scale=1024.0, dynamic_growth_steps=3),
)


@case
def frozen_layers():
    hidden = layers.Dense(5, "tanh")
    hidden.trainable = False
    return fitted(classifier(hidden))


@case
def shared_embedding():
    words = keras.Input((7,), dtype="int32")
    from keras_cases import WORDS

    model = keras.Model(words, layers.Dense(3)(layers.Flatten()(layers.Embedding(20, 3)(words))))
    return fitted(compiled(model, optimizers.SGD(0.3, global_clipnorm=0.1)), WORDS, rows=LESS)


def mixed(policy, x=X):
    keras.mixed_precision.set_global_policy(policy)
    try:
        model = classifier(layers.Dense(5, "tanh"), optimizer=optimizers.SGD(0.1))
        model, history = fitted(model, x)
    finally:
        keras.mixed_precision.set_global_policy("float32")
    scale = getattr(model.optimizer, "dynamic_scale", None)
    return model, {
        **history,
        "scale": 1.0 if scale is None else scale.numpy(),
        "steps": model.optimizer.iterations.numpy(),
    }


@case
def mixed_bfloat16():
    return mixed("mixed_bfloat16")


@case
def mixed_float16():
    return mixed("mixed_float16")


@case
def mixed_float16_where_one_row_overflows():
    """The row is in one worker's part of the first batch: all have to skip the step."""
    rows = X.copy()
    rows[12] = 65000.0
    return mixed("mixed_float16", rows)
