"""Find what a module of the MicroPython subset asks of the runtime.

Not looked at are `if TYPE_CHECKING:`, annotations, and what feature detection guards: `try` with
`except ImportError`, `NameError` or `AttributeError`, `if hasattr(…, "name"):`, and what is done
with a variable set to `getattr(…, "name", default)`.
"""
# ruff: noqa: D102, N815 - `ast.NodeVisitor` names these methods, and the names say what they do

import ast
import builtins
from collections.abc import Iterator, Sequence, Set

DETECTS = {
    "ImportError": {"module", "name"},
    "NameError": {"builtin"},
    "AttributeError": {"attribute", "name"},
}


def bound_names(tree: ast.AST) -> Iterator[str]:
    """Yield every name that a tree binds: what it defines, assigns, takes or imports."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name) | ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.alias(name=name, asname=alias):
                yield alias or name.split(".")[0]


def module_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module has: what it binds outside its classes and functions."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        else:
            yield from bound_names(node)


def drop_typing(tree: ast.Module) -> set[str]:
    """Empty the `if TYPE_CHECKING:` blocks, and return the names that they bind."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                names.update(name for part in node.body for name in bound_names(part))
                node.body = []
    return names


def detected_values(tree: ast.Module) -> set[str]:
    """Return the variables that hold what `getattr` found or its default."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(func=ast.Name(id="getattr"), args=[_, _, _]),
            ):
                names.add(name)
    return names


class Uses(ast.NodeVisitor):
    """What one module asks for: `found` has the kind, the name and the line of each use.

    Kinds are `module`, `name` (of a module, dotted), `builtin`, `attribute`, `keyword` (as
    `open(mode=)` and `.split(sep=)`) and `typing-only` (bound under `if TYPE_CHECKING:` only).
    `imported` has all modules, also those whose absence is provided for. `types` are names that
    the module may have from elsewhere under `if TYPE_CHECKING:`.
    """

    def __init__(self, tree: ast.Module, types: Set[str] = frozenset()) -> None:
        self.typing_only = drop_typing(tree) | types
        self.bound = set(bound_names(tree))
        self.detected = detected_values(tree)
        self.found: list[tuple[str, str, int]] = []
        self.guarded: set[str] = set()  # kinds and names whose absence is provided for
        self.imported: set[str] = set()
        self.modules: dict[str, str] = {}  # by the names that they have here
        self.visit(tree)

    def use(self, kind: str, name: str, node: ast.stmt | ast.expr) -> None:
        """Note a use that nothing guards."""
        if not self.guarded & {kind, name.rpartition(".")[2]}:
            self.found.append((kind, name, node.lineno))

    def module_of(self, node: ast.expr) -> str | None:
        """Return the module that an expression names, if it does."""
        return self.modules.get(node.id) if isinstance(node, ast.Name) else None

    def is_detected(self, node: ast.expr) -> bool:
        """Tell whether an expression names a value that need not be MicroPython's."""
        return isinstance(node, ast.Name) and node.id in self.detected

    def visit_guarded(self, nodes: Sequence[ast.AST], by: set[str]) -> None:
        """Visit nodes where the absence of some more is provided for."""
        before = self.guarded
        self.guarded = before | by
        for node in nodes:
            self.visit(node)
        self.guarded = before

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.use("module", alias.name, node)
            self.imported.add(alias.name)
            self.modules.setdefault(alias.asname or alias.name, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level == 0 and node.module:
            self.use("module", node.module, node)
            self.imported.add(node.module)
            for alias in node.names:
                self.use("name", f"{node.module}.{alias.name}", node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in self.typing_only - self.bound:
            self.use("typing-only", node.id, node)
        elif hasattr(builtins, node.id) and node.id not in self.bound:
            self.use("builtin", node.id, node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if module := self.module_of(node.value):
            self.use("name", f"{module}.{node.attr}", node)
        elif isinstance(node.ctx, ast.Load) and not self.is_detected(node.value):
            self.use("attribute", node.attr, node)
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        for keyword in [keyword.arg for keyword in node.keywords if keyword.arg]:
            match node.func:
                case ast.Name(id=name) if name not in self.bound:
                    self.use("keyword", f"{name}({keyword}=)", node)
                case ast.Attribute(value=value, attr=name) if not (
                    self.module_of(value) or self.is_detected(value)
                ):
                    self.use("keyword", f".{name}({keyword}=)", node)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        match node.test:
            case ast.Call(func=ast.Name(id="hasattr"), args=[_, ast.Constant(value=str(name))]):
                self.visit(node.test)
                self.visit_guarded(node.body, {name})
                self.visit_guarded(node.orelse, set())
            case _:
                self.generic_visit(node)

    def visit_Try(self, node: ast.Try) -> None:
        types = [handler.type for handler in node.handlers if handler.type]
        parts = [part for kind in types for part in ast.walk(kind)]
        caught = {part.id for part in parts if isinstance(part, ast.Name)} & DETECTS.keys()
        self.visit_guarded(node.body, {kind for name in caught for kind in DETECTS[name]})
        everything = {kind for kinds in DETECTS.values() for kind in kinds}
        self.visit_guarded(node.handlers, everything if caught else set())
        self.visit_guarded([*node.orelse, *node.finalbody], set())

    def visit_arg(self, node: ast.arg) -> None:
        pass  # MicroPython drops annotations

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        for part in (node.target, node.value):
            if part is not None:
                self.visit(part)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for part in [*node.decorator_list, node.args, *node.body]:
            self.visit(part)

    visit_AsyncFunctionDef = visit_FunctionDef
