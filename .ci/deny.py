"""Holds the licences, bans and sources of deny.toml over every locked crate: `deny.py < metadata.json`.

Reads what `cargo metadata --format-version 1` prints. Evaluates SPDX expressions with AND, OR, WITH and parentheses, and
the old `A/B` for a choice.
"""

import json
import pathlib
import re
import sys
import tomllib

RULES = tomllib.loads((pathlib.Path(__file__).resolve().parent.parent / "deny.toml").read_text())


def permitted(expression: str, allowed: set[str]) -> bool:
    """Whether the expression can be met with the allowed licences alone."""
    words = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))
    value, rest = either(words, allowed)
    if rest:
        raise ValueError(f"cannot read the licence {expression!r}")
    return value


def either(words: list[str], allowed: set[str]) -> tuple[bool, list[str]]:
    value, words = both(words, allowed)
    while words[:1] == ["OR"]:
        other, words = both(words[1:], allowed)
        value = value or other
    return value, words


def both(words: list[str], allowed: set[str]) -> tuple[bool, list[str]]:
    value, words = single(words, allowed)
    while words[:1] == ["AND"]:
        other, words = single(words[1:], allowed)
        value = value and other
    return value, words


def single(words: list[str], allowed: set[str]) -> tuple[bool, list[str]]:
    if words[:1] == ["("]:
        value, words = either(words[1:], allowed)
        if words[:1] != [")"]:
            raise ValueError("a parenthesis is not closed")
        return value, words[1:]
    if not words:
        raise ValueError("the licence ends early")
    name, words = words[0], words[1:]
    if words[:1] == ["WITH"]:
        name, words = f"{name} WITH {words[1] if len(words) > 1 else ''}", words[2:]
    return name in allowed, words


def faults(metadata: dict, rules: dict) -> list[str]:
    allowed = set(rules["licenses"]["allow"])
    banned = {entry["crate"]: entry["reason"] for entry in rules["bans"]["deny"]}
    found = []
    for package in metadata["packages"]:
        name = f"{package['name']} {package['version']}"
        if reason := banned.get(package["name"]):
            found.append(f"{name} is banned: {reason}")
        if not package["license"] or not permitted(package["license"], allowed):
            found.append(f"{name} has licence {package['license']!r}, which deny.toml does not allow")
        if package["source"] and not package["source"].startswith("registry+"):
            found.append(f"{name} comes from {package['source']}, not from a registry")
        if not package["source"]:  # Our own packages: no dependency of theirs may float.
            found += [f"{name} asks for any version of {need['name']}" for need in package["dependencies"] if need["req"] == "*"]
    return found


def check_the_reader() -> None:
    """The evaluator itself, on expressions whose answers are known."""
    allowed = {"MIT", "Apache-2.0", "ISC"}
    cases = {"MIT": True, "GPL-3.0-only": False, "GPL-3.0-only OR MIT": True, "MIT AND GPL-3.0-only": False, "Zlib/MIT": True,
             "(MIT OR GPL-3.0-only) AND ISC": True, "Apache-2.0 WITH LLVM-exception": False, "Zlib AND ISC OR MIT": True}
    for expression, expected in cases.items():
        if permitted(expression, allowed) != expected:
            sys.exit(f"deny.py misreads {expression!r}")


if __name__ == "__main__":
    check_the_reader()
    listed = json.load(sys.stdin)
    problems = faults(listed, RULES)
    print("\n".join(problems) if problems else f"{len(listed['packages'])} crates keep the rules of deny.toml")
    sys.exit(bool(problems))
