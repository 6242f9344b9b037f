"""What kind of mistake explains that one worker and several do not compute the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import pytest

from clusterkit.exam.equality import agreement, compared, equality, other_order
from clusterkit.exam.recording import Draw, Recording, Values, Variable, VariableState
from clusterkit.words.model import Task, TaskType

RNG = np.random.default_rng(7)
GRADIENT = RNG.normal(size=(4, 3)).astype("float32")
BEFORE = RNG.normal(size=(4, 3)).astype("float32")
ROWS = [f"{number:016x}" for number in range(8)]


def recording(
    index: int,
    weights: Mapping[int, Values],
    rows: Mapping[int, list[str]] | None = None,
    more: Mapping[str, tuple[str, Values]] | None = None,
) -> Recording:
    """What a worker recorded: the weights after some steps, other variables after step 1, and the rows of each step."""
    states = {
        step: VariableState(step, {"kernel": Variable("weight", False, values)}) for step, values in weights.items()
    }
    if more and 1 in states:
        others = {name: Variable(kind, False, values) for name, (kind, values) in more.items()}
        states[1] = VariableState(1, {**states[1].variables, **others})
    taken = {step: tuple(each) for step, each in (rows or {}).items()}
    return Recording(Task(TaskType.WORKER, index), 1, states, states.get(0), rows=taken)


def trained(factor: float, noise: float = 0.0) -> dict[int, Values]:
    """The weights before and after a step of plain gradient descent with a gradient that is larger by a factor."""
    step = GRADIENT * np.float32(factor) + RNG.normal(size=GRADIENT.shape).astype("float32") * np.float32(noise)
    return {0: BEFORE, 1: BEFORE - np.float32(0.1) * step}


def codes(one: Recording, *several: Recording) -> list[str]:
    """The codes of what is found."""
    return [finding.code for finding in equality(one, several)]


@pytest.mark.parametrize(
    ("factor", "noise", "found"),
    [
        (1.0, 0.0, []),
        (1.0, 1e-5, []),  # rounding
        (1.0, 1e-3, ["differs"]),
        (2.0, 0.0, ["loss-summed"]),
        (2.0, 1e-3, ["loss-summed"]),
        (0.5, 0.0, ["averaged-twice"]),
        (1.5, 0.0, ["differs"]),
        (1.0, 0.5, ["differs"]),
        (4.0, 0.0, ["differs"]),
    ],
)
def test_a_constant_factor_is_named(factor: float, noise: float, found: list[str]) -> None:
    """Twice with two workers, or half; anything else has no name."""
    theirs = trained(factor, noise)
    assert codes(recording(0, trained(1.0)), recording(0, theirs), recording(1, theirs)) == found


def drifting(*offsets: float) -> dict[int, Values]:
    """The weights before and after steps of gradient descent, in each of which an error of this size is added."""
    weights = {0: BEFORE}
    for step, offset in enumerate(offsets, 1):
        error = np.float32(offset) * np.sign(RNG.normal(size=GRADIENT.shape)).astype("float32")
        weights[step] = weights[step - 1] - np.float32(0.1) * GRADIENT + error
    return weights


class Reruns:
    """What the exam records if it runs one worker again, and how often it has done so."""

    def __init__(self, followed: Mapping[int, Values], nudged: Mapping[int, Values]) -> None:
        self.recordings = {False: recording(0, followed), True: recording(0, nudged)}
        for each in self.recordings.values():
            each.followed = {1, 2}
        self.asked: list[bool] = []

    def __call__(self, nudged: bool) -> Recording:
        """Run it again."""
        self.asked.append(nudged)
        return self.recordings[nudged]


SMOOTH, LATE = (0.0, 0.0, 0.0), (0.0, 0.0, 0.02)
EARLY = (0.001, 0.0, 0.0)


@pytest.mark.parametrize(
    ("several", "followed", "nudged", "asked", "found"),
    [
        (SMOOTH, SMOOTH, SMOOTH, [], []),
        (LATE, LATE, SMOOTH, [False], []),  # from equal values, one worker computes the same
        (LATE, SMOOTH, SMOOTH, [False, True], ["differs"]),
        (LATE, SMOOTH, (0.0, 0.0, 0.01), [False, True], []),  # a rounding error alone has half the effect
        (LATE, SMOOTH, (0.0, 0.0, 1e-5), [False, True], ["differs"]),
        (EARLY, SMOOTH, SMOOTH, [True], ["differs"]),  # nothing can have added up before the first record
        (EARLY, SMOOTH, EARLY, [True], []),
        ((0.1, 0.0, 0.0), SMOOTH, (0.1, 0.0, 0.0), [], ["differs"]),  # no rounding is that large in the first steps
    ],
)
def test_what_rounding_explains_is_no_difference(
    several: tuple[float, ...],
    followed: tuple[float, ...],
    nudged: tuple[float, ...],
    asked: list[bool],
    found: list[str],
) -> None:
    """Errors that have added up, or that a program amplifies."""
    theirs = drifting(*several)
    mine = theirs if followed == several else drifting(*followed)
    reruns = Reruns(mine, theirs if nudged == several else drifting(*nudged))
    workers = [recording(index, theirs) for index in (0, 1)]
    assert [one.code for one in equality(recording(0, drifting(*SMOOTH)), workers, reruns)] == found
    assert reruns.asked == asked


@pytest.mark.parametrize(("error", "found"), [(0.02, []), (0.2, ["differs"])])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_run_that_can_not_be_followed(error: float, found: list[str], is_there: bool) -> None:
    """In the first steps a difference stands; later it has to be large, since rounding errors add up."""
    theirs = drifting(0.0, 0.0, error)
    workers = [recording(index, theirs) for index in (0, 1)]
    alone = recording(0, drifting(*SMOOTH))
    again = recording(0, drifting(*SMOOTH)) if is_there else None
    assert [one.code for one in equality(alone, workers, lambda nudged: again)] == ["differs"]
    for each in (alone, *workers):
        each.states = {10 * step: VariableState(10 * step, state.variables) for step, state in each.states.items()}
    assert [one.code for one in equality(alone, workers, lambda nudged: again)] == found


def test_rows_that_each_worker_prepares_in_its_own_way_are_named() -> None:
    """As many as one worker's, and none with the same values: not a matter of sharding."""
    names = [f"row {number}" for number in range(8)]
    several = [recording(index, trained(1.0), {1: [f"{index} {name}" for name in names[:4]]}) for index in (0, 1)]
    assert codes(recording(0, trained(1.0), {1: names}), *several) == ["rows-differ"]


@pytest.mark.parametrize(
    ("rows", "others", "code"),
    [(8, 8, "differs"), (8, 7, "uneven-rows"), (0, 0, "differs")],
)
def test_an_uneven_step_is_named(rows: int, others: int, code: str) -> None:
    """If it is the first after which a variable differs by no constant factor."""
    names = [f"row {number}" for number in range(rows + others)]
    theirs = trained(1.5)
    several = recording(0, theirs, {1: names[:rows]}), recording(1, theirs, {1: names[rows:]})
    assert codes(recording(0, trained(1.0), {1: names}), *several) == [code]


def test_an_optimizer_that_ignores_the_size_of_gradients_shows_it_in_its_slots() -> None:
    """Adam's weights are equal; its slots are larger by the factor and by its square."""
    slots = {"m": ("optimizer", GRADIENT), "v": ("optimizer", GRADIENT**2)}
    twice = {"m": ("optimizer", GRADIENT * 2), "v": ("optimizer", GRADIENT**2 * 4)}
    same = trained(1.0)
    workers = [recording(index, same, more=twice) for index in (0, 1)]
    assert codes(recording(0, same, more=slots), *workers) == ["loss-summed"]


def rate_of(value: float) -> dict[str, tuple[str, Values]]:
    """The learning rate of an optimizer."""
    return {"sgd/learning_rate": ("learning-rate", np.array(value, "float32"))}


@pytest.mark.parametrize(
    ("factor", "rates", "code", "said"),
    [
        (2.0, (0.1, 0.2), "rate-differs", "The learning rate is 0.2 with 2 workers and 0.1 with 1"),
        (2.0, (0.1, 0.2), "rate-differs", "the updates of the weights are 2 times those of 1 worker"),
        (1.5, (0.1, 0.15), "rate-differs", "the updates of the weights are 1.5 times those of 1 worker"),
        (2.0, (0.1, 0.1), "loss-summed", "The gradients are 2 times too large with 2 workers"),
        (2.0, None, "loss-summed", "or the learning rate, which was not seen"),
        (4.0, (0.1, 0.1), "differs", "The gradients are 4 times too large with 2 workers (kernel"),
        (0.25, (0.1, 0.1), "differs", "The gradients of 2 workers are 0.25 of what they are with 1 worker"),
        (1.0, (0.1, 0.2), "", ""),  # nothing follows from it: such a rate may be set after the last step
    ],
)
def test_a_learning_rate_is_told_from_a_gradient(
    factor: float, rates: tuple[float, float] | None, code: str, said: str
) -> None:
    """By what was recorded; what nobody saw is not told as a fact."""
    mine, theirs = (None, None) if rates is None else map(rate_of, rates)
    workers = [recording(index, trained(factor), more=theirs) for index in (0, 1)]
    found = equality(recording(0, trained(1.0), more=mine), workers)
    assert [one.code for one in found] == [code] * bool(code)
    assert all(said in one.text for one in found)


def test_a_rate_that_does_not_explain_the_updates_is_told_without_them() -> None:
    """The weights differ by something else, too."""
    workers = [recording(index, trained(3.0), more=rate_of(0.2)) for index in (0, 1)]
    (found,) = equality(recording(0, trained(1.0), more=rate_of(0.1)), workers)
    assert found.code == "rate-differs"
    assert "times those" not in found.text


def test_a_rate_that_differs_later_is_told_with_the_step_at_which_it_was_equal() -> None:
    """A callback may have set it, by what one of the workers measured."""
    one, worker = (recording(0, trained(factor), more=rate_of(rate)) for factor, rate in ((1.0, 0.1), (2.0, 0.05)))
    for each in (one, worker):
        each.begin = VariableState(
            0, {name: Variable(*kind[:1], False, kind[1]) for name, kind in rate_of(0.1).items()}
        )
    (found,) = equality(one, [worker, dataclasses.replace(worker, task=Task(TaskType.WORKER, 1))])
    assert "(sgd/learning_rate, after step 1), and was equal after step 0; kernel" in found.text
    assert "callback" in found.remedy


@pytest.mark.parametrize(
    ("slots", "said"),
    [
        ({"m": ("optimizer", GRADIENT)}, "The updates are 2 times too large"),  # the momentum of SGD has the rate in it
        ({"m": ("optimizer", GRADIENT), "v": ("optimizer", GRADIENT**2)}, "The gradients are 2 times too large"),
    ],
)
def test_slots_prove_a_gradient_if_they_are_squares(slots: dict[str, tuple[str, Values]], said: str) -> None:
    """If no learning rate was seen."""
    larger = {name: (kind, values * (4 if name == "v" else 2)) for name, (kind, values) in slots.items()}
    workers = [recording(index, trained(2.0), more=larger) for index in (0, 1)]
    (found,) = equality(recording(0, trained(1.0), more=slots), workers)
    assert found.code == "loss-summed"
    assert found.text.startswith(said)


@pytest.mark.parametrize(
    ("rates", "code", "said"),
    [
        (({"rate": 0.1}, {"rate": 0.2}), "rate-differs", "The learning rate is 0.2 with 2 workers and 0.1 with 1"),
        (({"rate": 0.1, "lr": 1.0}, {"rate": 0.1, "lr": 2.0}), "rate-differs", "(lr in the program)"),
        (({"rate": 0.1}, {"rate": 0.1}), "loss-summed", "; rate in the program is 0.1 with both (kernel differs"),
        (({}, {"rate": 0.1}), "loss-summed", "or the learning rate, which was not seen, depends on the workers"),
        (({"rate": 0.1}, {"rate": 0.3}), "loss-summed", "The updates are 2 times too large"),  # it is of something else
        (({"rate": 0.0}, {"rate": 0.2}), "loss-summed", "The updates are 2 times too large"),
    ],
)
def test_a_rate_of_the_program_is_named_if_the_updates_follow_it(
    rates: tuple[dict[str, float], dict[str, float]], code: str, said: str
) -> None:
    """A loop without an optimizer has its learning rate in a variable of Python."""
    one, first, second = (recording(index, trained(factor)) for index, factor in ((0, 1.0), (0, 2.0), (1, 2.0)))
    one.rates, first.rates = rates
    (found,) = equality(one, [first, second])
    assert (found.code, said in found.text) == (code, True), found


def test_the_first_values_may_be_those_of_a_program_without_an_optimizer() -> None:
    """Without them there would be no update, and so no factor."""
    one, *workers = (recording(index, trained(factor)) for index, factor in ((0, 1.0), (0, 2.0), (1, 2.0)))
    for each in (one, *workers):
        each.begin, each.initial = None, each.begin
    (found,) = equality(one, workers)
    assert found.code == "loss-summed"


def test_larger_steps_with_equal_slots_are_not_told_as_larger_gradients() -> None:
    """An optimizer such as Adam would show the gradients in its slots."""
    slots = {"m": ("optimizer", GRADIENT), **rate_of(0.1)}
    workers = [recording(index, trained(2.0), more=slots) for index in (0, 1)]
    (found,) = equality(recording(0, trained(1.0), more=slots), workers)
    assert found.code == "differs"
    assert "although the optimizer's slots are equal" in found.text


def test_eight_workers_whose_slots_have_the_square_of_the_factor() -> None:
    """The first moments differ by less than a tenth of what the second do."""
    slots = {"m": ("optimizer", GRADIENT), "v": ("optimizer", GRADIENT**2)}
    more = {"m": ("optimizer", GRADIENT * 16), "v": ("optimizer", GRADIENT**2 * 256)}
    workers = [recording(index, trained(1.0), more=more) for index in range(16)]
    (found,) = equality(recording(0, trained(1.0), more=slots), workers)
    assert (found.code, found.text[:33]) == ("loss-summed", "The gradients are 16 times too la")


def test_batch_normalization_is_named_before_what_follows_from_it() -> None:
    """Its averages differ, and so do the weights."""
    mean = {"mean": ("batch-norm", GRADIENT)}
    other = {"mean": ("batch-norm", GRADIENT * 1.3)}
    theirs = trained(1.0, 0.5)
    found = codes(recording(0, trained(1.0), more=mean), *(recording(index, theirs, more=other) for index in (0, 1)))
    assert found == ["batch-norm"]


@pytest.mark.parametrize(("apart", "code"), [(0.0, "loss-summed"), (0.5, "batch-norm")])
def test_batch_normalization_is_not_blamed_if_all_workers_have_the_same_averages(apart: float, code: str) -> None:
    """Then they follow from the weights; each worker might have its own."""
    workers = [recording(index, trained(2.0)) for index in (0, 1)]
    one = recording(0, trained(1.0))
    for number, each in enumerate((one, *workers)):
        averages = GRADIENT * (1.0 if number == 0 else 2.0 + number * apart)
        kernel = each.states[1].variables["kernel"]
        each.states[1] = VariableState(1, {"kernel": kernel, "mean": Variable("batch-norm", True, averages)})
    found = equality(one, workers)
    assert [finding.code for finding in found] == [code]


A, B, C, D = ROWS[:2], ROWS[2:4], ROWS[4:6], ROWS[6:8]


@pytest.mark.parametrize(
    ("alone", "first", "second", "found"),
    [
        ([A + B, C + D], [A, C], [B, D], []),
        ([A + B, C + D], [B, C], [A, D], []),
        ([A + B, C + D], [A + B, C + D], [A + B, C + D], ["same-rows"]),
        ([A, B, C, D], [A, C], [B, D], []),  # the batch grows; no learning rate was seen
        ([A + B, C + D], [A, C], [B, B], ["rows-missed", "rows-repeated"]),
        ([A + B, C + D], [A], [B], ["rows-missed"]),
        ([A + B, C + D], [A, C, A], [B, D, B], ["rows-repeated"]),
        ([], [A], [B], []),  # nothing was counted
    ],
)
def test_rows(alone: list[list[str]], first: list[list[str]], second: list[list[str]], found: list[str]) -> None:
    """Rows of two workers, step by step, against those of one."""
    everyone = [dict(enumerate(rows, 1)) for rows in (alone, first, second)]
    one, *several = (recording(max(0, at - 1), trained(1.0), rows) for at, rows in enumerate(everyone))
    assert codes(one, *several) == found


@pytest.mark.parametrize(
    ("rates", "codes", "reason"),
    [
        ((0.1, 0.1), ["global-batch"], ""),
        ((0.1, 0.2), [], "the learning rate changes with it, 0.1 and 0.2"),
        ((0.1, 0.1414), [], "the learning rate changes with it, 0.1 and 0.1414"),
        ((0.0, 0.0), [], "so that the two jobs train differently"),  # a warm-up
        (None, [], "so that the two jobs train differently"),
    ],
)
def test_a_batch_that_grows_with_the_workers(rates: tuple[float, float] | None, codes: list[str], reason: str) -> None:
    """It is a mistake only if the learning rate is seen not to follow; otherwise the jobs can't be compared."""

    def rate(at: int) -> dict[str, tuple[str, Values]]:
        return {} if rates is None else {"rate": ("learning-rate", np.array(rates[at], "float32"))}

    taken = [dict(enumerate(rows, 1)) for rows in ([A, B, C, D], [A, C], [B, D])]
    one = recording(0, trained(1.0), taken[0], rate(0))
    several = [recording(index, trained(2.0), taken[index + 1], rate(1)) for index in (0, 1)]
    comparison = compared(one, several)
    assert [finding.code for finding in comparison.findings] == codes
    assert reason in comparison.why_not
    assert bool(comparison.why_not) != bool(codes)
    assert not codes or "the learning rate does not: it is 0.1 with both" in comparison.findings[0].text
    assert codes or "2 rows a step with 1 worker, 4 with 2" in comparison.why_not


def test_data_that_is_sharded_twice_is_told_by_its_share() -> None:
    """Half of the rows with two workers; any other share has no name."""
    steps = {1: A + B, 2: C + D}, {1: A}, {1: C}
    one, *several = (recording(max(0, at - 1), trained(1.0), rows) for at, rows in enumerate(steps))
    (found,) = equality(one, several)
    assert found.text.endswith(
        "; in all, they train on 1/2 of its rows, as when data that is sharded is sharded again."
    )
    several[1].rows[1] = tuple(C + D[:1])
    (found,) = equality(one, several)
    assert "sharded again" not in found.text


@pytest.mark.parametrize(
    ("mine", "theirs", "found", "said"),
    [
        (8, 4, "steps-differ", "2 workers make 4 steps and 1 worker makes 8 (in the first epoch 2 and 4), although"),
        (4, 8, "steps-differ", "the number of steps is multiplied by the number of workers"),
        (4, 4, "", ""),
    ],
)
def test_steps_that_depend_on_the_workers(mine: int, theirs: int, found: str, said: str) -> None:
    """While the batches are the same: this is no matter of sharding."""
    batches = [[f"row {step} {number}" for number in range(4)] for step in range(8)]
    one = recording(0, trained(1.0), dict(enumerate(batches[:mine], 1)))
    several = [
        recording(at, trained(1.0), {step: rows[2 * at : 2 * at + 2] for step, rows in enumerate(batches[:theirs], 1)})
        for at in (0, 1)
    ]
    one.epoch_ends, several[0].epoch_ends = {0: mine // 2, 1: mine}, {0: theirs // 2, 1: theirs}
    findings = equality(one, several)
    assert [one.code for one in findings] == [found] * bool(found)
    assert all(said in one.text for one in findings)


def test_a_warm_up_begins_with_equal_rates() -> None:
    """So the rate follows the batch if it does so at any step."""
    taken = [dict(enumerate(rows, 1)) for rows in ([A, B, C, D], [A, C], [B, D])]
    recordings = [recording(max(0, at - 1), trained(1.0), rows) for at, rows in enumerate(taken)]
    for at, each in enumerate(recordings):
        for step, rate in enumerate((0.1, 0.1, 0.2 if at else 0.1, 0.1), 1):
            each.states[step] = VariableState(step, {"rate": Variable("learning-rate", False, np.array(rate))})
    comparison = compared(recordings[0], recordings[1:])
    assert comparison.findings == []
    assert "the learning rate changes with it, 0.1 and 0.2" in comparison.why_not


def test_rows_that_are_shuffled_in_each_worker_are_lost() -> None:
    """Some are read twice instead: the advice is a seed; it is given once."""
    steps = {1: A + B, 2: C + D}, {1: A, 2: C}, {1: B, 2: B}
    one, *several = (recording(max(0, at - 1), trained(1.0), rows) for at, rows in enumerate(steps))
    missed, repeated = equality(one, several)
    assert missed.text.startswith("Rows are lost: 2 workers train on 2 of 8 rows never, unlike 1 worker")
    assert "with the same seed" in missed.remedy
    assert (repeated.text, repeated.remedy) == ("2 workers train on 2 rows more often than 1 worker.", "")


@pytest.mark.parametrize(
    ("alone", "first", "second", "is_other"),
    [
        ([A + B, C + D], [A, C], [B, D], False),
        ([A + B, C + D], [B, D], [A, C], False),
        ([A + B, C + D], [A, B], [C, D], True),  # each has a file of its own
        ([A + B, C + D, A + B], [A, B, A], [C, D, C], True),  # likewise, and the second epoch has not ended
        ([A + B, C + D], [A, C], [B, B], False),  # not the same rows
        ([A + B, C + D], [A, C, A], [B, D, B], False),  # more of them
        ([], [], [], False),
    ],
)
def test_the_same_rows_in_another_order_are_no_mistake(
    alone: list[list[str]], first: list[list[str]], second: list[list[str]], is_other: bool
) -> None:
    """But nothing can be compared then."""
    everyone = [dict(enumerate(rows, 1)) for rows in (alone, first, second)]
    one, *several = (recording(at, trained(at), rows) for at, rows in enumerate(everyone))
    assert bool(other_order(one, several)) == is_other
    if is_other:
        assert codes(one, *several) == ["workers-differ"]  # what workers owe each other can be told


@pytest.mark.parametrize(
    ("kind", "on_read", "differs"),
    [("weight", False, True), ("optimizer", False, True), ("batch-norm", True, False), ("metric", False, False)],
)
def test_workers_that_do_not_agree(kind: str, on_read: bool, differs: bool) -> None:
    """Only in what a gang has to have in common."""
    mine, theirs = (
        Recording(Task(TaskType.WORKER, index), 1, {3: VariableState(3, {"x": Variable(kind, on_read, values)})})
        for index, values in enumerate((BEFORE, BEFORE + np.float32(0.01)))
    )
    found = list(agreement([mine, theirs]))
    assert [finding.code for finding in found] == ["workers-differ"] * differs
    assert all("worker:1" in finding.text and "step 3" in finding.text for finding in found)


@pytest.mark.parametrize(
    ("factor", "found"),
    [(2.0, ["workers-differ", "loss-summed"]), (1.5, ["workers-differ"]), (1.0, ["workers-differ"])],
)
def test_what_follows_from_workers_that_differ_is_not_explained_besides(factor: float, found: list[str]) -> None:
    """A factor is a mistake of its own."""
    workers = [recording(index, trained(factor)) for index in (0, 1)]
    for index, worker in enumerate(workers):
        own = Variable("weight", False, BEFORE + np.float32(index))
        worker.states[1] = VariableState(1, {**worker.states[1].variables, "own": own})
    assert codes(recording(0, trained(1.0)), *workers) == found


def test_values_that_are_no_numbers_or_of_other_shapes_do_not_raise() -> None:
    """A program may have anything in its variables."""
    strange = [np.array([np.nan, np.inf]), np.array([], "float32"), np.array(["a"]), np.zeros((3, 3), "float16")]
    for a in strange:
        for b in strange:
            one, other = (recording(0, {0: a, 1: values}) for values in (a, b))
            equality(one, [other, other])


FLIP, NOISE = Draw("RandomFlip random_flip", False, False), Draw("RandomFlip random_flip", True, False)
OTHER_VALUES = [A + B, C + D], [["w"], ["x"]], [["y"], ["z"]]
MISSED = [A + B, C + D], [A, C], [B, B]


@pytest.mark.parametrize(
    ("draws", "factor", "rows", "found", "is_comparable"),
    [
        ([], 1.5, None, ["differs"], True),
        ([FLIP], 1.5, None, [], False),
        ([FLIP], 1.0, None, [], True),  # equal although it draws
        ([FLIP], 2.0, None, ["loss-summed"], True),  # twice as large is no chance
        ([NOISE], 1.5, None, ["differs"], True),  # the rows were the same, so it explains nothing
        ([], 1.0, MISSED, ["rows-missed", "rows-repeated"], True),
        ([NOISE], 1.0, MISSED, [], False),
        ([NOISE], 1.0, ([A + B, C + D], [A + B, C + D], [A + B, C + D]), ["same-rows"], True),
        ([FLIP], 1.0, MISSED, ["rows-missed", "rows-repeated"], True),
    ],
)
def test_what_is_drawn_at_random_is_no_mistake(
    draws: list[Draw],
    factor: float,
    rows: tuple[list[list[str]], ...] | None,
    found: list[str],
    is_comparable: bool,
) -> None:
    """The cell can't be compared, and the layer is named; what no draw explains is told."""
    weights = [trained(1.0), trained(factor)]
    counted = [None] * 3 if rows is None else [dict(enumerate(each, 1)) for each in rows]
    one = recording(0, weights[0], counted[0])
    several = [recording(index, weights[1], counted[index + 1]) for index in (0, 1)]
    for each in several:
        each.draws = draws
    comparison = compared(one, several)
    assert [finding.code for finding in comparison.findings] == found
    assert bool(comparison.why_not) == (not is_comparable)
    assert is_comparable or comparison.why_not.startswith("RandomFlip random_flip draws at random in the ")
