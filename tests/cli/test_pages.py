#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manual and what shells complete, which the command writes itself. GPUPOOL_COMMAND is its path."""

import re
import shutil
import subprocess
import unittest

from command import CommandTest, run


def commands():
    return re.findall(r"^  ([a-z]+) +[A-Z]", run("--help")[1], re.MULTILINE)


def options(command):
    """The long names of its options."""
    return re.findall(r"^  (?:-.,)?(--[a-z-]+)", run(command, "--help")[1], re.MULTILINE)


class Pages(CommandTest):
    def setUp(self):
        super().setUp()
        self.assertEqual(run("--write-pages", self.folder), (0, "", ""))
        self.bash = self.folder / "bash-completion/completions/gpupool"
        self.zsh = self.folder / "zsh/site-functions/_gpupool"
        self.fish = self.folder / "fish/vendor_completions.d/gpupool.fish"

    def test_a_folder_that_cannot_be_is_refused(self):
        file = self.write("file", "")
        code, out, err = run("--write-pages", file)
        self.assertEqual((code, out), (2, ""))
        self.assertRegex(err, r"^gpupool: .*gpupool\.1 cannot be written\n$")

    def test_the_manual_has_a_page_of_each_command(self):
        self.assertGreater(len(commands()), 10)
        pages = {page.name: page.read_text(encoding="utf-8") for page in (self.folder / "man/man1").iterdir()}
        self.assertEqual(sorted(pages), sorted(["gpupool.1", *(f"gpupool-{name}.1" for name in commands())]))
        for command in commands():
            page = pages[f"gpupool-{command}.1"]
            for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "SEE ALSO"):
                self.assertEqual(page.count(f"\n.SH {section}\n"), 1, (command, section))
            for option in options(command):
                self.assertIn("\\fB" + option.replace("-", "\\-") + "\\fR", page)
            self.assertNotIn("selftest\\-member", page)
            self.assertIn(f"gpupool\\-{command} (1)\n", pages["gpupool.1"])

    @unittest.skipUnless(shutil.which("groff"), "no groff")
    def test_the_manual_is_drawn_without_a_warning(self):
        for page in (self.folder / "man/man1").iterdir():
            drawn = subprocess.run(
                ["groff", "-man", "-Tutf8", "-ww", "-P-c", page], capture_output=True, text=True, check=True
            )
            self.assertEqual(drawn.stderr, "", page.name)
            text = re.sub(".\b", "", drawn.stdout)  # printed over, as bold is
            self.assertIn("EXIT STATUS" if page.name == "gpupool.1" else "EXAMPLES", text)
            # What is to be copied is as in the help.
            for line in run(*page.stem.split("-")[1:], "--help")[1].splitlines():
                if line.startswith("  gpupool "):
                    self.assertIn(line.strip() + "\n", text, page.name)

    def complete(self, *words):
        """What bash offers for the last word."""
        script = """
            source "$1"; shift
            COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
            _gpupool
            printf '%s\\n' "${COMPREPLY[@]}"
        """
        done = subprocess.run(
            ["bash", "-uc", script, "bash", self.bash, "gpupool", *words], capture_output=True, text=True, check=True
        )
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    @unittest.skipUnless(shutil.which("bash"), "no bash")
    def test_bash_completes(self):
        self.assertEqual(self.complete("re"), ["replay", "record", "report"])
        self.assertEqual(set(self.complete("")), {*commands(), "-h", "--help", "--version"})
        for command in commands():
            self.assertEqual(set(self.complete(command, "--")), set(options(command)), command)
        self.assertEqual(self.complete("replay", "--m"), ["--max-chunk", "--mode"])
        self.assertEqual(self.complete("replay", "--mode", ""), ["auto", "vmm", "driver"])
        self.assertEqual(self.complete("replay", "--mode", "=", "d"), ["driver"])
        self.assertEqual(self.complete("replay", "--mode", "="), ["auto", "vmm", "driver"])
        self.assertEqual(self.complete("export", "run.gpt", "--format", "p"), ["pprof", "prometheus"])
        # A file, which bash itself completes.
        self.assertEqual(self.complete("replay", "lm"), [])
        self.assertEqual(self.complete("none", "--"), [])

    def test_zsh_and_fish_know_all_options(self):
        zsh = self.zsh.read_text(encoding="utf-8")
        fish = self.fish.read_text(encoding="utf-8")
        self.assertTrue(zsh.startswith("#compdef gpupool\n"))
        for command in commands():
            part = zsh.partition(f"\n    {command}) _arguments")[2].partition(" ;;\n")[0]
            self.assertIn(f"-f -n __fish_use_subcommand -a {command} -d ", fish)
            for option in options(command):
                self.assertRegex(part, rf"\){option}=?\[", command)
                self.assertRegex(fish, rf"(?m)_from {command}'( -s .)? -l {option[2:]} .*-d '")
        self.assertIn("(--mode)--mode=[", zsh)
        self.assertIn(":auto|vmm|driver:(auto vmm driver)'", zsh)
        self.assertRegex(fish, r"-l mode -x -a 'auto vmm driver' -d ")

    @unittest.skipUnless(shutil.which("zsh"), "no zsh")
    def test_zsh_reads_it(self):
        subprocess.run(["zsh", "-n", self.zsh], check=True)

    @unittest.skipUnless(shutil.which("fish"), "no fish")
    def test_fish_reads_it(self):
        subprocess.run(["fish", "--no-execute", self.fish], check=True)


if __name__ == "__main__":
    unittest.main()
