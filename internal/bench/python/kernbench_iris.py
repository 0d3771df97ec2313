"""Makes `import iris.bench` mean kernbench.

Files written for iris.bench run unchanged: that name resolves to kernbench's implementation, and iris,
iris.ccl and iris.ops are the installed ones. If iris or tritonblas is not installed, placeholders can
be imported in its place, so that the parts of such files that need only torch run. Using a placeholder
in a bench fails that point.

This module is imported at the start of every interpreter where the wheel is installed, so it must stay
small and must not affect programs that do not use iris.bench. pytest would warn that it cannot rewrite
a module that is imported so early, unless this text says PYTEST_DONT_REWRITE.
"""

import importlib.machinery
import os
import re
import sys
import types

_PACKAGES = ("iris", "tritonblas")


class MissingPackage(AttributeError):
    """The error for anything that only the real package has."""


MissingPackage.__module__ = "builtins"  # tracebacks then name the class alone


class _Settings:
    script = ""  # path of the file with the benches; "" for the file that Python was started with
    strict = False  # whether using a placeholder is an error. While the file is imported it is not
    reasons = {}  # by package: why it is missing


def missing(package):
    """Whether the package is replaced by a placeholder."""
    return isinstance(sys.modules.get(package), _Module)


def reason(package):
    """Says why the package is missing."""
    return _Settings.reasons.get(package, "is not installed here")


def _use(name):
    """Handles a use of something of a package that is not installed."""
    package = name.partition(".")[0]
    if not _Settings.strict:
        return _Stub(name)
    raise MissingPackage("%s needs %s, which %s" % (name, package, reason(package)))


class _Stub:
    """Stands for something of a package that is not installed."""

    def __init__(self, name):
        self.__dict__["_name"] = name

    def __repr__(self):
        return self._name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _use(self._name + "." + name)

    def __setattr__(self, name, value):
        _use(self._name + "." + name)

    def __call__(self, *args, **kwargs):
        given = [repr(a) for a in args] + ["%s=%r" % item for item in kwargs.items()]
        return _use("%s(%s)" % (self._name, ", ".join(given)) if not _Settings.strict else self._name)

    def __getitem__(self, key):
        return _use("%s[%r]" % (self._name, key))

    def __instancecheck__(self, instance):
        _use(self._name)
        return False

    def __mro_entries__(self, bases):
        return ()

    def __or__(self, other):
        return self

    __ror__ = __or__


class _Module(types.ModuleType):
    """A placeholder for a module that is not installed."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _use(self.__name__ + "." + name)


class _Placeholder:
    """Loads placeholders."""

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        module.__path__ = []


class _Installed:
    """Loads an installed package, and turns it into a placeholder if it cannot be imported."""

    def __init__(self, loader):
        self.loader = loader

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        name, before = module.__name__, set(sys.modules)
        try:
            self.loader.exec_module(module)
        except Exception as e:
            for loaded in set(sys.modules) - before:
                if loaded.startswith(name + "."):
                    del sys.modules[loaded]
            _Settings.reasons[name] = "is installed but cannot be imported (%s: %s)" % (type(e).__name__, e)
            sys.modules[name] = placeholder = _Module(name)
            placeholder.__path__ = []
            placeholder.__spec__ = importlib.machinery.ModuleSpec(name, _Placeholder(), is_package=True)
            return
        module.__spec__.loader = module.__loader__ = self.loader


class _Bench:
    """Loads iris.bench."""

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        from kernbench import _iris

        module.__doc__, module.__all__ = _iris.__doc__, list(_iris.__all__)
        for name in _iris.__all__:
            setattr(module, name, getattr(_iris, name))


class _Finder:
    def find_spec(self, name, path=None, target=None):
        package = name.partition(".")[0]
        if name == "iris.bench":
            return importlib.machinery.ModuleSpec(name, _Bench())
        if name in _PACKAGES:
            return self.package(name)
        if package in _PACKAGES and missing(package):
            return importlib.machinery.ModuleSpec(name, _Placeholder(), is_package=True)
        if "." not in name and _uses_iris() and importlib.machinery.PathFinder.find_spec(name) is None:
            return _enclosing(name)
        return None

    def package(self, name):
        if not _uses_iris():
            return None
        found = importlib.machinery.PathFinder.find_spec(name)
        if found is None or found.origin is None:  # a folder without __init__.py is not the package
            return importlib.machinery.ModuleSpec(name, _Placeholder(), is_package=True)
        found.loader = _Installed(found.loader)
        return found


def _script():
    return _Settings.script or getattr(sys.modules.get("__main__"), "__file__", None) or ""


_using = {}  # by path of a script: whether it uses iris.bench


def _uses_iris():
    """Whether the script imports iris.bench. Other programs find modules as usual."""
    path = _script()
    if path not in _using:
        try:
            with open(path, encoding="utf-8", errors="replace") as f:
                source = f.read()
        except OSError:
            source = ""
        _using[path] = re.search(r"\biris\.bench\b|\bfrom\s+iris\s+import\b.*\bbench\b", source) is not None
    return _using[path]


def _enclosing(name):
    """Finds the package of that name which contains the script: in benchmark/ccl/bench_x.py,
    `import benchmark.ccl._common` works without an installed repository."""
    folder = os.path.dirname(os.path.abspath(_script()))
    while os.path.basename(folder):
        parent = os.path.dirname(folder)
        if os.path.basename(folder) == name:
            return importlib.machinery.PathFinder.find_spec(name, [parent])
        folder = parent
    return None


def install(script=""):
    """Starts resolving imports for the script."""
    _Settings.script = script
    if not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def set_strict(strict):
    """Sets whether using a placeholder is an error."""
    _Settings.strict = strict
