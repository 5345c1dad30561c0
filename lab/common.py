"""What every part of the lab shares: its folders, its arms, its error."""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent

# Each arm: the weights it serves, the name it answers to, and what makes it differ from the baseline.
# `context` is in tokens for all slots together; each of the `slots` gets its share.
BASE = {"weights": "q8_0", "model": "smollm2-135m-q8_0", "slots": 4, "context": 4096}
ARMS = {
    "q8": BASE,
    "q4": BASE | {"weights": "q4_0", "model": "smollm2-135m-q4_0"},
    "kv-q4": BASE | {"model": "smollm2-135m-q8_0-kv-q4_0", "kv": "Q4_0"},
    "speculative": BASE | {"model": "smollm2-135m-q8_0-speculative", "draft": "q4_0"},
    "sliding": BASE | {"model": "smollm2-135m-q8_0-sliding", "context": 1024, "context_shift": True},
}
THREADS = 1
DEFAULT_ARMS = ["q8", "q4", "kv-q4", "speculative"]


class LabError(Exception):
    """A mistake or a lack that the user can mend; its text says where and how."""


def cache_dir() -> pathlib.Path:
    """The folder that holds everything the lab makes; created when missing."""
    named = os.environ.get("COUNTERPOISE_LAB_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    path = pathlib.Path(named or os.path.join(home, "counterpoise-lab")).absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(f"cannot create the cache folder {path}: {error.strerror}; "
                       "set COUNTERPOISE_LAB_CACHE to a writable one") from error
    return path


def say(text: str) -> None:
    """Progress goes to stderr; stdout carries results only."""
    print(f"lab: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def locked(path: pathlib.Path):
    """Holds an exclusive lock on `path` for the length of the block: two labs may share one cache."""
    with open(path, "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def write_atomically(path: pathlib.Path, text: str, mode: int = 0o600) -> None:
    """Writes beside the target, then renames: a reader sees the old text or the new, never half."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        pathlib.Path(temporary).unlink(missing_ok=True)
        raise


def read_json(path: pathlib.Path):
    """The file's value, or None where it is missing or broken: both mean that it must be made anew."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def sha256(path: pathlib.Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
