"""python3 from_help.py PROGRAM VERSION MAN BASH: a manual page and a bash completion, from what the program says under --help.

Programs list options as "  -s,--long VALUE   text" and commands as "  name   text" below "Subcommands:" or "Commands:".
"""

import pathlib
import re
import subprocess
import sys


def help_of(program, *words):
    done = subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True)
    return done.stdout.replace(str(program), pathlib.Path(program).name)


def options(text):
    return sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", "\n".join(
        line for line in text.splitlines() if line.lstrip().startswith("-")))))


def commands(text):
    found = re.search(r"^(?:Subcommands|Commands):\n((?:[ \t]+.*\n?|\n(?=[ \t]))+)", text, re.MULTILINE)
    if not found:
        return []
    return [m.group(1) for m in re.finditer(r"^  ([a-z][\w-]*)(?:\s|$)", found.group(1), re.MULTILINE)]


def roff(text):
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join("\\&" + line if line.startswith((".", "'")) else line for line in escaped.splitlines())


def manual(name, version, text, of_commands):
    first = next(line for line in text.splitlines() if line.strip())
    summary = re.sub(r"^Foreshock's \w+: |^Foreshock: ", "", first.strip()).rstrip(".")
    out = [f'.TH {name.upper()} 1 "" "Foreshock {version}" "Foreshock"', ".SH NAME", roff(f"{name} - {summary}"),
           ".SH DESCRIPTION", ".nf", roff(text), ".fi"]
    for command, help_text in of_commands.items():
        out += [f".SH {command.upper()}", ".nf", roff(help_text), ".fi"]
    return "\n".join(out) + "\n"


def completion(name, text, of_commands):
    function = "_" + name.replace("-", "_")
    cases = "\n".join(f"    {command}) words='{' '.join(options(help_text))}' ;;" for command, help_text in of_commands.items())
    top = " ".join([*of_commands, *options(text)])
    body = f"""# bash completion of {name}; made from its --help
{function}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} words='{top}'
"""
    if of_commands:
        body += f"""  if ((COMP_CWORD > 1)); then
    case ${{COMP_WORDS[1]}} in
{cases}
    esac
  fi
"""
    return body + f"""  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}}
complete -o bashdefault -o default -F {function} {name}
"""


def main():
    program, version, man, bash = sys.argv[1:]
    name = pathlib.Path(program).name
    text = help_of(program)
    of_commands = {command: help_of(program, command) for command in commands(text)}
    pathlib.Path(man).write_text(manual(name, version, text, of_commands))
    pathlib.Path(bash).write_text(completion(name, text, of_commands))


if __name__ == "__main__":
    main()
