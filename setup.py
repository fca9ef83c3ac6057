"""The one thing that pyproject.toml cannot say: how raido's C is built.

`raido.targets._runtime`, `raido.targets._vulkan` and `raido.targets._cuda` are plain shared libraries that know nothing of Python (they
are loaded with ctypes); the last two are built without Vulkan and CUDA, and find them when they are used. `raido.targets._call` makes
ordinary calls quick and keeps to the
stable interfaces of Python and NumPy; where Python's header files are missing it is left out. So one build of each serves every Python
version: hence their names. `-z nodelete` keeps the code of the runtime's threads mapped for the life of the process.
"""

import numpy
from setuptools import Extension, setup

COMPILE = ["-std=c11", "-O2", "-fvisibility=hidden"]

setup(
    ext_modules=[
        Extension(
            "raido.targets._runtime",
            sources=["targets/runtime/raido_runtime.c"],
            depends=["targets/runtime/raido_runtime.h", "targets/runtime/raido_runtime_limit.h"],
            define_macros=[("RAIDO_SHARED_RUNTIME", "1")],
            extra_compile_args=[*COMPILE, "-pthread"],
            extra_link_args=["-pthread", "-Wl,-Bsymbolic", "-Wl,-z,nodelete"],
            py_limited_api=True,
        ),
        Extension(
            "raido.targets._vulkan",
            sources=[f"targets/runtime/raido_{part}.c" for part in ("device", "plan", "vulkan", "vulkan_device")],
            depends=[
                f"targets/runtime/raido_{part}.h" for part in ("device", "vulkan", "vulkan_api", "vulkan_library")
            ],
            define_macros=[("RAIDO_SHARED_RUNTIME", "1")],
            extra_compile_args=[*COMPILE, "-pthread"],
            extra_link_args=["-pthread", "-ldl", "-Wl,-Bsymbolic", "-Wl,-z,nodelete"],
            py_limited_api=True,
        ),
        Extension(
            "raido.targets._cuda",
            sources=[
                f"targets/runtime/raido_{part}.c" for part in ("device", "plan", "cuda", "cuda_foreign", "cuda_repeat")
            ],
            depends=[f"targets/runtime/raido_{part}.h" for part in ("device", "cuda", "cuda_api", "cuda_inside")],
            define_macros=[("RAIDO_SHARED_RUNTIME", "1")],
            extra_compile_args=[*COMPILE, "-pthread"],
            extra_link_args=["-pthread", "-ldl", "-Wl,-Bsymbolic", "-Wl,-z,nodelete"],
            py_limited_api=True,
        ),
        Extension(
            "raido.targets._call",
            sources=["targets/runtime/raido_call.c"],
            depends=["targets/runtime/raido_runtime.h"],
            include_dirs=[numpy.get_include()],
            extra_compile_args=COMPILE,
            py_limited_api=True,
            optional=True,
        ),
    ],
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
