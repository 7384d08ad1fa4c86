"""Runs the program of the first argument, built for wasm32-wasip2, in Wasmtime:

    python tests/wasm/wasi.py target/wasm32-wasip2/debug/deps/wasi-….wasm

It needs the package `wasmtime`, whose version is in `.ci/run`.
"""

import sys

from wasmtime import Engine, ExitTrap, Store, WasiConfig
from wasmtime.component import Component, Linker

engine = Engine()
linker, store = Linker(engine), Store(engine)
linker.add_wasip2()
wasi = WasiConfig()
wasi.argv = sys.argv[1:]
wasi.inherit_stdout()
wasi.inherit_stderr()
store.set_wasi(wasi)

component = Component.from_file(engine, sys.argv[1])
instance = linker.instantiate(store, component)
name = next(name for name in component.type.exports(engine) if name.startswith("wasi:cli/run@"))
interface = instance.get_export_index(store, name)
run = instance.get_func(store, instance.get_export_index(store, "run", interface))
try:
    run(store)
except ExitTrap as trap:
    sys.exit(trap.code)
