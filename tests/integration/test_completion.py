# SPDX-License-Identifier: Apache-2.0
"""Completions in bash, zsh and fish: exactly the words that --help lists. The shells are real, bash
and zsh on a terminal, and each reports its completions."""
import json
import pathlib
import re
import subprocess
import tempfile

from ctl import CtlTest, run
from harness import CTL_ENVIRONMENT, HANG_GUARD_S, SNOWFLAKECTL, SNOWFLAKED, wait_for
from terminal import Terminal

PROGRAMS = {"snowflakectl": SNOWFLAKECTL, "snowflaked": SNOWFLAKED}
LAYOUTS = {each["name"] for each in json.loads(run("--json", "layouts").stdout)}

# readline and zsh's editor work as usual; their candidates are also written to a file, and with
# Ctrl-T the current line
BASH = """
bind 'set bell-style none'
for program in snowflakectl snowflaked; do
    source "$SCRIPTS/$program.bash"
    eval "record_$program() { _$program \\"\\$@\\"
        printf '%s\\n' \\"\\${COMPREPLY[@]}\\" 'END' >>\\"\\$OFFERED\\"; }"
    complete -F "record_$program" "$program"
done
bind -x '"\\C-t": printf "%s\\nEND\\n" "$READLINE_LINE" >>"$OFFERED"'
PS1='READY '
"""
ZSH = """
autoload -U compinit
compinit -u -D
for program in snowflakectl snowflaked; do source $SCRIPTS/$program.zsh; done
compadd() {
    local -a matches
    if [[ ${@[1,(i)(-|--)]} != *-[a-zA-Z]#(O|A|D)* ]]; then
        builtin compadd -A matches "$@"
        print -rl -- $matches >>$OFFERED
    fi
    builtin compadd "$@"
}
offer() {
    zle list-choices
    print -r -- 'END' >>$OFFERED
}
zle -N offer
complete() {
    zle complete-word
    print -rl -- "$BUFFER" 'END' >>$OFFERED
}
zle -N complete
bindkey -e
bindkey '^I' offer
bindkey '^T' complete
unsetopt beep
setopt extended_glob
LISTMAX=9999
PS1='READY '
"""


def help_of(program, *command):
    return subprocess.run([PROGRAMS[program], *command, "--help"], env=CTL_ENVIRONMENT, check=True,
                          stdout=subprocess.PIPE, text=True, timeout=HANG_GUARD_S).stdout


def options_in(text):
    """Returns the long options and the short options."""
    heads = [re.split(r" {2,}|[ =](?!-)", line[2:])[0] for line in text.splitlines()
             if line.startswith("  -")]
    names = {name for head in heads for name in re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", head)}
    long = {name for name in names if name.startswith("--")}
    return long, names - long


def commands():
    return re.findall(r"^  ([a-z]+) ", help_of("snowflakectl").partition("Commands:")[2], re.M)


class Interactive:
    """A shell in which a test types a line, and then a tab."""

    def __init__(self, test, command, environment):
        self.offered = pathlib.Path(environment["OFFERED"])
        self.offered.touch()
        self.seen = 0
        self.shell = Terminal(command, columns=240, rows=50,
                              environment={**environment, "TERM": "xterm"})
        test.enterContext(self.shell)
        self.shell.wait_output(lambda output: "READY" in output)

    def type(self, keys):
        """Types keys. Returns the lines that are written then."""
        self.shell.type(keys)
        wait_for(lambda: self.offered.read_text()[self.seen:].endswith("END\n"), keys)
        text = self.offered.read_text()
        lines = text[self.seen:].splitlines()[:-1]
        self.seen = len(text)
        return lines

    def offer(self, line):
        lines = self.type(line + "\t")
        self.shell.type("\x15")  # the line is discarded
        return {each.rstrip("/") for each in lines if each}

    def complete(self, line):
        """Returns the completed line."""
        if "bash" in self.offered.name:
            self.type(line + "\t")
            line = ""
        completed = self.type(line + "\x14")[-1]
        self.shell.type("\x15")
        return completed


class Fish:
    def __init__(self, environment):
        self.environment = environment

    def offer(self, line):
        done = subprocess.run(
            ["fish", "--no-config", "--private", "-c",
             "for script in $SCRIPTS/*.fish; source $script; end; complete -C $argv[1]", line],
            env={**CTL_ENVIRONMENT, **self.environment}, cwd=self.environment["PWD"], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=HANG_GUARD_S, check=True)
        assert done.stderr == "", done.stderr
        offered = {each.partition("\t")[0] for each in done.stdout.splitlines()}
        word = line.rpartition(" ")[2]
        # after an =, it offers the whole word
        return {each.partition("=")[2] if "=" in word else each.rstrip("/") for each in offered}


class Completion(CtlTest):
    def setUp(self):
        scratch = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        scripts = scratch / "scripts"
        self.place = scratch / "place"
        for directory in (scripts, self.place, self.place / "inner"):
            directory.mkdir()
        (self.place / "a.conf").touch()
        for shell in ("bash", "zsh", "fish"):
            for program, words in (("snowflakectl", ()), ("snowflaked", ("snowflaked",))):
                text = self.assert_ok(run("completion", shell, *words))
                (scripts / f"{program}.{shell}").write_text(text)
        (scratch / "bashrc").write_text(BASH)
        (scratch / ".zshrc").write_text(f"cd {self.place}\n{ZSH}")
        environment = {"HOME": str(scratch), "SCRIPTS": str(scripts), "ZDOTDIR": str(scratch),
                       "PWD": str(self.place), "HISTFILE": "",
                       "PATH": f"{SNOWFLAKECTL.parent}:/usr/bin:/bin"}

        def named(name):
            return {**environment, "OFFERED": str(scratch / f"offered.{name}")}

        (scratch / "bashrc").write_text(f"cd {self.place}\n{BASH}")
        self.shells = {
            "bash": Interactive(self, ["/bin/bash", "--rcfile", scratch / "bashrc", "-i"],
                                named("bash")),
            "zsh": Interactive(self, ["/usr/bin/zsh", "-d", "-i"], named("zsh")),
            "fish": Fish(environment),
        }

    def check(self, line, expected, names=("bash", "zsh", "fish")):
        for name in names:
            shell = self.shells[name]
            with self.subTest(shell=name, line=line):
                offered = shell.offer(line)
                # where no argument is possible, zsh offers the options
                if not line.rpartition(" ")[2].startswith("-"):
                    offered = {each for each in offered if not each.startswith("-")}
                self.assertEqual(offered, set(expected))

    def test_commands(self):
        self.check("snowflakectl ", commands())
        self.check("snowflakectl --server a.example:7609 --timeout 5 ", commands())
        self.check("snowflakectl help ", commands())

    def test_options(self):
        self.check("snowflaked --", options_in(help_of("snowflaked"))[0])
        self.check("snowflakectl --", options_in(help_of("snowflakectl"))[0])
        for command in commands():
            long, short = options_in(help_of("snowflakectl", command))
            self.assertGreater(len(long), 3)
            self.check(f"snowflakectl {command} --", long)
            for name, shell in self.shells.items():
                with self.subTest(shell=name, command=command):
                    self.assertLessEqual(short, shell.offer(f"snowflakectl {command} -"))

    def test_values(self):
        for line, expected in (
                ("snowflakectl decode --from ", ("decimal", "hex", "crockford", "base62",
                                                 "base58")),
                ("snowflakectl decode --from=ba", ("base62", "base58")),
                ("snowflakectl decode --layout ", LAYOUTS),
                ("snowflakectl --server a.example:7609 range --layout ", LAYOUTS),
                ("snowflakectl audit --layout ", LAYOUTS),
                ("snowflakectl audit --from ", ()),
                ("snowflakectl id --server ", ()),
                ("snowflakectl top --sort ", ("worker", "address", "state", "ids", "calls",
                                              "round-trip", "clock", "reservation",
                                              "connections")),
                ("snowflakectl top -s c", ("calls", "clock", "connections")),
                ("snowflakectl bench --call ", ("get_id", "get_ids", "get_id_runs", "redis-incr")),
                ("snowflakectl registry ", ("init", "quarantine")),
                ("snowflakectl registry init ", ()),
                ("snowflakectl registry init --layout ", LAYOUTS),
                ("snowflakectl completion ", ("bash", "zsh", "fish")),
                ("snowflakectl completion bash ", ("snowflaked",)),
                ("snowflakectl config ", ("check", "show")),
                ("snowflaked --log-level ", ("error", "warning", "info", "debug")),
                ("snowflaked --on-clock-step ", ("refuse", "reclaim")),
                ("snowflaked --worker-id ", ("mac", "ip", "ordinal")),
                ("snowflaked --sequence-start ", ("continue",)),
                ("snowflaked --layout=", LAYOUTS),
                ("snowflaked --listen ", ())):
            self.check(line, expected)

    def test_files(self):
        for line in ("snowflakectl config check ", "snowflakectl audit ", "snowflakectl audit b ",
                     "snowflakectl workers --zookeeper-auth ", "snowflaked --config "):
            self.check(line, ("a.conf", "inner"), ("zsh", "fish"))
            self.check_completed(line + "a.c", line + "a.conf ")
        self.check("snowflaked --state-directory ", ("inner",), ("zsh", "fish"))
        self.check_completed("snowflaked --state-directory=", "snowflaked --state-directory=inner/")
        self.check_completed("snowflakectl config check b a", "snowflakectl config check b a")

    def check_completed(self, line, *expected):
        for name in ("bash", "zsh"):
            with self.subTest(shell=name, line=line):
                self.assertIn(self.shells[name].complete(line), expected)

    def test_what_is_quoted(self):
        for name in ("my file.conf", "it's", "col:on"):
            (self.place / name).touch()
        for before in ("config check ", "--json config check ", "workers --zookeeper-auth=",
                       "audit 'a b' ", "--server a:7609 audit \"a\\\" b\" a\\ b "):
            # zsh may quote it in its own way
            for word, *expected in (("my\\ f", "my\\ file.conf "),
                                    ("'my f", "'my file.conf' ", "my\\ file.conf "),
                                    ('"my f', '"my file.conf" ', "my\\ file.conf "),
                                    ("it", "it\\'s "), ("co", "col\\:on ", "col:on ")):
                self.check_completed(f"snowflakectl {before}{word}",
                                     *(f"snowflakectl {before}{each}" for each in expected))
        for name in ("my\\ f", "'my f", '"my f'):
            self.assertEqual(self.shells["fish"].offer(f"snowflakectl config check {name}"),
                             {"my file.conf"})

    def test_options_behind_options(self):
        for between in ("--json", "--server a:7609", "--server=[::1]:1", "--server 'a b'",
                        "--timeout 5 --sort ids", "-i 5"):
            line = f"snowflakectl top {between} --rev"
            self.check_completed(line, line + "erse ")


class Installed(CtlTest):
    def test_the_build_makes_what_the_command_prints(self):
        directory = SNOWFLAKECTL.parent
        for program, words in (("snowflakectl", ()), ("snowflaked", ("snowflaked",))):
            for shell, name in (("bash", f"{program}.bash"), ("zsh", f"_{program}"),
                                ("fish", f"{program}.fish")):
                self.assertEqual((directory / name).read_text(),
                                 self.assert_ok(run("completion", shell, *words)))

    def test_what_there_is_no_script_for(self):
        for words in ((), ("tcsh",), ("bash", "zsh"), ("bash", "snowflaked", "bash")):
            self.assert_fails(run("completion", *words), 2, "bash, zsh or fish")
