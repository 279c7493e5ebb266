"""``python remote_calls.py ROLE SECONDS MEGABYTES FILE PATHS``: one of two processes that talk over stdin and stdout. Only values pass.

ROLE "program" runs a program that nobody has read, and answers calls of its functions. ROLE "tests" runs the tests, in whose eyes the
program's functions are its own, and says PASSED on stderr if they came to their end. So the program sees no test, and can do nothing about
a verdict but give the right values: comparisons and arithmetic are done where the tests are, on plain values.

Uses nothing of this project, as the sandbox shows it nothing else of it.
"""

import ast
import builtins
import importlib
import json
import operator
import os
import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any, TextIO

PASSED = b"passed"
OPEN_FILES, FILE_BYTES = 64, 16 * 2**20
PEER, NUMBER = "its peer", "its number"  # no names of attributes
NUMPY = {"numpy": "numpy", "np": "numpy"}
PLAIN = (type(None), bool, int, float, str)
MANY = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
FORWARDED: dict[str, Callable[..., Any]] = {
    "__call__": operator.call,
    "__getitem__": operator.getitem,
    "__setitem__": operator.setitem,
    "__len__": len,
    "__bool__": bool,
    "__iter__": iter,
    "__next__": next,
    "__str__": str,
    "__repr__": repr,
}
"""What is asked of an object of the other process. Not how it compares or adds up: it would be equal to whatever a test expects."""


class Peer:
    """The other process. It may have attributes of our objects, and our ``names``, if it is the tests."""

    def __init__(self, reader: TextIO, writer: TextIO, names: dict[str, Any] | None = None) -> None:
        self._reader, self._writer, self._names = reader, writer, names
        self._shown: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._theirs: dict[int, Remote] = {}

    def ask(self, what: str, number: int, arguments: tuple[Any, ...] = (), named: dict[str, Any] | None = None) -> Any:
        self._send(["ask", what, number, self._plain(arguments), self._plain(named or {})])
        while (message := self._receive())[0] == "ask":
            self._serve(message)
        if message[0] == "raised":
            kind = getattr(builtins, message[1], None)
            raise kind(message[2]) if isinstance(kind, type) and issubclass(kind, Exception) else RuntimeError(message[1:])
        for mine, changed in zip(arguments, self._value(message[2]), strict=False):
            _change(mine, changed)
        return self._value(message[1])

    def serve(self) -> None:
        while True:
            self._serve(self._receive())

    def _serve(self, message: list[Any]) -> None:
        try:
            arguments = self._value(message[3])
            answer = self._carry_out(message[1], message[2], arguments, self._value(message[4]))
            self._send(["returned", self._plain(answer), self._plain(arguments)])
        except Exception as error:
            self._send(["raised", type(error).__name__, str(error)])

    def _carry_out(self, what: str, number: int, arguments: Any, named: dict[str, Any]) -> Any:
        if what == "names" and self._names is not None:
            return {name: self._names[name] for name in arguments if name in self._names}
        target = self._shown[number]
        if what in ("getattr", "setattr") and self._names is not None:
            return getattr(builtins, what)(target, *arguments)
        return FORWARDED[what](target, *arguments, **named)

    def _plain(self, value: Any) -> Any:
        """As JSON has it."""
        if isinstance(value, PLAIN):
            return value
        for name, kind in MANY.items():
            if isinstance(value, kind):
                return [name, [self._plain(item) for item in value]]
        if isinstance(value, dict):
            return ["dict", [[self._plain(key), self._plain(item)] for key, item in value.items()]]
        if isinstance(value, bytes | complex):
            return [type(value).__name__, value.hex() if isinstance(value, bytes) else [value.real, value.imag]]
        if isinstance(value, ModuleType):
            return ["module", value.__name__]
        if isinstance(value, Remote):
            return ["yours", vars(value)[NUMBER]]
        if hasattr(value, "tolist"):  # numpy's
            return self._plain(value.tolist())
        number = self._numbers.setdefault(id(value), len(self._shown))
        if number == len(self._shown):
            self._shown.append(value)
        return ["mine", number]

    def _value(self, plain: Any) -> Any:
        if isinstance(plain, PLAIN):
            return plain
        kind, content = plain
        if kind in MANY:
            return MANY[kind](map(self._value, content))
        if kind == "dict":
            return {self._value(key): self._value(item) for key, item in content}
        if kind in ("bytes", "complex"):
            return bytes.fromhex(content) if kind == "bytes" else complex(*content)
        if kind == "module":
            return importlib.import_module(content)
        if kind == "yours":
            return self._shown[content]
        return self._theirs.setdefault(int(content), Remote(self, int(content)))

    def _send(self, message: list[Any]) -> None:
        try:
            self._writer.write(json.dumps(message) + "\n")
            self._writer.flush()
        except OSError:
            os._exit(1)

    def _receive(self) -> Any:
        """A process ends with the other one: no test may take its end for an exception that it expects."""
        return json.loads(self._reader.readline() or os._exit(1))


class Remote:
    """An object of the other process. It equals nothing but itself."""

    def __init__(self, peer: Peer, number: int) -> None:
        vars(self).update({PEER: peer, NUMBER: number})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return vars(self)[PEER].ask("getattr", vars(self)[NUMBER], (name,))

    def __setattr__(self, name: str, value: Any) -> None:
        vars(self)[PEER].ask("setattr", vars(self)[NUMBER], (name, value))


def _forward(what: str) -> Any:
    def forwarded(self: Remote, *arguments: Any, **named: Any) -> Any:
        return vars(self)[PEER].ask(what, vars(self)[NUMBER], arguments, named)

    return forwarded


for _what in FORWARDED:
    setattr(Remote, _what, _forward(_what))


def _change(mine: Any, changed: Any) -> None:
    """What the other process has done to an argument."""
    if isinstance(mine, list):
        mine[:] = changed
    elif isinstance(mine, dict | set) and mine != changed:
        mine.clear()
        mine.update(changed)


def names_used(tests: str) -> set[str]:
    """What tests may have of the program. A builtin only if they use nothing else: a program may not give them another ``all``, nor
    other ``__builtins__``."""
    nodes = list(ast.walk(ast.parse(tests)))
    modules = modules_used(nodes).keys()
    known = modules | set(dir(builtins))
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    made = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    made |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.ExceptHandler) and node.name}
    made |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    made |= {(node.asname or node.name).partition(".")[0] for node in nodes if isinstance(node, ast.alias)}
    shadowed = used - made - modules if used - made <= known else set()
    return {name for name in used - known | shadowed if not name.startswith("__")}


def modules_used(nodes: list[ast.AST]) -> dict[str, ModuleType]:
    """Those that tests use without importing them, by the names that they go by there, if they have all that is used of them: not the
    program's."""
    uses = [node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
    bases = {id(node.value) for node in uses}
    others = {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in bases}
    found = {}
    for name in {node.value.id for node in uses if isinstance(node.value, ast.Name)} - others:
        if name in sys.stdlib_module_names or name in NUMPY:
            with suppress(ImportError):
                module = importlib.import_module(NUMPY.get(name, name))
                if all(hasattr(module, node.attr) for node in uses if isinstance(node.value, ast.Name) and node.value.id == name):
                    found[name] = module
    return found


def main() -> None:
    role, seconds, megabytes, file, paths = sys.argv[1:6]
    _limit(float(seconds), int(megabytes))
    with os.fdopen(int(file), "rb") as source:
        text = source.read().decode("utf-8", "replace")
    reader, writer, verdict = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w"), os.dup(2)
    for number, mode in enumerate((os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)):
        os.dup2(os.open(os.devnull, mode), number)
    sys.path += paths.split(os.pathsep)
    sys.set_int_max_str_digits(0)
    names: dict[str, Any] = {"__name__": "program" if role == "program" else "__main__"}
    if role == "program":
        exec(compile(text, "program.py", "exec"), names)
        Peer(reader, writer, names).serve()
    names |= modules_used(list(ast.walk(ast.parse(text))))
    used = names_used(text)
    given = Peer(reader, writer).ask("names", 0, tuple(used))
    names.update({name: given[name] for name in used if name in given})
    exec(compile(text, "tests.py", "exec"), names)
    os.write(verdict, PASSED)


def _limit(seconds: float, megabytes: int) -> None:
    limits = {
        resource.RLIMIT_CPU: int(seconds) + 1,
        resource.RLIMIT_AS: megabytes * 2**20,
        resource.RLIMIT_FSIZE: FILE_BYTES,
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_CORE: 0,
    }
    for limit, value in limits.items():
        resource.setrlimit(limit, (value, value))


if __name__ == "__main__":
    main()
