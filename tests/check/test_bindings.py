"""The value that a name has at a place of use: the check knows it only if it is certain."""

from __future__ import annotations

import ast
import random
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from clusterkit.check.source import MOST_LINKS, Source

KNOWN = {  # each program calls `use(x)` once; then the value of x there
    "bound once": ("x = 1\nuse(x)", "1"),
    "bound once, in a branch": ("if y:\n    x = 1\nuse(x)", "1"),
    "bound again": ("x = 1\nx = 2\nuse(x)\nx = 3", "2"),
    "used before it is bound again": ("x = 1\nuse(x)\nx = 2", "1"),
    "made of itself": ("x = 1\nx = x.batch(8)\nuse(x)", "x.batch(8)"),
    "used where it is bound": ("x = 1\nx = use(x)", "1"),
    "used where two names are bound": ("x = 1\nx, y = use(x), 2", "1"),
    "through another name": ("x = 1\nx = 2\ny = x\ny = x\nx = 3\nx = y\nuse(x)", "2"),
    "two names at once": ("x = 1\nx = y = 2\nuse(x)", "2"),
    "with an annotation": ("x = 1\nx: int = 2\nuse(x)", "2"),
    "several statements on a line": ("x = 1; x = 2; use(x); x = 3", "2"),
    "added to": ("x = 1\nx += 2\nuse(x)", "x += 2"),
    "in a block that certainly runs": ("x = 1\nwith strategy.scope():\n    x = 2\nuse(x)", "2"),
    "in the program's own part": ("x = 1\nif __name__ == '__main__':\n    x = 2\nuse(x)", "2"),
    "in both, used in one branch": ("if y:\n    x = 1\n    use(x)\nelse:\n    x = 2", "1"),
    "before a branch that does not bind it": ("x = 1\nx = 2\nif y:\n    use(x)", "2"),
    "before a loop that does not bind it": ("x = 1\nx = 2\nfor y in z:\n    use(x)", "2"),
    "before the loop that binds it": ("x = 1\nfor y in use(x):\n    x = 2", "1"),
    "within one round of a loop": ("for y in z:\n    x = 1\n    x = 2\n    use(x)", "2"),
    "within try": ("try:\n    x = 1\n    x = 2\n    use(x)\nexcept E:\n    x = 3", "2"),
    "in a function": ("def f():\n    x = 1\n    x = 2\n    use(x)", "2"),
    "in a function, and in another": ("x = 1\ndef f():\n    x = 2\n    use(x)", "2"),
    "outside of the function that binds it too": ("x = 1\ndef f():\n    x = 2\nuse(x)", "1"),
    "of the function around": ("def f():\n    x = 1\n    def g():\n        use(x)\ndef h():\n    x = 2", "1"),
    "complete when a function is defined": ("x = 1\nx = 2\ndef f():\n    use(x)", "2"),
    "complete when a lambda is made": ("x = 1\nx = 2\ny = lambda: use(x)", "2"),
    "in a list comprehension": ("x = 1\nx = 2\n[use(x) for y in z]\nx = 3", "2"),
    "beside a comprehension's own": ("x = 1\ny = [x for x in z]\nuse(x)", "1"),
    "a default, not the parameter": ("x = 1\ndef f(x=use(x)):\n    pass", "1"),
    "a parameter bound again": ("def f(x):\n    x = 2\n    use(x)", "2"),
    "a class's own": ("x = 1\nclass C:\n    x = 2\n    y = use(x)", "2"),
    "not a class's": ("x = 1\nclass C:\n    x = 2\n    def f(self):\n        use(x)", "1"),
    "a method of the same name": ("x = 1\nclass C:\n    def x(self):\n        pass\nuse(x)", "1"),
    "behind a deletion": ("x = 1\ndel x\nx = 2\nuse(x)", "2"),
    "declared, bound once": ("def f():\n    global x\n    x = 1\nuse(x)", "1"),
}
UNKNOWN = {
    "nowhere": "use(x)",
    "used first": "use(x)\nx = 1\nx = 2",
    "imported": "import x\nuse(x)",
    "imported, then bound": "import x\nx = 1\nimport x\nuse(x)",
    "unpacked": "x = 1\nx, y = z\nuse(x)",
    "in a branch": "x = 1\nif y:\n    x = 2\nuse(x)",
    "in the other branch": "x = 1\nif y:\n    x = 2\nelse:\n    use(x)",
    "in a case": "x = 1\nmatch y:\n    case 1:\n        x = 2\nuse(x)",
    "by a case": "x = 1\nmatch y:\n    case [x]:\n        use(x)",
    "by a loop": "x = 1\nfor x in y:\n    use(x)",
    "later in a loop": "x = 1\nfor y in z:\n    use(x)\n    x = 2",
    "later in an outer loop": "x = 1\nwhile a:\n    for y in z:\n        use(x)\n    x = 2",
    "by itself in a loop": "x = 1\nfor y in z:\n    x = use(x)",
    "in a loop, used in its condition": "x = 1\nwhile use(x):\n    x = 2",
    "after a loop": "x = 1\nfor y in z:\n    x = 2\nuse(x)",
    "in try": "x = 1\ntry:\n    x = 2\nexcept E:\n    pass\nuse(x)",
    "in try, used in a handler": "x = 1\ntry:\n    x = 2\nexcept E:\n    use(x)",
    "in try, used in finally": "x = 1\ntry:\n    x = 2\nfinally:\n    use(x)",
    "by a handler": "x = 1\ntry:\n    pass\nexcept E as x:\n    use(x)",
    "in a block that may swallow": "x = 1\nwith suppress(E):\n    x = 2\nuse(x)",
    "by with": "x = 1\nwith open(y) as x:\n    use(x)",
    "deleted": "x = 1\ndel x\nuse(x)",
    "by a walrus in a condition": "x = 1\nif (x := 2):\n    use(x)",
    "by a walrus in the same statement": "x = 1\nuse(x) if (x := 2) else 3",
    "by a walrus in a comprehension": "x = 1\n[(x := y) for y in z]\nuse(x)",
    "in a class, used above": "x = 1\nclass C:\n    use(x)\n    x = 2",
    "a parameter": "x = 1\ndef f(x):\n    use(x)",
    "a lambda's parameter": "x = 1\nlambda x: use(x)",
    "a comprehension's own": "x = 1\n[use(x) for x in y]",
    "declared global": "x = 1\ndef f():\n    global x\n    x = 2\nf()\nuse(x)",
    "declared nonlocal": "def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = 2\n    g()\n    use(x)",
    "in a function that may run before": "x = 1\ndef f():\n    use(x)\nf()\nx = 2",
    "in a lambda that runs later": "x = 1\nx = lambda: use(x)",
    "in a generator that runs later": "x = 1\ny = (use(x) for z in a)\nx = 2",
    "in a function made in each round": "for y in z:\n    x = 1\n    x = 2\n    def f():\n        use(x)",
    "a recursive function that is bound again": "def x():\n    use(x)\nx = 1",
    "made of itself alone": "x = x\nuse(x)",
    "in a circle": "x = y\ny = x\nuse(x)",
}


def value(text: str) -> str | None:
    """The value of the only argument of `use` in a program, as text."""
    source = Source("main.py", "main", text.encode())
    (use,) = (call.args[0] for _, call in source.calls() if getattr(call.func, "id", "") == "use")
    found = source.value(use)
    return None if found is None else ast.unparse(found)


@pytest.mark.parametrize(("text", "expected"), KNOWN.values(), ids=KNOWN)
def test_a_certain_value_is_known(text: str, expected: str) -> None:
    """Each run that gets to the use has this value there."""
    assert value(text) == expected


@pytest.mark.parametrize("text", UNKNOWN.values(), ids=UNKNOWN)
def test_an_uncertain_value_is_unknown(text: str) -> None:
    """Another value is possible, or none."""
    assert value(text) is None


def test_a_module_does_not_run_the_part_of_a_program() -> None:
    """Under `__name__ == "__main__"`, a module binds nothing."""
    text = b"x = 1\nif __name__ == '__main__':\n    x = 2\nuse(x)\n"
    values = [
        source.value(source.bindings.uses["x"][0])
        for source in (Source("m.py", "m", text, main) for main in (True, False))
    ]
    assert [each and ast.unparse(each) for each in values] == [None, "2"]


def test_a_chain_leads_to_what_a_value_is_made_of() -> None:
    """It passes the methods and the names, each at its own place."""
    source = Source("main.py", "main", b"x = read(1)\nx = x.take(2).skip(3)\ny = x.batch(4)\nx = 5\nuse(y)\n")
    assert [ast.unparse(each).rpartition(".")[2] for each in source.chain(source.bindings.uses["y"][0])] == [
        *("batch(4)", "skip(3)", "take(2)", "read(1)"),
    ]


@pytest.mark.parametrize("line", ["x = [x, x]", "x = {'a': x}", "x = x, x, 'b'"])
def test_a_constant_that_grows_again_and_again_is_unknown(line: str) -> None:
    """Its size is limited."""
    for times, known in ((3, True), (2000, False)):
        source = Source("main.py", "main", f"x = ['a']\n{(line + chr(10)) * times}use(x)\n".encode())
        assert (source.constant_texts(source.bindings.uses["x"][-1]) is not None) == known


def nested(chance: random.Random, depth: int, in_loop: bool = False) -> Iterator[str]:
    """The lines of a block at random, which binds x and y to numbers, and calls `use`, in all kinds of statements."""
    for _ in range(chance.randint(1, 5)):
        number, name = chance.randrange(10**6), chance.choice("xy")
        use = f"use(NUMBER, {name})"
        heads = ["if one():", "while one():", f"for {name} in two():", "for _ in two():", "def f():", f"def f({name}):"]
        heads += ["with device():", "with suppress():", "try:", "class C:", "if (x := one()):", f"for _ in [{use}]:"]
        if depth and chance.random() < 0.4:
            head = chance.choice(heads)
            yield head
            is_new = head.startswith(("def", "class"))
            yield from (f"    {each} = {number}" for each in "xy" if chance.random() < 0.7)
            yield from (f"    {line}" for line in nested(chance, depth - 1, not is_new and (in_loop or "or" in head)))
            if head == "try:":
                yield chance.choice(["finally:", "except Failed:", "except Failed as x:"])
                yield from (f"    {line}" for line in nested(chance, depth - 1, in_loop))
            if head.startswith("def"):
                yield chance.choice(["f(1)" if name in head else "f()", "kept.append(f)"])
        lines = [f"{name} = {number}", f"{name} = {number}", use, use, f"{name} = {use}", f"{name} += {number}"]
        lines += ["x = y", "y = x", "x, y = y, x", f"[{use} for x in two()]", f"kept.append(lambda: {use})", "fail()"]
        lines += [f"({use}, (x := {number}))", f"del {name}", "run_kept()", f"x = y = {number}", f"f = lambda: {use}"]
        lines += [f"kept.append(({use} for _ in two()))", "[(y := _) for _ in two()]", f"y = {use} if (y := 3) else 4"]
        yield chance.choice(lines + (["break", "continue"] if in_loop else []))


class Failed(Exception):
    """Raised at random places of a program at random."""


class Runtime:
    """Runs a program at random, and records what `use` gets."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.seen = chance, list[tuple[int, object]]()
        self.kept: list[object] = []

    def run(self, text: str) -> None:
        """Run the program until it ends or fails."""
        names = {"use": self.use, "one": self.one, "two": self.two, "kept": self.kept, "run_kept": self.run_kept}
        blocks = {"device": lambda: Block(False), "suppress": lambda: Block(True), "fail": self.fail, "Failed": Failed}
        with suppress(Failed, NameError, TypeError, RecursionError):
            exec(compile(text, "program", "exec"), {**names, **blocks, "__name__": "__main__"})

    def use(self, number: int, value: object) -> object:
        self.seen.append((number, value))
        if len(self.seen) > 500:
            raise RecursionError
        return value

    def one(self) -> int:
        return self.chance.randrange(2)

    def two(self) -> list[int]:
        return [*range(-1, -1 - self.chance.randrange(3), -1)]

    def fail(self) -> None:
        if self.chance.random() < 0.2:
            raise Failed

    def run_kept(self) -> None:
        for each in self.kept[-3:]:
            if callable(each):
                each()
            else:
                list(each)  # type: ignore[call-overload]


class Block:
    """A context manager that swallows the failures in it, or does not."""

    def __init__(self, swallows: bool) -> None:
        self.swallows = swallows

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return self.swallows and kind is not None and issubclass(kind, Failed)


def test_no_run_of_a_random_program_has_another_value() -> None:
    """Wherever the check knows a number, each run has this number; and it knows many of them."""
    compared = 0
    for seed in range(300):
        chance = random.Random(f"bindings {seed}")
        parts = "\n".join(["x = 1", "y = 2", *nested(chance, 3)]).split("NUMBER")
        text = "".join(f"{part}{number}" for number, part in enumerate(parts))
        try:
            source = Source("main.py", "main", text.encode())
            compile(text, "program", "exec")
        except SyntaxError:
            continue
        known = {
            use.args[0].value: found.value
            for use in source.nodes
            if isinstance(use, ast.Call)
            and getattr(use.func, "id", "") == "use"
            and isinstance(found := source.value(use.args[1]), ast.Constant)
            and isinstance(use.args[0], ast.Constant)
        }
        for _ in range(3):
            runtime = Runtime(chance)
            runtime.run(text)
            for number, got in runtime.seen:
                if number in known:
                    assert known[number] == got, f"use {number} in\n{text}"
                    compared += 1
    assert compared > 500


LONG = {
    "one name bound again and again": "x = x.batch(8)\n" * 6000,
    "with uses between": "x = x.batch(8)\nmodel.fit(x)\n" * 3000,
    "uses at the end": "x = x.batch(8)\n" * 3000 + "model.fit(x)\n" * 3000,
    "in branches": "if y:\n  x = x.batch(8)\n" * 3000 + "model.fit(x)\n" * 3000,
    "in functions": "def f():\n  x = x.batch()\n  return x\n" * 2000,
    "in nested loops": "".join(" " * n + "for y in z:\n" for n in range(90)) + (" " * 90 + "x = x.a()\n") * 900,
    "in one statement": "y = [" + "(x := x)," * 5000 + "]\n",
    "from name to name": "".join(f"x{n + 1} = x{n}\nx{n} = 2\n" for n in range(3000)) + "model.fit(x3000)\n" * 3000,
    "in conditions": "if y:\n  x = 1\n" + "elif x:\n  x = 2\n" * 800,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_a_long_file_takes_a_time_in_proportion_to_its_length(text: str) -> None:
    """Also a file that somebody wrote so that it takes long: a chain of values is followed for a limited length."""
    before = time.process_time()
    source = Source("main.py", "main", f"x = x0 = 1\n{text}".encode())
    names = [node for node in source.nodes if isinstance(node, ast.Name)]
    assert max(sum(1 for _ in source.chain(name)) for name in names) <= MOST_LINKS
    assert sum(len(source.other_uses(name)) for name in names[:100]) < 100 * len(names)
    assert time.process_time() - before < 10
