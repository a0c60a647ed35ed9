# SPDX-License-Identifier: Apache-2.0
"""Thrift bindings for Python, generated for one run of the tests: `current` for the IDL of this
tree, `contract_2010` for the original IDL, which has only the four calls."""
import atexit
import importlib
import pathlib
import shutil
import subprocess
import sys
import tempfile

INTEGRATION = pathlib.Path(__file__).resolve().parent
ROOT = INTEGRATION.parent.parent
IDL = ROOT / "snowflake.thrift"
IDL_2010 = INTEGRATION / "clients" / "snowflake_2010.thrift"
IDL_LATER = INTEGRATION / "clients" / "later.thrift"

scratch = pathlib.Path(tempfile.mkdtemp(prefix="snowflake-bindings-"))
atexit.register(shutil.rmtree, scratch, ignore_errors=True)


def generate(generator, idl):
    """Runs `thrift --gen GENERATOR` once. Returns the directory of the generated code, which
    includes that of included IDLs."""
    directory = scratch / f"{generator.replace(':', '-').replace(',', '-')}-{idl.stem}"
    if not directory.exists():
        directory.mkdir()
        subprocess.run(["thrift", "-I", ROOT, "--gen", generator, "-r", "-out", directory, idl],
                       check=True)
    return directory


class Bindings:
    """The modules that Thrift's Python generator makes of one IDL."""

    def __init__(self, idl):
        sys.path.insert(0, str(generate("py", idl)))
        self.Snowflake = importlib.import_module(f"{idl.stem}.Snowflake")
        self.types = importlib.import_module(f"{idl.stem}.ttypes")
        self.idl = idl


current = Bindings(IDL)
current.SnowflakeExtended = importlib.import_module(f"{IDL.stem}.SnowflakeExtended")
contract_2010 = Bindings(IDL_2010)
