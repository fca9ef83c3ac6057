"""The one thing that pyproject.toml cannot say: how the C runtime is built.

`raido.targets._runtime` is a plain shared library that knows nothing of Python (it is loaded with ctypes), so one build serves
every Python version: hence the stable-ABI name. `-z nodelete` keeps its threads' code mapped for the life of the process.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "raido.targets._runtime",
            sources=["targets/runtime/raido_runtime.c"],
            depends=["targets/runtime/raido_runtime.h", "targets/runtime/raido_runtime_limit.h"],
            define_macros=[("RAIDO_SHARED_RUNTIME", "1")],
            extra_compile_args=["-std=c11", "-O2", "-fvisibility=hidden", "-pthread"],
            extra_link_args=["-pthread", "-Wl,-Bsymbolic", "-Wl,-z,nodelete"],
            py_limited_api=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
