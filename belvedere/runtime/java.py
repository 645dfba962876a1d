"""Java as this machine has it, and what Spark's processes find in their environment."""

import os
import re
import shutil
import subprocess
import sys
from typing import Final

#: Spark 4 runs on these.
OLDEST_JAVA: Final = 17


def java_command() -> str | None:
    """What Spark would run: the java of JAVA_HOME, else the first on the PATH; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    if home:
        found = os.path.join(home, "bin", "java")
        return found if os.access(found, os.X_OK) else None
    return shutil.which("java")


def java_version(command: str) -> int | None:
    """Its major version; None if it does not run or does not tell."""
    try:
        done = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return None if found is None else int(found[1])


def java_home_is_set() -> bool:
    return bool(os.environ.get("JAVA_HOME"))


def python_for_spark(package_directory: str) -> None:
    """Spark's local workers run this very Python, and find this very package."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = python_path_with(package_directory)


def stay_on_this_machine() -> None:
    """Else Spark takes, with a warning, whatever address the machine's name has."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def python_path_with(directory: str) -> str:
    """PYTHONPATH as it is, with this directory in it."""
    path = os.environ.get("PYTHONPATH", "")
    if directory in path.split(os.pathsep):
        return path
    return os.pathsep.join(filter(None, [directory, path]))


def memory_bytes() -> int:
    """Of this machine, or what a control group leaves of it."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(limit, encoding="ascii") as file:
                text = file.read().strip()
        except OSError:
            continue
        if text.isdecimal():
            found = min(found, int(text))
    return found
